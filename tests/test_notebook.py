"""What a notebook shows of engines, plans and workloads: whole, bounded, escaped, and without scripts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import panewise
from panewise.notebook import MOST_ROWS, block, counted, folded, line, names, table

TRADES = """
    CREATE STREAM trades (at TIMESTAMP, symbol STRING, price DOUBLE) TIMESTAMP BY at WATERMARK 1 MINUTE;
    CREATE QUERY highest AS SELECT symbol, MAX(price) FROM trades [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY symbol;
    CREATE QUERY recent AS SELECT COUNT(*), AVG(price) FROM trades [RANGE 15 MINUTES] WHERE symbol = 'A<B';
    CREATE QUERY frequent AS SELECT TOP_K(symbol, 3) FROM trades [RANGE 10 MINUTES SLIDE 5 MINUTES];
"""
HOSTILE = """
    CREATE STREAM "<script>s" (at TIMESTAMP, "<b>k" STRING) TIMESTAMP BY at;
    CREATE QUERY "<img src=x>" AS SELECT COUNT(*) FROM "<script>s" [RANGE 2 MINUTES SLIDE 1 MINUTE]
      WHERE "<b>k" = '</td><script>alert(1)</script>' GROUP BY "<b>k";
    CREATE QUERY "&amp;" AS SELECT COUNT(*) FROM "<script>s" [RANGE 2 MINUTES];
"""


class Page(HTMLParser):
    """The tags and the text of a piece of HTML; tags must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.content = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.content += data


def shown(value: object) -> Page:
    return Page(value._repr_html_())  # type: ignore[attr-defined]


def pushed() -> panewise.Engine:
    engine = panewise.Engine(TRADES)
    minute = 60_000_000
    engine.push("trades", {"at": [0, minute, 20 * minute], "symbol": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    engine.advance("trades")
    return engine


def test_a_line_says_how_things_stand() -> None:
    workload = panewise.read(TRADES)
    assert repr(workload) == "Workload(1 stream: trades; 3 queries: highest, recent, frequent)"
    assert repr(panewise.Engine(workload)) == "Engine(3 queries; trades: 0 events)"
    assert repr(pushed()) == (
        "Engine(3 queries; trades: 3 events to 1970-01-01 00:20:00, watermark 1970-01-01 00:19:00)"
    )
    assert re.fullmatch(
        r"Plan\(1 sliding query in 1 execution tree, 1 on demand, 1 of rows; "
        r"[\d,]+ operations a second at an assumed 1,000 events a second\)",
        repr(panewise.optimize(workload)),
    )


def test_nothing_is_shown_as_nothing() -> None:
    empty = panewise.Workload()
    assert repr(empty) == "Workload(0 streams; 0 queries)"
    assert repr(panewise.Engine(empty)) == "Engine(0 queries)"
    assert "0 queries" in shown(empty).content
    assert "nothing is held yet" in shown(panewise.Engine(empty)).content
    assert "svg" not in shown(panewise.optimize(empty)).tags


def test_a_notebook_shows_streams_queries_and_what_is_held() -> None:
    content = shown(pushed()).content
    for part in ("trades", "highest", "recent", "frequent", "1970-01-01 00:19:00", "fragments", "running_intervals"):
        assert part in content


def test_a_stream_that_ended() -> None:
    engine = pushed()
    engine.advance("trades", panewise.END_OF_STREAM)
    assert repr(engine).endswith("watermark end of stream)")
    assert "end of stream" in shown(engine).content


def test_pictures_are_in_it() -> None:
    engine = pushed()
    assert {"svg", "rect", "text"} <= shown(engine).tags
    assert "fragments" in shown(panewise.optimize(engine.workload)).content


def test_queries_that_came_and_went() -> None:
    engine = pushed()
    engine.remove("highest")
    assert "highest" not in shown(engine).content
    engine.add("CREATE QUERY later AS SELECT MIN(price) FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES];")
    assert "later" in shown(engine).content


def test_what_users_wrote_is_escaped() -> None:
    workload = panewise.read(HOSTILE)
    engine = panewise.Engine(workload)
    engine.push("<script>s", {"at": [0, 1], "<b>k": ["x", "y"]})
    for value in (workload, panewise.optimize(workload), engine):
        page = shown(value)
        assert not page.tags & {"script", "img", "b", "style", "link", "iframe"}
        assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "href")]
        assert "<script>s" in page.content
        assert "<img src=x>" in page.content
        assert "&amp;" in page.content


@pytest.mark.parametrize("kind", ["sliding", "on demand"])
def test_a_long_workload_is_cut(kind: str) -> None:
    slide = "SLIDE 1 MINUTE" if kind == "sliding" else ""
    workload = panewise.read(
        "CREATE STREAM s (at TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY at;"
        + "".join(
            f"CREATE QUERY q{n} AS SELECT MAX(x) FROM s [RANGE {n % 50 + 1} MINUTES {slide}] GROUP BY k;"
            for n in range(1000)
        )
    )
    for value in (workload, panewise.optimize(workload), panewise.Engine(workload)):
        html = shown(value)
        assert "q0" in html.content
        assert "q999" not in html.content
        assert len(html.content) < 20_000
        assert len(repr(value)) < 300
    assert f"and {1000 - MOST_ROWS} more" in shown(workload).content


def test_pieces() -> None:
    assert table(("a",), [], 0) == ""
    assert "and 5 more" in table(("a",), ((n,) for n in range(25)), 25)
    assert "more" not in table(("a",), ((n,) for n in range(20)), 20)
    assert "1,234" in table(("a",), [(1234,)], 1)
    long = Page(table(("a",), [("x" * 1000,)], 1)).content
    assert len(long) < 300
    assert long.endswith("…")
    assert Page(block("<t>", line("<l>"), folded("<f>", line("x")))).content == "<t><l><f>x"
    assert names([]) == ""
    assert counted(0, "query", "queries") == "0 queries"

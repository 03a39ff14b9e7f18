"""The picture of a plan is well-formed, shows every tree, and counts what it leaves out."""

from __future__ import annotations

from xml.etree import ElementTree

import panewise

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;\n"


def picture_of(*queries: str) -> tuple[ElementTree.Element, list[str]]:
    text = STREAM + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries))
    picture = ElementTree.fromstring(panewise.optimize(panewise.read(text)).picture())
    return picture, [element.text or "" for element in picture.iter() if element.tag.endswith("text")]


def bars(picture: ElementTree.Element) -> list[float]:
    """The widths of all rectangles except the background."""
    rectangles = [element for element in picture.iter() if element.tag.endswith("rect")]
    return [float(element.attrib["width"]) for element in rectangles[1:]]


def test_every_tree_has_its_fragments_and_windows() -> None:
    picture, texts = picture_of(
        "SELECT SUM(x) FROM s [RANGE 12 SECONDS SLIDE 9 SECONDS] GROUP BY k",
        "SELECT MAX(x) FROM s [RANGE 12 SECONDS SLIDE 9 SECONDS] GROUP BY k",
        "SELECT SUM(x) FROM s [ROWS 10 SLIDE 5]",
    )
    assert "3 queries in 2 execution trees" in texts
    assert "[RANGE 12 SECONDS SLIDE 9 SECONDS] x 2" in texts
    assert "tree 1: s by one group, 1 query" in texts
    assert "30 seconds" in texts
    assert "20 rows" in texts
    # 30 s of the first tree have edges at 0 3 9 12 18 21 27, 20 rows of the second at 0 5 10 15; three instances each.
    assert len(bars(picture)) == 7 + 3 + 4 + 3
    assert all(width > 0 for width in bars(picture))


def test_what_is_too_much_is_counted() -> None:
    picture, texts = picture_of(
        *(f"SELECT SUM(x) FROM s [RANGE {n} MINUTES SLIDE 1 MINUTE]" for n in range(1, 30)),
        "SELECT SUM(x) FROM s [RANGE 300 DAYS SLIDE 1 SECOND] GROUP BY k",
    )
    assert "and 13 more windows" in texts
    assert len(bars(picture)) < 1000


def test_a_plan_without_trees_is_a_picture_too() -> None:
    assert picture_of("SELECT SUM(x) FROM s [RANGE 1 MINUTE]")[1] == ["0 queries in 0 execution trees"]

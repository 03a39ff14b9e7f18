"""Lookups over HTTP give what the engine gives."""

from __future__ import annotations

import json
from time import sleep
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.serve.conftest import START_US, as_columns, trades

import panewise
from panewise.serve import engine_source
from panewise.serve.application import Application
from panewise.serve.encoding import ARROW
from panewise.serve.engine_source import EngineSource
from panewise.serve.limits import Limits
from panewise.serve.server import running


def answers(client: httpx.Client, query: str, **parameters: Any) -> dict[str, Any]:
    if "keys" in parameters:
        parameters["keys"] = json.dumps(parameters["keys"])
    response = client.get(f"/v1/queries/{query}/answers", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(("watermark", "status"), [("soon", 400), ("2026-01-05T11:00:00", 409), ("9" * 30, 400)])
def test_events_with_a_watermark_that_is_refused_are_not_taken(
    client: httpx.Client, source: EngineSource, watermark: str, status: int
) -> None:
    before = client.get("/v1/queries/all_trades/answers").json()["rows"]
    event = json.dumps({"at": "2026-01-05T12:05:05", "symbol": "AB", "price": 1.0, "volume": 1})
    sent = client.post(
        "/v1/streams/trades/events",
        params={"watermark": watermark},
        content=event,
        headers={"content-type": "application/x-ndjson"},
    )
    assert sent.status_code == status, sent.text
    assert "watermark" in sent.json()["error"]["message"]
    assert source.position.events == {"trades": 31}
    assert client.get("/v1/queries/all_trades/answers").json()["rows"] == before


def test_events_are_answered_for_however_long_they_take(source: EngineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is told of a failure sends them again."""
    push = source.push

    def slow(stream: str, events: pa.Table, watermark: int | str | None) -> None:
        sleep(0.5)
        push(stream, events, watermark)

    monkeypatch.setattr(source, "push", slow)
    with running(Application(source, limits=Limits(lookup_s=0.1))) as url:
        event = json.dumps({"at": "2026-01-05T12:05:05", "symbol": "AB", "price": 1.0, "volume": 1})
        headers = {"content-type": "application/x-ndjson"}
        sent = httpx.post(f"{url}/v1/streams/trades/events", content=event, headers=headers)
    assert (sent.status_code, sent.json()["events"]) == (200, 1)


def test_one_key(client: httpx.Client, source: EngineSource) -> None:
    found = answers(client, "latest", keys={"symbol": "AB"})
    expected = source.engine.lookup_one("latest", "AB")
    assert [(row["symbol"], row["price"], row["best"]) for row in found["rows"]] == [
        ("AB", expected["price"], expected["best"])
    ]
    assert found["newest_event"] == "2026-01-05T12:05:00Z"
    assert found["watermark"] == "2026-01-05T12:04:50Z"
    assert found["exact"] is True
    assert found["intervals"] == {}
    assert 0 <= found["age_s"] < 60


def test_many_keys_and_a_group_that_does_not_exist(client: httpx.Client) -> None:
    found = answers(client, "latest", keys={"symbol": ["AB", "XX", "CD"]})
    assert sorted(row["symbol"] for row in found["rows"]) == ["AB", "CD"]


def test_all_groups_with_having(client: httpx.Client, source: EngineSource) -> None:
    found = answers(client, "busy")
    assert (
        [row["symbol"] for row in found["rows"]] == source.engine.lookup("busy").column("symbol").to_pylist() == ["AB"]
    )


def test_a_sliding_query_shows_its_newest_window_that_closed(client: httpx.Client) -> None:
    found = answers(client, "volume")
    assert {row["window_end"] for row in found["rows"]} == {"2026-01-05T12:04:00Z"}
    covered = [event for event in trades(0, 310) if START_US + 120e6 <= event["at"] < START_US + 240e6]
    for row in found["rows"]:
        mine = [event["volume"] for event in covered if event["symbol"] == row["symbol"]]
        assert (row["volume"], row["trades"]) == (sum(mine), len(mine))


@pytest.mark.parametrize("keys", [{"symbol": "CD"}, {"symbol": ["CD", "EF"]}])
def test_a_sliding_query_by_key_and_time(client: httpx.Client, keys: dict[str, Any]) -> None:
    found = answers(client, "volume", keys=keys, at="2026-01-05T12:03:30")
    assert {row["window_end"] for row in found["rows"]} == {"2026-01-05T12:03:00Z"}
    wanted = keys["symbol"] if isinstance(keys["symbol"], list) else [keys["symbol"]]
    assert sorted(row["symbol"] for row in found["rows"]) == wanted


def test_a_session_is_the_one_that_a_group_is_in() -> None:
    source = EngineSource(
        panewise.Engine(
            """CREATE STREAM s (t TIMESTAMP, k STRING) TIMESTAMP BY t;
            CREATE QUERY visits AS SELECT k, COUNT(*) AS n FROM s [SESSION GAP 10 SECONDS MAX 1 DAY] GROUP BY k;"""
        )
    )
    times = [START_US + second * 1_000_000 for second in (0, 5, 30, 31)]
    with running(Application(source)) as url, httpx.Client(base_url=url) as client:
        assert answers(client, "visits")["rows"] == []
        source.push("s", pa.table({"t": times, "k": ["a", "b", "a", "a"]}), None)
        assert [(row["k"], row["n"]) for row in answers(client, "visits")["rows"]] == [("a", 2)]
        assert answers(client, "visits", keys={"k": "b"})["rows"] == []
        assert answers(client, "visits", at=times[3] + 10_000_000)["rows"] == []
        refused = client.get("/v1/queries/visits/history", params={"keys": '{"k": "a"}'})
        assert (refused.status_code, "which each group has at times of its own" in refused.text) == (409, True)


def test_at_a_time(client: httpx.Client, source: EngineSource) -> None:
    at_us = START_US + 100_000_000
    found = answers(client, "latest", keys={"symbol": "AB"}, at=at_us)
    assert found["rows"][0]["best"] == source.engine.lookup_one("latest", "AB", at_us)["best"]


def test_several_queries_in_one_request(client: httpx.Client) -> None:
    body = {"queries": ["latest", "volume", "all_trades"], "keys": {"symbol": "AB"}}
    found = client.post("/v1/lookup", json=body).json()["answers"]
    assert [one["query"] for one in found] == body["queries"]
    assert [len(one["rows"]) for one in found] == [1, 1, 1]
    assert len({one["version"] for one in found}) == 1
    assert found[2]["rows"][0]["trades"] == 30


def test_arrow(client: httpx.Client, source: EngineSource) -> None:
    response = client.get("/v1/queries/latest/answers", headers={"accept": ARROW})
    table = pa.ipc.open_stream(response.content).read_all()
    assert table.equals(source.engine.lookup("latest"))
    assert table.schema.metadata[b"panewise.watermark"] == b"2026-01-05T12:04:50Z"
    posted = client.post("/v1/lookup", json={"queries": ["latest"]}, headers={"accept": ARROW})
    assert pa.ipc.open_stream(posted.content).read_all().equals(table)


def test_top_groups_and_pages(client: httpx.Client) -> None:
    top = answers(client, "latest", sort="best", descending="true", limit=1)
    assert top["total_rows"] == 3
    rest = answers(client, "latest", sort="best", descending="true", limit=5, offset=1)
    assert [row["best"] for row in [*top["rows"], *rest["rows"]]] == sorted(
        (row["best"] for row in [*top["rows"], *rest["rows"]]), reverse=True
    )


@pytest.mark.parametrize(("query", "points"), [("volume", 3), ("latest", 60)])
def test_the_history_of_a_group(client: httpx.Client, source: EngineSource, query: str, points: int) -> None:
    asked = {"keys": json.dumps({"symbol": "AB"}), "points": points}
    found = client.get(f"/v1/queries/{query}/history", params=asked).json()["points"]
    assert len(found) == points
    times = [point["at"] for point in found]
    assert times == sorted(times)
    newest = answers(client, query, keys={"symbol": "AB"})["rows"][0]
    assert found[-1]["row"] == newest


def test_json_has_no_nan() -> None:
    from panewise.serve.encoding import rows_of

    table = pa.table({"x": [float("nan"), float("inf"), -float("inf"), 1.5, None]})
    assert [row["x"] for row in rows_of(table)] == ["NaN", "Infinity", "-Infinity", 1.5, None]


def test_an_interval_is_told(source: EngineSource) -> None:
    from panewise.serve.encoding import Told

    source.engine.add("CREATE QUERY near AS SELECT SUM(volume) AS n FROM trades [RANGE 5 MINUTES] WITHIN 0.1;")
    found = Told(source.position).answer("near", "trades", source.engine.lookup("near"), 10)
    assert found.exact is False
    assert found.intervals == {"n": ("n low", "n high")}


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/v1/queries/nobody/answers", 404, "UnknownNameError"),
        ("/v1/queries/latest/answers?at=yesterday", 400, "TimeError"),
        ('/v1/queries/latest/answers?keys={"carrier":"AA"}', 400, "KeysError"),
        ("/v1/queries/latest/answers?keys=AB", 400, "RequestError"),
        ("/v1/queries/latest/answers?limit=many", 400, "ArgumentError"),
        ("/v1/queries/latest/answers?limit=99999999", 400, "ArgumentError"),
        ("/v1/queries/latest/answers?sort=nothing", 400, "ArgumentError"),
        ("/v1/queries/latest/history", 400, "ArgumentError"),
        ("/v1/nothing", 404, "RequestError"),
    ],
)
def test_mistakes(client: httpx.Client, path: str, status: int, kind: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.json()["error"]["kind"]) == (status, kind), response.text


def test_windows_that_are_kept_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    from panewise.serve import kept_windows

    monkeypatch.setattr(kept_windows, "MOST_ENTRIES", 2)
    source = EngineSource(
        panewise.Engine("""
        CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t;
        CREATE QUERY q AS SELECT SUM(x) AS x FROM s [RANGE 1 SECOND SLIDE 1 SECOND];
    """)
    )
    for second in range(6):
        source.push("s", pa.table({"t": [START_US + second * 1_000_000], "x": [second]}), None)
    found = source.read(lambda reader: reader.lookup("q", None, None), wait=True)
    assert found.column("x").to_pylist() == [4]
    with pytest.raises(panewise.HistoryError, match="windows are kept that end after"):
        source.read(lambda reader: reader.lookup("q", None, START_US + 2_000_000), wait=True)


def test_a_query_by_the_name_of_another_has_its_own_windows() -> None:
    """Both come and go by one request, and so does the query that reads their answers."""
    source = EngineSource(
        panewise.Engine("""
        CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
        CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k;
        CREATE QUERY r AS SELECT MAX(total) AS most FROM q [RANGE 2 SECONDS SLIDE 2 SECONDS];
    """)
    )

    def rows(query: str, keys: object = None) -> list[dict[str, Any]]:
        found = source.read(lambda reader: reader.lookup(query, keys, None), wait=True)
        return [{n: row[n] for n in row if "window" not in n} for row in found.to_pylist()]

    def push(first_s: int) -> None:
        times = [START_US + second * 1_000_000 for second in range(first_s, first_s + 5)]
        source.push("s", pa.table({"t": times, "k": ["a"] * 5, "x": range(5)}), None)

    push(0)
    assert (rows("q"), rows("r")) == ([{"k": "a", "total": 3}], [{"most": 3}])
    source.add("""
        DROP QUERY r; DROP QUERY q;
        CREATE QUERY q AS SELECT x, COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY x;
        CREATE QUERY r AS SELECT x, SUM(n) AS n FROM q [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY x;
    """)
    assert (rows("q"), rows("q", {"x": 3}), rows("r")) == ([], [], [])
    push(6)
    assert (rows("q"), rows("q", {"x": 3})) == ([{"x": 3, "n": 1}], [{"x": 3, "n": 1}])
    assert rows("r", {"x": 2}) == [{"x": 2, "n": 1}]


def test_corrected_windows_count() -> None:
    source = EngineSource(
        panewise.Engine("""
        CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t ON LATE CORRECT 1 HOUR;
        CREATE QUERY q AS SELECT k, SUM(x) AS x FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;
    """)
    )
    second = 1_000_000
    columns = {"t": [START_US, START_US + 1 * second, START_US + 12 * second], "k": [1, 2, 1], "x": [1, 2, 4]}
    source.push("s", pa.table(columns), None)
    source.push("s", pa.table({"t": [START_US + 2 * second], "k": [1], "x": [8]}), None)
    at_us = START_US + 10 * second
    found = source.read(lambda reader: reader.lookup("q", None, at_us), wait=True)
    assert dict(zip(found.column("k").to_pylist(), found.column("x").to_pylist())) == {1: 9, 2: 2}


def test_events_come_as_arrow_and_as_json_lines(client: httpx.Client, source: EngineSource) -> None:
    lines = "\n".join(json.dumps(event) for event in trades(310, 400))
    pushed = client.post("/v1/streams/trades/events", content=lines, headers={"content-type": "application/x-ndjson"})
    assert pushed.json()["events"] == 9
    assert pushed.json()["watermark"] == "2026-01-05T12:06:20Z"
    table = pa.table(as_columns(trades(400, 500)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    pushed = client.post("/v1/streams/trades/events", content=body, headers={"content-type": ARROW})
    assert pushed.json()["events"] == 10
    expected = panewise.Engine(source.engine.workload)
    expected.push("trades", as_columns(trades(0, 500)))
    assert answers(client, "all_trades")["rows"][0]["trades"] == expected.lookup_one("all_trades")["trades"]
    late = client.post("/v1/streams/trades/events", content=body, headers={"content-type": ARROW})
    assert late.json()["late"] > 0
    ended = client.post(
        "/v1/streams/trades/events?watermark=end", content=b"", headers={"content-type": "application/x-ndjson"}
    )
    assert ended.json()["watermark"] == "end", ended.text
    assert len(answers(client, "volume")["rows"]) > 0


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"not json", "application/x-ndjson", 400),
        (b'{"at": "never", "symbol": "AB", "price": 1.0, "volume": 1}', "application/x-ndjson", 400),
        (b'{"at": 1, "symbol": 7}\n{"at": 2, "symbol": "x"}', "application/x-ndjson", 400),
        (b"ARROW1", ARROW, 400),
    ],
)
def test_events_that_do_not_fit(client: httpx.Client, body: bytes, kind: str, status: int) -> None:
    response = client.post("/v1/streams/trades/events", content=body, headers={"content-type": kind})
    assert response.status_code == status, response.text
    assert client.get("/v1/streams").json()["streams"][0]["events"] == 31


def test_an_answer_between_two_parts_of_events_tells_how_far_it_is(
    source: EngineSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(_: float) -> None:
        seen.append(
            source.read(lambda at: (at.lookup("all_trades", None, None)["window_end"][0], at.position), wait=True)
        )

    monkeypatch.setattr(engine_source, "EVENTS_AT_ONCE", 2)
    monkeypatch.setattr(engine_source, "sleep", look)
    monkeypatch.setattr(source, "_waiting", 1)
    source.push("trades", pa.table(as_columns(trades(310, 350))), None)
    assert [position.newest_us["trades"] for _, position in seen] == [end.value for end, _ in seen]
    assert [position.events["trades"] for _, position in seen] == [33, 35]


def test_of_many_events_all_are_taken_or_none(source: EngineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_source, "EVENTS_AT_ONCE", 3)
    good = as_columns(trades(310, 400))
    with pytest.raises(panewise.EventsError):
        source.push("trades", pa.table({**good, "at": [*good["at"][:-1], None]}), None)
    assert source.engine.position("trades").events == 31
    source.push("trades", pa.table(good), None)
    assert source.position.events["trades"] == 40

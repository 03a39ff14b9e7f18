"""Queries are listed, tried, added and dropped over HTTP; the plan, the streams and the state are told."""

from __future__ import annotations

import json

import httpx
import jsonschema
import pyarrow as pa
import pytest
from tests.serve.conftest import START_US, STATEMENTS, as_columns, trades

import panewise
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.server import running

NEW = "CREATE QUERY more AS SELECT symbol, MIN(price) AS low FROM trades [RANGE 1 MINUTE] GROUP BY symbol;"


def test_the_list_is_searched_and_comes_in_pages(client: httpx.Client) -> None:
    everything = client.get("/v1/queries").json()
    assert everything["total"] == 4
    assert [one["name"] for one in everything["queries"]] == ["volume", "latest", "busy", "all_trades"]
    page = client.get("/v1/queries?offset=1&limit=2").json()
    assert [one["name"] for one in page["queries"]] == ["latest", "busy"]
    found = client.get("/v1/queries?search=TRADES").json()
    assert found["queries"][0]["name"] == "all_trades"  # names come before statements
    one = client.get("/v1/queries/volume").json()
    assert (one["kind"], one["group_by"], one["types"]) == ("sliding", ["symbol"], {"symbol": "STRING"})


def test_a_query_comes_and_goes(client: httpx.Client, source: EngineSource) -> None:
    tried = client.post("/v1/queries?check=true", json={"statements": NEW}).json()
    assert tried == {"added": ["more"], "dropped": [], "holds": "not sent"}
    assert "more" not in source.workload.queries
    assert client.post("/v1/queries", json={"statements": NEW}).json()["holds"] == "now"
    assert client.get("/v1/queries/more/answers").status_code == 200
    assert client.delete("/v1/queries/more").json()["dropped"] == ["more"]
    assert client.get("/v1/queries/more").status_code == 404
    assert client.delete("/v1/queries/more").status_code == 404


def test_an_error_has_its_place(client: httpx.Client, source: EngineSource) -> None:
    statement = "CREATE QUERY wrong AS\n  SELECT SUM(prise) FROM trades [RANGE 1 MINUTE];"
    response = client.post("/v1/queries", json={"statements": statement})
    error = response.json()["error"]
    assert response.status_code == 422
    assert (error["kind"], error["line"], error["column"]) == ("StatementError", 2, 14)
    assert "price" in error["hint"]
    assert "wrong" not in source.workload.queries


def test_a_server_that_only_reads(source: EngineSource) -> None:
    with running(Application(source, can_add=False)) as url, httpx.Client(base_url=url) as client:
        assert client.post("/v1/queries", json={"statements": NEW}).status_code == 403
        assert client.delete("/v1/queries/latest").status_code == 403
        assert client.post("/v1/queries?check=true", json={"statements": NEW}).status_code == 200
        assert client.get("/v1/streams").json()["can_add"] is False


def test_the_plan_and_its_picture(client: httpx.Client) -> None:
    found = client.get("/v1/plan").json()
    assert [query["query"] for tree in found["plan"]["trees"] for query in tree["queries"]] == ["volume"]
    (tree,) = found["work"]
    assert tree["fed"] > 0
    assert tree["predicted_fed"] > 0
    assert "on demand" in found["text"]
    picture = client.get("/v1/plan.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.text.startswith("<svg")


def test_the_plan_is_for_the_rate_that_was_seen(client: httpx.Client, source: EngineSource) -> None:
    """Of events 10 s apart, then of twice as many."""
    found = client.get("/v1/plan").json()
    assert found["plan"]["rate_per_s"] == pytest.approx(31 / 300)
    assert found["plan"]["rate_is_assumed"] is False
    assert "assumed 1,000 events" not in found["text"]
    source.push("trades", pa.table(as_columns(trades(310, 610) * 2)), None)
    assert client.get("/v1/plan").json()["plan"]["rate_per_s"] == pytest.approx(91 / 600)
    assert client.get("/v1/plan.svg").status_code == 200


def test_the_plan_before_any_event_is_for_an_assumed_rate() -> None:
    plan, text = EngineSource(panewise.Engine(STATEMENTS)).plan()
    assert plan.rate_is_assumed
    assert "an assumed 1,000 events a second" in text


def test_streams_and_statistics(client: httpx.Client) -> None:
    (stream,) = client.get("/v1/streams").json()["streams"]
    assert (stream["events"], stream["late_events"], stream["lag_s"]) == (31, 0, 10.0)
    assert client.get("/v1/statistics").json()["streams"]["trades"]["events"] == 31


def test_metrics_follow_requests(client: httpx.Client) -> None:
    for _ in range(3):
        client.get("/v1/queries/latest")
    client.get("/v1/queries/nobody")
    client.get("/some/where")
    text = client.get("/metrics").text
    assert 'panewise_serve_requests_total{route="/v1/queries/{name}",status="200"} 3.0' in text
    assert 'panewise_serve_requests_total{route="/v1/queries/{name}",status="404"} 1.0' in text
    assert 'panewise_serve_requests_total{route="(none)",status="404"} 1.0' in text
    assert 'panewise_serve_events_total{stream="trades"} 31.0' in text
    assert "panewise_serve_age_seconds" in text


def test_openapi_describes_every_operation(client: httpx.Client, application: Application) -> None:
    described = client.get("/openapi.json").json()
    there = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert there == {(one.method, one.path) for one in application.operations}
    names = [one["operationId"] for methods in described["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)
    for one in (one for methods in described["paths"].values() for one in methods.values()):
        for content in (one["responses"]["200"]["content"], one.get("requestBody", {}).get("content", {})):
            assert all(kind["schema"] for kind in content.values()), one["operationId"]
    text = json.dumps(described)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in described["components"]["schemas"]


def test_answers_are_as_openapi_says(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    asked: dict[tuple[str, str], dict[str, object]] = {
        ("post", "/v1/lookup"): {"queries": ["latest", "volume"], "keys": {"symbol": "AB"}},
        ("post", "/v1/queries/{name}/values"): {"keys": ["AB", "none"], "times": [START_US, "2026-01-05T12:02:00"]},
        ("post", "/v1/queries"): {"statements": NEW},
    }
    checked = 0
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            schema = one["responses"]["200"]["content"].get("application/json", {}).get("schema")
            if schema is None or path.endswith("/events"):
                continue
            name = "latest" if method != "delete" else "busy"
            group = {"keys": '{"symbol": "AB"}'} if path.endswith("history") else {}
            response = client.request(
                method, path.replace("{name}", name), json=asked.get((method, path)), params=group
            )
            assert response.status_code == 200, response.text
            jsonschema.validate(response.json(), schema | {"components": described["components"]})
            checked += 1
    assert checked > 12


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_a_method_that_is_not_there(client: httpx.Client, method: str) -> None:
    refused = client.request(method, "/v1/plan")
    assert (refused.status_code, sorted(refused.headers["allow"].split(", "))) == (405, ["GET", "HEAD"])
    assert f"does not take {method}" in refused.json()["error"]["message"]

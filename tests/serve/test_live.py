"""Live answers: complete, changed groups only, and on from the last message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.serve.conftest import as_columns, trades
from tests.serve.test_safety import connected

from panewise.serve import feeds as feeds_module
from panewise.serve.application import Application
from panewise.serve.asking import Asking, OverloadedError
from panewise.serve.engine_source import EngineSource
from panewise.serve.feeds import Feeds, Followed
from panewise.serve.limits import Limits
from panewise.serve.server import running

Message = tuple[str, str | None, dict[str, Any]]


def messages(response: httpx.Response) -> Iterator[Message]:
    event, number, data = "", None, ""
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "id":
            number = value
        elif name == "data":
            data = value
        elif not line and data:
            yield event, number, json.loads(data)
            event, number, data = "", None, ""


def push(source: EngineSource, first_s: int, last_s: int) -> None:
    source.push("trades", pa.table(as_columns(trades(first_s, last_s))), None)


def by_symbol(answer: dict[str, Any]) -> dict[str, float]:
    return {row["symbol"]: row["best"] for row in answer["rows"]}


def test_changed_groups_and_those_that_ended(client: httpx.Client, source: EngineSource) -> None:
    asked = {"query": "latest", "changed": "true"}
    with client.stream("GET", "/v1/live", params=asked) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        following = messages(response)
        _, _, first = next(following)
        assert first["complete"] is True
        state = by_symbol(first["answers"][0])
        assert sorted(state) == ["AB", "CD", "EF"]
        only = [event for event in trades(310, 400) if event["symbol"] == "CD"]
        source.push("trades", pa.table(as_columns(only)), None)
        _, _, second = next(following)
        assert second["complete"] is False
        assert "CD" in by_symbol(second["answers"][0])
        # Long after, the others have no events in the window.
        source.push("trades", pa.table(as_columns([{**only[-1], "at": only[-1]["at"] + 3_600_000_000}])), None)
        _, _, third = next(following)
        assert third["answers"][0]["ended"] == [{"symbol": "AB"}, {"symbol": "EF"}]


def test_a_reader_goes_on_after_its_last_message(client: httpx.Client, source: EngineSource) -> None:
    asked = {"query": ["volume", "all_trades"], "changed": "true"}
    with client.stream("GET", "/v1/live", params=asked) as response:
        _, number, _ = next(messages(response))
    push(source, 310, 400)
    with client.stream("GET", "/v1/live", params=asked) as response:
        following = messages(response)
        _, other, again = next(following)
        assert again["complete"] is True
        while other == number:
            _, other, again = next(following)
    with client.stream("GET", "/v1/live", params=asked, headers={"last-event-id": str(number)}) as response:
        _, resumed, missed = next(messages(response))
        assert (resumed, missed["complete"]) == (other, False)
    with client.stream("GET", "/v1/live", params=asked, headers={"last-event-id": "another-1"}) as response:
        assert next(messages(response))[2]["complete"] is True


def test_a_query_that_is_dropped_ends_its_readers(client: httpx.Client, source: EngineSource) -> None:
    with client.stream("GET", "/v1/live", params={"query": "latest"}) as response:
        following = messages(response)
        next(following)
        source.add("DROP QUERY latest;")
        event, _, failure = next(following)
        assert (event, failure["error"]["kind"]) == ("failure", "UnknownNameError")
        assert list(following) == []


def test_a_server_that_ends_ends_its_feeds(source: EngineSource) -> None:
    """The reader gets the end of the answer, instead of a connection that breaks off."""
    with running(Application(source)) as url:
        reader = connected(url)
        reader.sendall(b"GET /v1/live?query=all_trades HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read = b""
        while b'"complete":true' not in read:
            read += reader.recv(1 << 16)
    while part := reader.recv(1 << 16):
        read += part
    assert read.endswith(b"\r\n0\r\n\r\n")
    reader.close()


def test_what_cannot_be_followed(client: httpx.Client, source: EngineSource) -> None:
    assert client.get("/v1/live").status_code == 400
    assert client.get("/v1/live?query=nobody").status_code == 404
    few = Application(source, limits=Limits(rows=2, readers=1))
    with running(few) as url, httpx.Client(base_url=url) as other:
        assert "3 groups, and 2 can be followed" in other.get("/v1/live?query=latest").json()["error"]["message"]
        with other.stream("GET", "/v1/live?query=all_trades") as response:
            following = messages(response)
            next(following)
            assert httpx.get(f"{url}/v1/live?query=all_trades").status_code == 503
            following.close()  # type: ignore[attr-defined]


def test_a_feed_that_nobody_reads_makes_room(source: EngineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "MOST_FEEDS", 2)

    async def program() -> None:
        feeds = Feeds(Asking(source, Limits()))
        first, *others = (Followed((query,), b"null", False) for query in ("all_trades", "latest", "busy", "volume"))
        read = await feeds.follow(first, None)
        await anext(read)
        for followed in others:
            idle = await feeds.follow(followed, None)
            await anext(idle)
            if followed is not others[-1]:
                await idle.aclose()  # type: ignore[attr-defined]
        with pytest.raises(OverloadedError, match="too many different things"):
            await feeds.follow(others[0], None)

    asyncio.run(program())


def test_a_slow_reader_is_dropped_and_others_are_not(source: EngineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "ROUND_S", 0.0)

    async def program() -> tuple[int, int]:
        feeds = Feeds(Asking(source, Limits(messages=4)))
        feeds.start()
        followed = Followed(("all_trades",), b"null", False)
        slow = await feeds.follow(followed, None)
        quick = await feeds.follow(followed, None)
        await anext(slow)
        await anext(quick)
        for batch in range(10):
            await asyncio.to_thread(push, source, 310 + batch * 20, 330 + batch * 20)
            await asyncio.wait_for(anext(quick), 10)
        readers = feeds.readers
        dropped = feeds.dropped
        assert [message async for message in slow] == []
        await feeds.close()
        return readers, dropped

    assert asyncio.run(program()) == (1, 1)

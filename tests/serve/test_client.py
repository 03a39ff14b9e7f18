"""The Python clients give what the engine gives, and raise its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.serve.conftest import as_columns, trades

import panewise
from panewise.serve.application import Application
from panewise.serve.client import AsyncClient, Client
from panewise.serve.engine_source import EngineSource
from panewise.serve.server import running

NEW = "CREATE QUERY more AS SELECT symbol, MIN(price) AS low FROM trades [RANGE 1 MINUTE] GROUP BY symbol;"


@pytest.fixture
def url(application: Application) -> Iterator[str]:
    with running(application) as url:
        yield url


def test_lookups(url: str, source: EngineSource) -> None:
    engine, at = source.engine, datetime(2026, 1, 5, 12, 2)
    with Client(url) as client:
        assert client.lookup("latest").equals(engine.lookup("latest"))
        keys = {"symbol": np.array(["AB", "EF"])}
        assert client.lookup("latest", keys, at).equals(engine.lookup("latest", at, keys))
        found = client.lookup_one("latest", {"symbol": "AB"})
        expected = engine.lookup_one("latest", "AB")
        assert found is not None
        assert expected is not None
        assert {name: found[name] for name in ("price", "best")} == {name: expected[name] for name in ("price", "best")}
        assert client.lookup_one("latest", {"symbol": "none"}) is None
        assert client.lookup_one("latest", "AB") == client.lookup_one("latest", ("AB",)) == found
        assert client.lookup_one("all_trades") is not None
        several = client.lookup_queries(["latest", "all_trades"], {"symbol": ["AB", "CD"]}, at)
        assert several["latest"].equals(engine.lookup("latest", at, [("AB",), ("CD",)]))
        assert several["all_trades"].equals(engine.lookup("all_trades", at))


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return list(found) == list(expected) and all(
        array.dtype == expected[name].dtype and array.tolist() == expected[name].tolist()
        for name, array in found.items()
    )


def test_many_groups_as_arrays(url: str, source: EngineSource) -> None:
    engine, at = source.engine, datetime(2026, 1, 5, 12, 2)
    keys, times = ["EF", "none", "AB", "AB"], [at, at, at, datetime(2026, 1, 5, 12, 4)]
    with Client(url) as client:
        assert same(client.lookup_many("latest", keys, at), engine.lookup_many("latest", keys, at))
        assert same(client.lookup_at("latest", keys, times), engine.lookup_at("latest", keys, times))
        assert same(client.lookup_at("all_trades", None, times), engine.lookup_at("all_trades", None, times))
        # A sliding query answers with the window that had closed, as `lookup` does.
        shown = client.lookup_at("volume", {"symbol": keys}, np.array(times, "datetime64[us]"))
        for place, (key, time) in enumerate(zip(keys, times)):
            rows = client.lookup("volume", [key], time).to_pylist()
            assert shown["volume"][place] is np.ma.masked if not rows else shown["volume"][place] == rows[0]["volume"]
        now = client.lookup_many("volume", keys)["trades"].tolist()
        assert now == [row and row["trades"] for row in (client.lookup_one("volume", key) for key in keys)]
        with pytest.raises(panewise.KeysError, match="4 times for 1 keys"):
            client.lookup_at("volume", ["AB"], times)
        with pytest.raises(panewise.KeysError, match="has 2 values"):
            client.lookup_many("latest", [("AB", 1)])
        with pytest.raises(panewise.KeysError, match="name the groups"):
            client.lookup_many("latest", None)  # type: ignore[arg-type]
        with pytest.raises(panewise.TimeError, match="no times"):
            client.lookup_at("latest", ["AB"], ["never"])


def test_events_and_queries(url: str, source: EngineSource) -> None:
    with Client(url) as client:
        assert client.push("trades", pa.table(as_columns(trades(310, 400)))) == 0
        assert source.position.events["trades"] == 40
        client.add(NEW)
        assert client.lookup("more").num_rows == 3
        client.remove("more")
        assert "more" not in source.workload.queries


def test_a_name_may_have_any_characters(url: str, source: EngineSource) -> None:
    name = "per day/week? 100% #1 & é.."
    with Client(url) as client:
        client.add(f'CREATE QUERY "{name}" AS SELECT symbol, COUNT(*) AS n FROM trades [RANGE 1 HOUR] GROUP BY symbol;')
        assert client.lookup(name).equals(source.engine.lookup(name))
        assert client.lookup_many(name, ["AB"])["n"].tolist() == [16]
        client.remove(name)
        assert name not in source.workload.queries
        with pytest.raises(panewise.UnknownNameError, match="there is no query named 'answers/answers'"):
            client.lookup("answers/answers")


def test_errors_are_those_of_panewise(url: str) -> None:
    with Client(url) as client:
        with pytest.raises(panewise.UnknownNameError, match="nobody"):
            client.lookup("nobody")
        with pytest.raises(panewise.KeysError):
            client.lookup("latest", {"carrier": "AA"})
        with pytest.raises(panewise.TimeError):
            client.lookup("latest", at="never")
        with pytest.raises(panewise.StatementError) as wrong:
            client.add("CREATE QUERY x AS SELECT NOTHING")
        assert wrong.value.line == 1
        with pytest.raises(panewise.UnknownNameError):
            next(client.follow(["nobody"]))
        with pytest.raises(panewise.UnknownNameError, match="'nothing/at/all'"):
            client.lookup("nothing/at/all")
    with Client(f"{url}/elsewhere") as lost, pytest.raises(panewise.ServerError, match="nothing at this address"):
        lost.lookup("latest")


def test_live_answers(url: str, source: EngineSource) -> None:
    with Client(url) as client:
        following = client.follow(["all_trades"], changed_only=True)
        assert next(following)["complete"] is True
        source.push("trades", pa.table(as_columns(trades(400, 500))), None)
        message = next(following)
        assert message["complete"] is False
        following.close()  # type: ignore[attr-defined]


def test_the_same_with_await(url: str, source: EngineSource) -> None:
    async def program() -> None:
        async with AsyncClient(url) as client:
            tables = await asyncio.gather(*(client.lookup("latest") for _ in range(5)))
            assert all(table.equals(source.engine.lookup("latest")) for table in tables)
            one = await client.lookup_one("latest", {"symbol": "CD"})
            assert one is not None
            assert one["symbol"] == "CD"
            assert list(await client.lookup_queries(["volume"])) == ["volume"]
            keys, times = ["AB"], ["2026-01-05T12:02:00"]
            assert same(await client.lookup_many("latest", keys), source.engine.lookup_many("latest", keys))
            assert same(await client.lookup_at("latest", keys, times), source.engine.lookup_at("latest", keys, times))
            assert await client.push("trades", pa.table(as_columns(trades(310, 320)))) == 0
            await client.add(NEW)
            await client.remove("more")
            async for message in client.follow(["all_trades"]):
                assert message["complete"] is True
                break
            with pytest.raises(panewise.UnknownNameError):
                await client.lookup("more")

    asyncio.run(program())

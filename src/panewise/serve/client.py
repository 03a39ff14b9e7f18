"""Clients of a server, for programs: `Client` waits for answers, `AsyncClient` awaits them.

They have the lookups of an engine: `lookup`, `lookup_one`, `lookup_many`, `lookup_at`; and what a server has beside
them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pyarrow as pa

import panewise.errors
from panewise.aggregates.types import Type
from panewise.closable import Closable
from panewise.engine.ingest import as_column
from panewise.errors import PanewiseError, ServerError, StatementError, TimeError
from panewise.serve.encoding import ARROW
from panewise.serve.source import masked

Time = int | datetime | date | str
Keys = Mapping[str, Any] | Sequence[Any]
"""The groups, as for `Engine.lookup`: from attribute to a value or to several, or a list of tuples."""
Arrays = dict[str, np.ma.MaskedArray[Any, Any]]

TIMEOUT_S = 30.0


def _params(keys: Keys | None, at: Time | None) -> dict[str, str]:
    found = {}
    if keys is not None:
        found["keys"] = json.dumps(_plain_keys(keys))
    if at is not None:
        found["at"] = _plain(at) if isinstance(at, (date, str)) else str(at)
    return found


def _plain_keys(keys: Keys) -> Any:
    return {name: _plain(values) for name, values in keys.items()} if isinstance(keys, Mapping) else _plain(list(keys))


def _part(name: str) -> str:
    """A name as a part of an address: a quoted name may have any characters."""
    return quote(name, safe="")


def _one_group(key: object) -> Keys | None:
    """The key of `lookup_one`: a value, a tuple in the order of GROUP BY, or a dict; () if there are no groups."""
    if key == ():
        return None
    return key if isinstance(key, Mapping) else [key]


def _plain(value: Any) -> Any:
    """A key's value or values as JSON has them."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "to_pylist"):
        return [_plain(one) for one in value.to_pylist()]
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _checked(response: httpx.Response) -> httpx.Response:
    """The response; raises the error that the server tells."""
    if response.is_success:
        return response
    try:
        fault = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        raise ServerError(f"the server answered with {response.status_code}") from None
    if fault["kind"] == "StatementError":
        raise StatementError(
            fault["message"],
            line=fault["line"],
            column=fault["column"],
            text=fault.get("text") or "",
            hint=fault.get("hint") or "",
        )
    kind = getattr(panewise.errors, fault["kind"], None)
    if isinstance(kind, type) and issubclass(kind, PanewiseError):
        raise kind(fault["message"])
    raise ServerError(fault["message"])


def _table(response: httpx.Response) -> pa.Table:
    return pa.ipc.open_stream(_checked(response).content).read_all()


def _tables(response: httpx.Response) -> dict[str, pa.Table]:
    """The tables of a body: an Arrow stream for each query, one after the other."""
    content = pa.BufferReader(_checked(response).content)
    tables = {}
    while content.tell() < content.size():
        table = pa.ipc.open_stream(content).read_all()
        tables[table.schema.metadata[b"panewise.query"].decode()] = table
    return tables


def _arrays(response: httpx.Response) -> Arrays:
    table = _table(response)
    return {name: masked(table.column(name)) for name in table.column_names}


def _one(response: httpx.Response) -> dict[str, Any] | None:
    rows = _checked(response).json()["rows"]
    return rows[0] if rows else None


def _several(queries: list[str], keys: Keys | None, at: Time | None) -> dict[str, Any]:
    return {"queries": queries, **_asked(keys, at)}


def _asked(keys: Keys | None, at: Time | None) -> dict[str, Any]:
    return {"keys": None if keys is None else _plain_keys(keys), "at": _plain(at)}


def _asked_at(keys: Keys | None, times: object) -> dict[str, Any]:
    try:
        times_us = as_column(Type.TIMESTAMP, times).cast(pa.int64()).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TimeError(f"`times` are no times: {error}") from None
    return {"keys": None if keys is None else _plain_keys(keys), "times": times_us}


def _events(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


class _Messages:
    """Takes lines of live answers, and gives each message when it is whole."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self._event = ""
        self._data = ""

    def take(self, line: str) -> dict[str, Any] | None:
        name, _, value = line.partition(": ")
        if name == "id":
            self.last_id = value
        elif name == "event":
            self._event = value
        elif name == "data":
            self._data = value
        elif not line and self._data:
            event, data, self._data = self._event, json.loads(self._data), ""
            if event == "failure":
                raise ServerError(data["error"]["message"])
            message: dict[str, Any] = data
            return message
        return None


def _headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


class Client(Closable):
    """Asks a server, and waits for its answers. It is a context manager.

    Args:
        url: Where the server is, as in `http://127.0.0.1:8787`.
        token: The token, if the server asks for one.
        verify: As for httpx: False, or an `ssl.SSLContext`, for a server with a certificate of its own.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = TIMEOUT_S, verify: Any = True) -> None:
        self._http = httpx.Client(base_url=url, headers=_headers(token), timeout=timeout_s, verify=verify)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def lookup(self, query: str, keys: Keys | None = None, at: Time | None = None) -> pa.Table:
        """Answer a query as an Arrow table, with all groups or those of `keys`."""
        headers = {"accept": ARROW}
        return _table(self._http.get(f"/v1/queries/{_part(query)}/answers", params=_params(keys, at), headers=headers))

    def lookup_one(self, query: str, key: object = (), at: Time | None = None) -> dict[str, Any] | None:
        """Answer one group as a dict by column; None if it has no answer."""
        asked = _params(_one_group(key), at) | {"limit": "1"}
        return _one(self._http.get(f"/v1/queries/{_part(query)}/answers", params=asked))

    def lookup_many(self, query: str, keys: Keys, at: Time | None = None) -> Arrays:
        """Answer many groups as arrays with an element for each key, masked where there is no answer."""
        headers = {"accept": ARROW}
        return _arrays(self._http.post(f"/v1/queries/{_part(query)}/values", json=_asked(keys, at), headers=headers))

    def lookup_at(self, query: str, keys: Keys | None, times: object) -> Arrays:
        """Answer many groups as `lookup_many` does, each at its own time."""
        headers = {"accept": ARROW}
        return _arrays(
            self._http.post(f"/v1/queries/{_part(query)}/values", json=_asked_at(keys, times), headers=headers)
        )

    def lookup_queries(
        self, queries: list[str], keys: Keys | None = None, at: Time | None = None
    ) -> dict[str, pa.Table]:
        """Answer several queries at one state of the stream; the table of each, by its name."""
        headers = {"accept": ARROW}
        return _tables(self._http.post("/v1/lookup", json=_several(queries, keys, at), headers=headers))

    def push(self, stream: str, events: pa.Table) -> int:
        """Send events to a server with an engine; returns how many came too late."""
        headers = {"content-type": ARROW}
        sent = self._http.post(f"/v1/streams/{_part(stream)}/events", content=_events(events), headers=headers)
        late: int = _checked(sent).json()["late"]
        return late

    def add(self, statements: str) -> None:
        """Run statements, as `Engine.add`; a job on Spark takes them with its next batch."""
        _checked(self._http.post("/v1/queries", json={"statements": statements}))

    def remove(self, query: str) -> None:
        """Drop a query."""
        _checked(self._http.delete(f"/v1/queries/{_part(query)}"))

    def follow(
        self, queries: list[str], keys: Keys | None = None, *, changed_only: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield live answers, until the server ends or the caller stops."""
        asked = {"query": queries, "changed": str(changed_only).lower(), **_params(keys, None)}
        messages = _Messages()
        with self._http.stream("GET", "/v1/live", params=asked, timeout=None) as response:
            if not response.is_success:
                response.read()
            for line in _checked(response).iter_lines():
                message = messages.take(line)
                if message is not None:
                    yield message


class AsyncClient:
    """Asks a server from a program with an event loop. The methods are those of `Client`, to be awaited."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = TIMEOUT_S, verify: Any = True) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(token), timeout=timeout_s, verify=verify)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def lookup(self, query: str, keys: Keys | None = None, at: Time | None = None) -> pa.Table:
        """As `Client.lookup`."""
        headers = {"accept": ARROW}
        return _table(
            await self._http.get(f"/v1/queries/{_part(query)}/answers", params=_params(keys, at), headers=headers)
        )

    async def lookup_one(self, query: str, key: object = (), at: Time | None = None) -> dict[str, Any] | None:
        """As `Client.lookup_one`."""
        asked = _params(_one_group(key), at) | {"limit": "1"}
        return _one(await self._http.get(f"/v1/queries/{_part(query)}/answers", params=asked))

    async def lookup_many(self, query: str, keys: Keys, at: Time | None = None) -> Arrays:
        """As `Client.lookup_many`."""
        headers = {"accept": ARROW}
        return _arrays(
            await self._http.post(f"/v1/queries/{_part(query)}/values", json=_asked(keys, at), headers=headers)
        )

    async def lookup_at(self, query: str, keys: Keys | None, times: object) -> Arrays:
        """As `Client.lookup_at`."""
        headers, asked = {"accept": ARROW}, _asked_at(keys, times)
        return _arrays(await self._http.post(f"/v1/queries/{_part(query)}/values", json=asked, headers=headers))

    async def lookup_queries(
        self, queries: list[str], keys: Keys | None = None, at: Time | None = None
    ) -> dict[str, pa.Table]:
        """As `Client.lookup_queries`."""
        headers = {"accept": ARROW}
        return _tables(await self._http.post("/v1/lookup", json=_several(queries, keys, at), headers=headers))

    async def push(self, stream: str, events: pa.Table) -> int:
        """As `Client.push`."""
        headers = {"content-type": ARROW}
        sent = await self._http.post(f"/v1/streams/{_part(stream)}/events", content=_events(events), headers=headers)
        late: int = _checked(sent).json()["late"]
        return late

    async def add(self, statements: str) -> None:
        """As `Client.add`."""
        _checked(await self._http.post("/v1/queries", json={"statements": statements}))

    async def remove(self, query: str) -> None:
        """As `Client.remove`."""
        _checked(await self._http.delete(f"/v1/queries/{_part(query)}"))

    async def follow(
        self, queries: list[str], keys: Keys | None = None, *, changed_only: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        """As `Client.follow`."""
        asked = {"query": queries, "changed": str(changed_only).lower(), **_params(keys, None)}
        messages = _Messages()
        async with self._http.stream("GET", "/v1/live", params=asked, timeout=None) as response:
            if not response.is_success:
                await response.aread()
            async for line in _checked(response).aiter_lines():
                message = messages.take(line)
                if message is not None:
                    yield message

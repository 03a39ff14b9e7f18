"""The application: every operation of the interface, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from panewise.engine.names import refuse_sessions
from panewise.engine.wide_columns import group_columns
from panewise.errors import ArgumentError, HistoryError, QueryKindError
from panewise.language.model import Query
from panewise.language.printer import print_name, print_query, print_row_query, print_window
from panewise.language.workload import Workload
from panewise.serve.asking import Asking, bound_query, keys_of, stream_of
from panewise.serve.encoding import Told, age_s, arrow_of, arrow_of_values, rows_of, time_text
from panewise.serve.events import events_of
from panewise.serve.faults import RequestError, decoded, told
from panewise.serve.feeds import Feeds, Followed
from panewise.serve.limits import Limits
from panewise.serve.messages import (
    Answer,
    Batches,
    Changed,
    History,
    HistoryPoint,
    Keys,
    LiveMessage,
    LookupAnswers,
    LookupRequest,
    PlanAnswer,
    Pushed,
    QueryInfo,
    QueryList,
    State,
    Statements,
    StreamInfo,
    Streams,
    Values,
    ValuesRequest,
    WorkOfTree,
)
from panewise.serve.metrics import Metrics
from panewise.serve.openapi import ARROW, EVENTS, JSON, NDJSON, Endpoint, openapi
from panewise.serve.safety import App, Safety, body_of
from panewise.serve.source import AnswerSource, Reader
from panewise.windows import RowWindow, TimeWindow, is_unbounded
from panewise.windows.clock import END_OF_STREAM, to_microseconds
from panewise.windows.instances import ends_of, last_ending

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_LOOKUP = msgspec.json.Decoder(LookupRequest)
_VALUES = msgspec.json.Decoder(ValuesRequest)
_KEYS = msgspec.json.Decoder(Keys)
_STATEMENTS = msgspec.json.Decoder(Statements)

ASSETS = {"page.css": "text/css", "page.js": "text/javascript", "logo.svg": "image/svg+xml"}
"""The files of the page. No other name reaches a path."""
ROWS_SHOWN = 100
"""Rows of an answer in JSON, if the request does not say how many."""
POINTS_SHOWN = 60
STEPS_OF_A_RANGE = 20
"""The history of a query without SLIDE goes back by this part of its range, if the request does not say how far."""


class _Planned(NamedTuple):
    """The plan of one version of a source: as data, in words and as a picture."""

    version: int
    data: dict[str, Any]
    text: str
    picture: str


class Application:
    """What a server answers. `most_age_s` is how old the newest events may be while it counts as ready."""

    def __init__(
        self,
        source: AnswerSource,
        *,
        token: str | None = None,
        limits: Limits | None = None,
        most_age_s: float | None = None,
        can_add: bool = True,
    ) -> None:
        self.source = source
        self.limits = limits or Limits()
        self._most_age_s = most_age_s
        self._can_add = can_add
        self._asking = Asking(source, self.limits)
        self.feeds = Feeds(self._asking)
        self.metrics = Metrics(source, self.feeds)
        self._planned: _Planned | None = None
        self.operations = self._operations()
        self._described = _encode(openapi(self.operations, has_token=token is not None))
        routes = [
            Route(one.path, _told(one.run), methods=[one.method], include_in_schema=False) for one in self.operations
        ]
        routes += [Route("/", _told(self._page)), Route("/assets/{name}", _told(self._asset))]
        app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers={404: _absent, 405: _absent})
        # An address with a slash too many is another address; a redirect would repeat the Host that a stranger gave.
        app.router.redirect_slashes = False
        self.app: App = Safety(app, token=token, limits=self.limits, metrics=self.metrics)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.feeds.start()
        self.source.start()
        try:
            yield
        finally:
            await self.feeds.close()
            self.source.close()
            self._asking.close()

    def _operations(self) -> list[Endpoint]:
        asked = {
            "keys": 'the groups as JSON, from attribute to value or values: {"origin": "JFK"}; all without it',
            "at": "the time of the answer, ISO 8601 or microseconds since 1970; now without it",
        }
        paging = {"limit": "how many", "offset": "how many to leave out first"}
        ordering = {"sort": "the column to sort by", "descending": "true for the largest first"}
        return [
            Endpoint(
                "GET", "/v1/queries", self._queries, "List queries.", QueryList,
                parameters={"search": "a part of the name or the statement", **paging},
            ),
            Endpoint(
                "POST", "/v1/queries", self._add, "Add or drop queries by statements.", Changed, Statements,
                parameters={"check": "true to find out only what the statements would do"},
            ),
            Endpoint("GET", "/v1/queries/{name}", self._query, "Describe a query.", QueryInfo),
            Endpoint("DELETE", "/v1/queries/{name}", self._drop, "Drop a query.", Changed),
            Endpoint(
                "GET", "/v1/queries/{name}/answers", self._answers, "Look up a query.", Answer,
                parameters=asked | paging | ordering, kinds=(JSON, ARROW),
            ),
            Endpoint(
                "GET", "/v1/queries/{name}/history", self._history, "Look up the last windows of one group.", History,
                parameters=asked | {"points": "how many windows", "step_s": "how far apart, without SLIDE"},
            ),
            Endpoint(
                "POST", "/v1/queries/{name}/values", self._values,
                "Look up many groups as columns, at one time or each at its own.", Values, ValuesRequest,
                kinds=(JSON, ARROW),
            ),
            Endpoint(
                "POST", "/v1/lookup", self._lookup, "Look up several queries at one state.", LookupAnswers,
                LookupRequest, kinds=(JSON, ARROW),
            ),
            Endpoint(
                "GET", "/v1/live", self._live, "Follow answers by server-sent events.", LiveMessage,
                headers={"Last-Event-ID": "the id of the last message, to go on after it"},
                parameters={
                    "query": "a query; several times for several", "keys": asked["keys"],
                    "changed": "true for changed groups only",
                },
                kinds=(EVENTS,),
            ),
            Endpoint("GET", "/v1/streams", self._streams, "Tell how far the streams are.", Streams),
            Endpoint("GET", "/v1/batches", self._batches, "Tell what the last batches of a job did.", Batches),
            Endpoint(
                "POST", "/v1/streams/{name}/events", self._push, "Take in events.", Pushed,
                parameters={"watermark": "move the watermark to this time, or to `end`"}, takes=(ARROW, NDJSON),
            ),
            Endpoint("GET", "/v1/plan", self._plan_answer, "The plan, with the work of its trees.", PlanAnswer),
            Endpoint("GET", "/v1/plan.svg", self._picture, "The plan as a picture.", kinds=("image/svg+xml",)),
            Endpoint("GET", "/v1/statistics", self._statistics, "What is held."),
            Endpoint("GET", "/health", self._health, "Whether the server runs.", State),
            Endpoint(
                "GET", "/ready", self._ready, "Whether its answers are new enough.", State,
                others={503: ("They are too old.", State)},
            ),
            Endpoint("GET", "/metrics", self._metrics, "Metrics for Prometheus.", kinds=("text/plain",)),
            Endpoint("GET", "/openapi.json", self._openapi, "This description."),
        ]  # fmt: skip

    # Lookups

    async def _lookup(self, request: Request) -> Response:
        asked = decoded(_LOOKUP, await body_of(request, self.limits.body_bytes, self.limits.body_s))
        limit = self._bounded("limit", asked.limit, self.limits.rows, ROWS_SHOWN)
        if not _wants_arrow(request):
            return _json(await self._asking.lookup_json(asked.queries, asked.keys, asked.at, limit))
        found = await self._asking.lookup(asked.queries, asked.keys, asked.at)
        most = None if asked.limit is None else limit
        tables = ((query, stream, table.slice(0, most)) for query, stream, table in found.tables)
        return Response(b"".join(arrow_of(*one, found.position) for one in tables), media_type=ARROW)

    async def _values(self, request: Request) -> Response:
        name = _name(request)
        asked = decoded(_VALUES, await body_of(request, self.limits.body_bytes, self.limits.body_s))
        found = await self._asking.values(name, asked.keys, asked.at, asked.times)
        if _wants_arrow(request):
            return Response(arrow_of_values(name, found.query.stream, found.arrays, found.position), media_type=ARROW)
        told, groups = Told(found.position), max(map(len, found.arrays.values()), default=0)
        return await self._asking.shaped(groups, lambda: _json(told.values(name, found.query.stream, found.arrays)))

    async def _answers(self, request: Request) -> Response:
        query, asked = _name(request), request.query_params
        limit = self._bounded("limit", _whole(asked, "limit"), self.limits.rows, ROWS_SHOWN)
        offset = self._bounded("offset", _whole(asked, "offset"), 2**40, 0)
        found = await self._asking.lookup([query], _keys(asked), _time(asked))
        ((_, stream, table),) = found.tables
        sort = asked.get("sort")
        if sort is not None:
            table = await self._asking.in_thread(lambda: _sorted(table, sort, _flag(asked, "descending")))
        if _wants_arrow(request):
            most = table.num_rows if "limit" not in asked else limit
            return Response(arrow_of(query, stream, table.slice(offset, most), found.position), media_type=ARROW)
        told = Told(found.position)
        shown = min(limit, max(0, table.num_rows - offset))
        return await self._asking.shaped(shown, lambda: _json(told.answer(query, stream, table, limit, offset)))

    async def _history(self, request: Request) -> Response:
        name, asked = _name(request), request.query_params
        points = self._bounded("points", _whole(asked, "points"), self.limits.points, POINTS_SHOWN)
        step_s = _whole(asked, "step_s")
        if step_s is not None and not 0 < step_s < 10**9:
            raise ArgumentError("step_s is a positive number of seconds")
        keys, at = _keys(asked), _time(asked)

        def work(reader: Reader) -> History:
            query = bound_query(reader.workload, name)
            if not isinstance(query, Query) or isinstance(query.window, RowWindow):
                raise QueryKindError(f"query {name} is over rows; it has no windows in time to show")
            refuse_sessions(query)
            if is_unbounded(query.window):
                raise QueryKindError(f"query {name} goes back to the start; it has no windows in time to show")
            taken = keys_of(query, keys)
            if query.group_by and taken is None:
                raise ArgumentError(f"query {name} groups by {', '.join(query.group_by)}; name one group in `keys`")
            position = reader.position
            newest_us = position.watermarks_us if query.window.is_sliding else position.newest_us
            last_us = newest_us.get(query.stream) if at is None else to_microseconds(at, "`at`")
            if last_us == END_OF_STREAM:
                last_us = position.newest_us.get(query.stream)
            found: list[HistoryPoint] = []
            names: tuple[str, ...] = ()
            for at_us in [] if last_us is None else _times(query, last_us, points, step_s):
                try:
                    table = reader.lookup(name, taken, at_us).slice(0, 1)
                except HistoryError:
                    break
                names, rows = tuple(table.column_names), rows_of(table)
                shown = time_text(at_us)
                assert shown is not None
                found.append(HistoryPoint(shown, rows[0] if rows else None))
            return Told(position).history(name, query.stream, found[::-1], names)

        return _json(await self._asking.in_thread(lambda: self.source.read(work, wait=True)))

    async def _live(self, request: Request) -> Response:
        asked = request.query_params
        queries = tuple(asked.getlist("query"))
        followed = Followed(queries, _encode(_keys(asked)), _flag(asked, "changed"))
        messages = await self.feeds.follow(followed, request.headers.get("last-event-id"))
        request.scope.setdefault("state", {})["is_feed"] = True
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(messages, media_type=EVENTS, headers=headers)

    # Queries

    async def _queries(self, request: Request) -> Response:
        asked, workload = request.query_params, self.source.workload
        limit = self._bounded("limit", _whole(asked, "limit"), self.limits.queries, ROWS_SHOWN)
        offset = self._bounded("offset", _whole(asked, "offset"), 2**40, 0)
        search = asked.get("search", "").casefold()
        names = [*workload.queries, *workload.row_queries]
        if search:
            matching = [name for name in names if search in name.casefold()]
            others = [name for name in names if search not in name.casefold() and search in _text(workload, name)]
            names = matching + others
        shown = names[offset : offset + limit]
        return _json(QueryList([_info(workload, name) for name in shown], len(names)))

    async def _query(self, request: Request) -> Response:
        return _json(_info(self.source.workload, _name(request)))

    async def _add(self, request: Request) -> Response:
        body = await body_of(request, self.limits.body_bytes, self.limits.body_s)
        statements = decoded(_STATEMENTS, body).statements
        if len(statements) > self.limits.statement_characters:
            raise RequestError(413, f"statements have at most {self.limits.statement_characters:,} characters at once")
        return await self._run(statements, only_check=_flag(request.query_params, "check"))

    async def _drop(self, request: Request) -> Response:
        name = _name(request)
        bound_query(self.source.workload, name)
        return await self._run(f"DROP QUERY {print_name(name)};", only_check=False)

    async def _run(self, statements: str, *, only_check: bool) -> Response:
        before = _names(self.source.workload)

        def work() -> Changed:
            after = _names(self.source.check(statements))
            holds = "not sent" if only_check else "now" if self.source.add(statements) else "with the next batch"
            return Changed([n for n in after if n not in before], [n for n in before if n not in after], holds)

        if not only_check and not self._can_add:
            raise RequestError(403, "this server was started with --read-only; it adds and drops no queries")
        return _json(await self._asking.in_thread(work, self.limits.statements_s))

    # Streams

    async def _streams(self, request: Request) -> Response:
        position, now = self.source.position, age_s(self.source.position)
        found = []
        for name, stream in self.source.workload.declared.items():
            watermark_us, newest_us = position.watermarks_us.get(name), position.newest_us.get(name)
            lag_s = None if watermark_us is None or newest_us is None else max(0.0, (newest_us - watermark_us) / 1e6)
            attributes = {attribute: str(kind) for attribute, kind in stream.attributes.items()}
            found.append(
                StreamInfo(
                    name, attributes, stream.timestamp, time_text(watermark_us), time_text(newest_us), now, lag_s,
                    position.events.get(name), position.late_events.get(name),
                )
            )  # fmt: skip
        source, queries = self.source, len(_names(self.source.workload))
        return _json(
            Streams(found, source.kind, position.version, position.batch, source.problem, self._can_add, queries)
        )

    async def _batches(self, request: Request) -> Response:
        return _json(Batches(self.source.batches()))

    async def _push(self, request: Request) -> Response:
        name, watermark = _name(request), _time(request.query_params, "watermark")
        stream = self.source.workload.streams.get(name)
        late_before = self.source.position.late_events.get(name, 0)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (ARROW, NDJSON):
            raise RequestError(415, f"send events as {ARROW} or as {NDJSON}")
        body = await body_of(request, self.limits.events_bytes, self.limits.body_s)

        def work() -> Pushed:
            table = events_of(stream, body, is_arrow=kind == ARROW)
            self.source.push(name, table, END_OF_STREAM if watermark == "end" else watermark)
            position = self.source.position
            late = position.late_events.get(name, 0) - late_before
            return Pushed(table.num_rows, late, time_text(position.watermarks_us.get(name)), position.version)

        return _json(await self._asking.to_the_end(work))

    # The plan, and how the server is

    async def _plan_answer(self, request: Request) -> Response:
        def work() -> PlanAnswer:
            planned = self._plan()
            trees = [
                msgspec.convert({"stream": name, **tree}, WorkOfTree)
                for name, stream in self.source.statistics().get("streams", {}).items()
                for tree in stream["trees"]
            ]
            return PlanAnswer(planned.data, trees, planned.text)

        return _json(await self._asking.in_thread(work, self.limits.plan_s))

    async def _picture(self, request: Request) -> Response:
        planned = await self._asking.in_thread(self._plan, self.limits.plan_s)
        return Response(planned.picture, media_type="image/svg+xml")

    def _plan(self) -> _Planned:
        """The plan of the newest state: it follows what was seen."""
        version = self.source.position.version
        if self._planned is None or self._planned.version != version:
            plan, text = self.source.plan()
            self._planned = _Planned(version, plan.to_dict(), text, plan.picture())
        return self._planned

    async def _statistics(self, request: Request) -> Response:
        return _json(await self._asking.in_thread(self.source.statistics))

    async def _health(self, request: Request) -> Response:
        return _json(State(True))

    async def _ready(self, request: Request) -> Response:
        now = age_s(self.source.position)
        if self._most_age_s is not None and (now is None or now > self._most_age_s):
            why = "no events have come yet" if now is None else f"the newest events came {now:.1f} s ago"
            problem = "" if self.source.problem is None else f"; {self.source.problem}"
            return _json(State(False, f"{why}, and at most {self._most_age_s:g} s are allowed{problem}", now), 503)
        return _json(State(True, self.source.problem, now))

    async def _metrics(self, request: Request) -> Response:
        found = await self._asking.in_thread(lambda: generate_latest(self.metrics.registry))
        return Response(found, media_type=CONTENT_TYPE_LATEST)

    async def _openapi(self, request: Request) -> Response:
        return Response(self._described, media_type=JSON)

    # The page

    async def _page(self, request: Request) -> Response:
        return Response(_file("index.html"), media_type="text/html", headers={"cache-control": "no-cache"})

    async def _asset(self, request: Request) -> Response:
        name = _name(request)
        if name not in ASSETS:
            raise RequestError(404, "there is no such file")
        return Response(_file(name), media_type=ASSETS[name], headers={"cache-control": "no-cache"})

    def _bounded(self, name: str, given: int | None, most: int, otherwise: int) -> int:
        if given is None:
            return min(otherwise, most)
        if not 0 <= given <= most:
            raise ArgumentError(f"{name} lies between 0 and {most:,}; got {given}")
        return given


def _told(run: Any) -> Any:
    """A handler whose errors become answers."""

    async def answered(request: Request) -> Response:
        try:
            response: Response = await run(request)
        except ClientDisconnect:
            # Nobody reads this, but it is counted, and as what it is.
            return _failure(RequestError(400, "the client went away before its request was whole"))
        except Exception as error:
            return _failure(error)
        return response

    return answered


async def _absent(request: Request, error: Exception) -> Response:
    if getattr(error, "status_code", 404) == 405:
        message = f"this address does not take {request.method}; /openapi.json lists what it takes"
        refused = _failure(RequestError(405, message))
        refused.headers.update(getattr(error, "headers", None) or {})
        return refused
    return _failure(RequestError(404, "there is nothing at this address; /openapi.json lists what there is"))


def _failure(error: Exception) -> Response:
    status, body, headers = told(error)
    return Response(body, status, headers, JSON)


def _json(message: Any, status: int = 200) -> Response:
    return Response(_encode(message), status, {"cache-control": "no-store"}, JSON)


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return unquote(name)


def _wants_arrow(request: Request) -> bool:
    return ARROW in request.headers.get("accept", "")


def _whole(asked: Any, name: str) -> int | None:
    given = asked.get(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise ArgumentError(f"{name} is a whole number; got {given[:40]!r}")
    return int(given)


def _flag(asked: Any, name: str) -> bool:
    given = asked.get(name, "false").lower()
    if given not in ("true", "false"):
        raise ArgumentError(f"{name} is true or false; got {given[:40]!r}")
    return bool(given == "true")


def _keys(asked: Any) -> Keys | None:
    given = asked.get("keys")
    return None if given is None else _KEYS.decode(given)


def _time(asked: Any, name: str = "at") -> int | str | None:
    given: str | None = asked.get(name)
    if given is not None and given.lstrip("-").isdigit() and given.isascii() and len(given) < 20:
        return int(given)
    return given


def _sorted(table: pa.Table, sort: str, descending: bool) -> pa.Table:
    if table.column_names.count(sort) != 1:
        raise ArgumentError(f"there is no column {sort[:80]!r}; there are: {', '.join(table.column_names)}")
    if pa.types.is_nested(table.column(sort).type):
        raise ArgumentError(f"the column {sort!r} has no order")
    order = pc.sort_indices(table, sort_keys=[(sort, "descending" if descending else "ascending")])
    return table.take(order)


def _times(query: Query, last_us: int, points: int, step_s: int | None) -> list[int]:
    """The times of a history, the newest first."""
    if query.window.is_sliding:
        newest = last_ending(query.window, last_us)
        return [ends_of(query.window, newest - place) for place in range(points)]
    assert isinstance(query.window, TimeWindow)
    step_us = max(1, query.window.left_us // STEPS_OF_A_RANGE) if step_s is None else step_s * 1_000_000
    return [last_us - place * step_us for place in range(points)]


def _names(workload: Workload) -> dict[str, None]:
    return dict.fromkeys([*workload.queries, *workload.row_queries])


def _text(workload: Workload, name: str) -> str:
    query = workload.queries.get(name)
    return (print_query(query) if query is not None else print_row_query(workload.row_queries[name])).casefold()


def _info(workload: Workload, name: str) -> QueryInfo:
    query = bound_query(workload, name)
    if not isinstance(query, Query):
        return QueryInfo(name, stream_of(query), print_row_query(query), "rows", "", [], {}, [], has_history=False)
    stream = workload.streams[query.stream]
    return QueryInfo(
        name=name,
        stream=query.stream,
        statement=print_query(query),
        kind="sliding" if query.window.is_sliding else "on demand",
        window=print_window(query.window),
        group_by=[*query.group_by],
        types={attribute: str(stream.attributes[attribute]) for attribute in query.group_by},
        group_columns=[*group_columns(stream, query).values()],
        has_history=isinstance(query.window, TimeWindow) and not query.window.is_unbounded,
    )


def _file(name: str) -> bytes:
    return (files("panewise.serve") / "page" / name).read_bytes()

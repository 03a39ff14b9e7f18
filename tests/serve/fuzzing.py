"""Random requests, as bytes on a connection: most are nearly right and get far, and some are no HTTP at all."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
from tests.serve.conftest import START_US, as_columns, trades

ARROW = "application/vnd.apache.arrow.stream"
QUERIES = ["volume", "latest", "busy", "all_trades", "near", "last_rows", "pairs", "seen"]
WORDS = [
    *QUERIES,
    *(
        "nobody",
        "symbol",
        "AB",
        "trades",
        "at",
        "null",
        "true",
        "false",
        "-1",
        "0",
        "1",
        "7",
        "100",
        "10001",
        "",
        "end",
    ),
    *("NaN", "1e999", "9" * 30, "2026-01-05T12:00:00", "2026-01-05T12:02:00+14:00", "9999-12-31", "0001-01-01"),
    *("-9223372036854775808", "9223372036854775807", "9223372036854775806", "-62135596800000001", "253402300800000000"),
    *("\u0000", "é", "'; --", "%", "{", "[]", "[1]", '""', "../..", "a" * 300, " ", "🙂", "١٢", '"\ud800"'),
    *(
        '{"symbol": "AB"}',
        '{"symbol": ["AB", null, 1.5]}',
        '{"symbol": []}',
        '{"symbol": ["AB", "CD"], "volume": [10]}',
    ),
    *('{"volume": 10, "symbol": "CD"}', '{"volume": 1e300}', '{"symbol": {"a": 1}}', '{"symbol": "\\ud800"}'),
    *("price", "best", "window_end", "no-cache", "10000"),
]
PATHS = [
    *("/", "/v1/queries", "/v1/queries/{w}", "/v1/lookup", "/v1/lookup", "/v1/lookup", "/v1/streams"),
    *("/v1/queries/{q}/answers", "/v1/queries/{q}/answers", "/v1/queries/{q}/history", "/v1/queries/{w}/answers"),
    *("/v1/streams/trades/events", "/v1/streams/trades/events", "/v1/streams/{w}/events", "/v1/plan", "/v1/plan.svg"),
    *("/v1/queries/{q}/values", "/v1/queries/{q}/values", "/v1/batches"),
    *("/v1/statistics", "/health", "/ready", "/metrics", "/openapi.json", "/assets/{w}", "/{w}", "/v1/live"),
]
POSTED = ("/v1/queries", "/v1/lookup", "/v1/streams/trades/events")
NAMES = [
    *("keys", "keys", "keys", "at", "at", "limit", "offset", "sort", "descending", "points", "step_s", "search", "x"),
    *("watermark", "query", "query", "changed"),
]
STATEMENTS = [
    "CREATE QUERY f{n} AS SELECT symbol, SUM(volume) FROM trades [RANGE 1 MINUTE] GROUP BY symbol;",
    "CREATE QUERY f{n} AS SELECT COUNT(*) FROM trades [RANGE 2 MINUTES SLIDE 1 MINUTE] WHERE price > 1;",
    "CREATE QUERY f{n} AS SELECT MAX(price) FROM trades [ROWS 5] HAVING MAX(price) > 2;",
    "DROP QUERY f{n};",
    "DROP QUERY nobody;",
    "CREATE STREAM s{n} (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t;",
]
FAULTS = [
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /health HTTP/9.9\r\n\r\n",
    b"GET /health HTTP/1.1\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
]


class Request:
    """What is sent, and what must be known to read the answer."""

    def __init__(self, content: bytes, *, is_head: bool = False, is_whole: bool = True) -> None:
        self.content = content
        self.is_head = is_head
        self.is_whole = is_whole
        """False if the connection cannot be used again."""


class Dice:
    """Random requests; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._arrow = _arrow_of(as_columns(trades(310, 340)))
        self._pushed_s = 310

    def requests(self) -> Iterator[Request]:
        """Requests without end."""
        while True:
            yield self._fault() if self._chance.random() < 0.02 else self._request()

    def _fault(self) -> Request:
        if self._chance.random() < 0.5:
            return Request(self._chance.choice(FAULTS), is_whole=False)
        return Request(self._chance.randbytes(self._chance.randrange(1, 200)) + b"\r\n\r\n", is_whole=False)

    def _request(self) -> Request:
        chance = self._chance
        template = chance.choice(PATHS)
        path = template.replace("{q}", chance.choice(QUERIES)).replace("{w}", self._word())
        usual = "POST" if path in POSTED or path.endswith(("/events", "/values")) else "GET"
        if path == "/v1/queries" and chance.random() < 0.3:
            usual = "GET"
        method = usual if chance.random() < 0.9 else chance.choice(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"])
        if template == "/v1/queries/{w}" and path.rpartition("/")[2] in QUERIES and method == "DELETE":
            method = "GET"  # the other requests are about these queries
        asked = [(chance.choice(NAMES), self._word()) for _ in range(chance.randrange(4))]
        if path == "/v1/queries" and method == "POST":
            asked.append(("check", chance.choice(["true", "true", "false", "maybe"])))
        # It would end the stream, and with it all that can be asked.
        asked = [(name, "0" if name == "watermark" and chance.random() < 0.9 else value) for name, value in asked]
        query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in asked)
        body, kind = self._body(path) if method in ("POST", "PUT") else (b"", "application/json")
        if chance.random() < 0.05:
            body = self._harmed(body)
        head = [f"{method} {_quoted(path, '/')}{'?' if query else ''}{query} HTTP/1.1", f"Host: {self._host()}"]
        head += [f"Content-Type: {kind}", f"Accept: {chance.choice(['*/*', ARROW, 'application/json', '', ';;q=x'])}"]
        if chance.random() < 0.05:
            head.append(f"Last-Event-ID: {_quoted(self._word())}")
        head += [f"Content-Length: {len(body)}", "", ""]
        return Request("\r\n".join(head).encode() + body, is_head=method == "HEAD")

    def _host(self) -> str:
        return self._chance.choice(["localhost"] * 200 + ["127.0.0.1:99999", "[::1]:80", "example.org", "", "[", "::"])

    def _word(self) -> str:
        return self._chance.choice(WORDS)

    def _value(self, depth: int = 0) -> object:
        chance = self._chance
        kind = chance.randrange(9 if depth < 3 else 6)
        if kind < 2:
            return self._word()
        if kind == 2:
            return chance.choice([0, -1, 2**63, 2**63 - 1, -(2**63), 2**64, 2**70, START_US + 10**8, 10**30])
        if kind == 3:
            return chance.choice([0.5, 1e308, -0.0, 5e-324, 1.7e18])
        if kind < 6:
            return chance.choice([None, True, False])
        if kind == 6:
            return [self._value(depth + 1) for _ in range(chance.randrange(4))]
        names = ["symbol", "volume", "queries", "keys", "at", "limit", "statements", self._word()]
        return {chance.choice(names): self._value(depth + 1) for _ in range(chance.randrange(4))}

    def _body(self, path: str) -> tuple[bytes, str]:
        if "events" in path:
            return self._events()
        if path == "/v1/queries":
            return _json({"statements": self._statements()}), "application/json"
        if path.endswith("/values"):
            return _json(self._values()), "application/json"
        return _json(self._lookup()), "application/json"

    def _values(self) -> object:
        chance = self._chance
        if chance.random() < 0.1:
            return self._value()
        keys = [None, ["AB", "CD"], [["AB", 10], ["CD", 20]], {"symbol": ["AB", "EF"]}, [self._value(2), "AB"], []]
        times = [None, [START_US, START_US + 200_000_000], ["2026-01-05T12:02:00", self._value(3)], [self._word()], []]
        asked: dict[str, object] = {"keys": chance.choice(keys), "times": chance.choice(times)}
        if chance.random() < 0.4:
            asked["at"] = chance.choice([None, self._word(), START_US, self._value(3)])
            del asked["times"]
        return asked

    def _lookup(self) -> object:
        chance = self._chance
        if chance.random() < 0.1:
            return self._value()
        asked: dict[str, object] = {
            "queries": [chance.choice([*QUERIES, self._word()]) for _ in range(chance.randrange(1, 4))],
            "keys": chance.choice(
                [
                    *(None, {"symbol": "AB"}, {"symbol": "AB", "volume": 10}, {"symbol": self._value(2)}),
                    *({"symbol": [self._word(), self._value(3)]}, {"symbol": ["AB", "CD"], "volume": self._value(2)}),
                ]
            ),
            "at": chance.choice([None, None, self._word(), START_US + 200_000_000, self._value(3)]),
            "limit": chance.choice([None, 0, 5, 10_000, self._value(3)]),
        }
        if chance.random() < 0.3:
            del asked[chance.choice(list(asked))]
        return asked

    def _statements(self) -> str:
        chance = self._chance
        text = chance.choice(STATEMENTS).replace("{n}", str(chance.randrange(6)))
        for _ in range(chance.choice([0, 0, 1, 2])):
            place = chance.randrange(len(text))
            text = (
                text[:place] + chance.choice([*"();'%0\n\u0000é", " HAVING ", " 0 ", self._word()]) + text[place + 1 :]
            )
        return text

    def _events(self) -> tuple[bytes, str]:
        chance = self._chance
        if chance.random() < 0.3:
            content = self._harmed(self._arrow) if chance.random() < 0.8 else self._other_arrow()
            return content, ARROW
        self._pushed_s += chance.randrange(2)
        lines = []
        for event in trades(self._pushed_s // 10 * 10, self._pushed_s // 10 * 10 + 10 * chance.randrange(4)):
            if chance.random() < 0.5:
                event[chance.choice([*event, self._word()])] = self._value(2)
            lines.append(_json(event))
        kind = "application/x-ndjson" if chance.random() < 0.95 else self._chance.choice(["", "x", "application/json"])
        return chance.choice([b"\n", b"\n", b"\r\n\n"]).join(lines), kind

    def _other_arrow(self) -> bytes:
        chance = self._chance
        columns: dict[str, object] = {**as_columns(trades(310, 340))}
        name = chance.choice(list(columns))
        columns[name] = chance.choice(
            [
                *(pa.nulls(3), pa.array(["a", None, "b"]), pa.array([[1], [], None]), pa.array([1.5, float("nan"), 2])),
                *(pa.array([0, 1, 2], pa.timestamp("ns")), pa.array([2**63 - 1, 0, -(2**63)])),
                *(pa.array([b"\xff", b"", b"a"]), pa.array([0, 1, 2], pa.date32())),
                pa.array(["a", "b", "a"]).dictionary_encode(),
            ]
        )
        if chance.random() < 0.2:
            del columns[chance.choice(list(columns))]
        return _arrow_of(columns)

    def _harmed(self, content: bytes) -> bytes:
        chance = self._chance
        harmed = bytearray(content or chance.randbytes(chance.randrange(60)))
        for _ in range(chance.randrange(1, 4)):
            if harmed:
                harmed[chance.randrange(len(harmed))] = chance.randrange(256)
        return bytes(harmed[: chance.randrange(len(harmed) + 1)] if chance.random() < 0.3 else harmed)


class Connection:
    """A connection to a server, opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._read = b""

    def close(self) -> None:
        """Close it."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._read = None, b""

    def ask(self, request: Request) -> int:
        """The status of the answer; 0 if the server closed the connection, as it may if this is no HTTP."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), 60)
        self._socket.sendall(request.content)
        if not request.is_whole:
            # A server may wait for more of it.
            self._socket.shutdown(socket.SHUT_WR)
        try:
            return self._answer(self._socket, request)
        except (ConnectionError, EOFError):
            assert not request.is_whole, "the server closed the connection without an answer"
            self.close()
            return 0

    def _answer(self, connection: socket.socket, request: Request) -> int:
        while b"\r\n\r\n" not in self._read:
            self._more(connection)
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        length = 0 if request.is_head else int(headers.get(b"content-length", b"0"))
        while len(self._read) < length:
            self._more(connection)
        self._read = self._read[length:]
        if b"content-length" not in headers or headers.get(b"connection") == b"close" or not request.is_whole:
            self.close()  # also live answers, which do not end
        return int(lines[0].split()[1])

    def _more(self, connection: socket.socket) -> None:
        read = connection.recv(1 << 16)
        if not read:
            raise EOFError
        self._read += read


def _arrow_of(columns: object) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _quoted(text: str, safe: str = "") -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe)

"""Safety around all requests: who may ask, how large, how slow; and headers that keep a browser from mischief.

Without a token the server is for this machine alone. A page of another site must not use it through the user's browser:
the Host must be a name of this machine, and the Origin, if there is one, must be the server itself.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

from starlette.requests import Request

from panewise.serve.faults import LOG, RequestError, told
from panewise.serve.limits import Limits
from panewise.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN = ("/health", "/ready")
"""Paths that need no token, beside the page and its assets: they tell nothing but whether the server is well."""

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


def host_name(host: str) -> str:
    """The name of a Host header, without its port.

    >>> [host_name(host) for host in ("localhost:8787", "localhost", "[::1]:80", "[::1]")]
    ['localhost', 'localhost', '::1', '::1']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Whether a name or an address is one of this machine alone.

    >>> [is_loopback(name) for name in ("localhost", "127.0.0.1", "::1", "192.0.2.1", "localhost.example")]
    [True, True, True, False, False]
    """
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Safety:
    """The outermost layer of the server."""

    def __init__(self, app: App, *, token: str | None, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, whatever it is."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        status = 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        began_s = perf_counter()
        try:
            self._check(scope)
            # As it was sent: a name in it may have a slash, which is none between two parts.
            scope["path"] = (scope["raw_path"] or b"").decode("latin-1")
            await self._app(scope, receive, guarded)
        except Exception as error:
            if status:
                LOG.exception("a request failed after its answer had begun")
            else:
                await _answer(guarded, error)
        finally:
            # Starlette notes the route that it found; without one, names of strangers would fill the metrics.
            route = getattr(scope.get("route"), "path", None) or "(none)"
            self._metrics.requests.labels(route, str(status)).inc()
            if not scope.get("state", {}).get("is_feed"):
                self._metrics.seconds.labels(route).observe(perf_counter() - began_s)

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        headers = {name: value for name, value in scope["headers"] if name in _LOOKED_AT}
        if len(scope["raw_path"] or b"") + len(scope["query_string"]) > self._limits.url_bytes:
            raise RequestError(414, f"the address is longer than {self._limits.url_bytes:,} bytes; send it as a body")
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            raise RequestError(403, "this server answers its own page only, not other sites")
        path = scope["path"]
        if self._token is None:
            if not is_loopback(host_name(host)):
                raise RequestError(403, "without a token this server answers on localhost only")
        elif path not in OPEN and path != "/" and not path.startswith("/assets/"):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                raise RequestError(401, "send the token as `Authorization: Bearer TOKEN`")


_LOOKED_AT = (b"host", b"origin", b"authorization")


async def _answer(send: Send, error: Exception) -> None:
    status, body, headers = told(error)
    headers |= {"content-type": "application/json", "content-length": str(len(body))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def body_of(request: Request, most: int, within_s: float) -> bytes:
    """The body of a request, if it is not too large and does not take too long."""
    length = request.headers.get("content-length", "")
    too_large = RequestError(413, f"the body is larger than {most:,} bytes; send less at once")
    if length.isascii() and length.isdigit() and int(length) > most:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(within_s):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise RequestError(408, f"the body did not come within {within_s:g} s") from None
    return b"".join(parts)

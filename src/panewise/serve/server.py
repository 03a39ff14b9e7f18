"""The server: an application on a port, in this thread until it is stopped, or beside a program."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panewise.errors import ArgumentError, CommandError, FileAccessError
from panewise.serve.application import Application
from panewise.serve.faults import LOG
from panewise.serve.feeds import Feeds
from panewise.serve.limits import Limits
from panewise.serve.safety import is_loopback

SWITCH_S = 0.0005
"""How long a thread may keep others from running: requests share the interpreter with the thread that reads files."""
LEAST_TOKEN = 16
TOKEN_VARIABLE = "PANEWISE_TOKEN"
DEFAULT_PORT = 8787


@dataclass(frozen=True)
class Address:
    """Where a server listens. Certificate and key are files in PEM."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    def url(self, port: int) -> str:
        """The address to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{port}"


def read_token(file: Path | None) -> str | None:
    """The token that clients must send: from a file, or from the environment. None if there is neither."""
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE, "")
        place = TOKEN_VARIABLE
    else:
        try:
            token = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileAccessError(f"--token-file {file}: cannot read it: {error}") from error
        place = f"--token-file {file}"
    token = token.strip()
    if not token and file is None:
        return None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise ArgumentError(f"{place}: a token has {LEAST_TOKEN} printable ASCII characters or more")
    return token


def check_address(address: Address, token: str | None) -> None:
    """Raise if strangers could reach the server without a token, or a certificate lacks its key."""
    if not address.is_local and token is None:
        raise CommandError(
            f"--host {address.host}: other machines could reach the server there, so it needs a token; put one into a "
            f"file and name it with --token-file, or set {TOKEN_VARIABLE}"
        )
    if (address.certificate is None) != (address.key is None):
        raise CommandError("--certificate and --certificate-key belong together; name both, or none")


def serve(application: Application, address: Address, *, announce: bool = True) -> None:
    """Serve until SIGINT or SIGTERM."""
    server, listening = _server(application, address)
    if announce:
        print(f"Panewise serves at {address.url(listening.getsockname()[1])}", file=sys.stderr, flush=True)
    # What was made until now stays: collecting garbage need not look at it again.
    gc.collect()
    gc.freeze()
    _run(server, listening)


@contextmanager
def running(application: Application, address: Address | None = None) -> Iterator[str]:
    """Serve in a thread of this program, on a free port unless an address is given; gives the URL."""
    address = address or Address(port=0)
    server, listening = _server(application, address)
    thread = Thread(target=lambda: _run(server, listening), name="panewise-serve", daemon=True)
    thread.start()
    # However long that takes: a new installation compiles first, which a busy machine does for minutes.
    while not server.started:
        if not thread.is_alive():
            raise CommandError("the server did not start; its log tells why")
        sleep(0.005)
    try:
        yield address.url(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve on a loop of uvloop. `uvicorn.Config(loop=...)` chooses one for uvicorn's own `run` alone."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listening]))


class Gathering:
    """A transport that sends what is written in one step of the loop at once.

    The head and the body of an answer are written one after the other. Sent apart, they would wake the client twice,
    and each time take the processor from whoever has it on a busy machine.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, part: bytes) -> None:
        """Send a part at the end of this step."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(part)

    def get_write_buffer_size(self) -> int:
        """The bytes that the client has not taken yet."""
        return sum(map(len, self._held)) + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close the connection, after what has been written."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        held, self._held = self._held, []
        # A client that went away meanwhile takes nothing more.
        if held and not self._transport.is_closing():
            self._transport.writelines(held)


class EndingServer(uvicorn.Server):
    """Ends live answers before it waits for answers to end: they have no end of their own."""

    def __init__(self, config: uvicorn.Config, feeds: Feeds) -> None:
        super().__init__(config)
        self._feeds = feeds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and let every answer come to its end."""
        await self._feeds.close()
        await super().shutdown(sockets)


def _bounded(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of HTTP with bounds: for the head of a request to come, and for a client to take what is sent."""

    class Bounded(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(Gathering(transport, asyncio.get_running_loop()))  # type: ignore[arg-type]
            # Parts of an answer must not wait for the client to confirm those before, which takes it 40 ms.
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._head_timer = self.loop.call_later(limits.head_s, transport.abort)
            self._send_timer: asyncio.TimerHandle | None = None

        def on_message_begin(self) -> None:
            self._head_timer.cancel()
            self._head_timer = self.loop.call_later(limits.head_s, self.transport.abort)
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._head_timer.cancel()
            super().on_headers_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch()

        def resume_writing(self) -> None:
            if self._send_timer is not None:
                self._send_timer.cancel()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_timer.cancel()
            if self._send_timer is not None:
                self._send_timer.cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Look again after some time, and drop a client that has taken nothing meanwhile."""
            waiting = self.transport.get_write_buffer_size()
            self._send_timer = self.loop.call_later(limits.send_s, self._drop_or_watch, waiting)

        def _drop_or_watch(self, before: int) -> None:
            if self.transport.get_write_buffer_size() < before:
                self._watch()
            else:
                LOG.info("a reader was dropped: it took nothing for %g s", limits.send_s)
                self.transport.abort()

    return Bounded


def _server(application: Application, address: Address) -> tuple[uvicorn.Server, socket.socket]:
    sys.setswitchinterval(SWITCH_S)
    limits = application.limits
    config = uvicorn.Config(
        application.app,
        http=_bounded(limits),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )
    try:
        config.load()
    except OSError as error:
        # OpenSSL's own words name no file.
        raise CommandError(
            f"--certificate {address.certificate}, --certificate-key {address.key}: cannot use them: {error}; both are "
            f"files in PEM, and the key belongs to the certificate"
        ) from error
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        # From now on clients wait instead of being refused.
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise CommandError(f"cannot listen at {address.host}, port {address.port}: {error.strerror}") from error
    return EndingServer(config, application.feeds), listening

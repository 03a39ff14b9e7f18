"""A small web server for the metrics of a registry of Prometheus' library, in a thread of this process.

The library makes the page. Its own server waits for ever for a client that connects and says nothing, so each such
client would keep a thread: this one hangs up on who is silent for `IDLE_S`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from panewise.errors import SparkSetupError

IDLE_S = 10.0
"""How long a client may be silent, while it asks or while it reads."""
PATH = "/metrics"


class MetricsServer:
    """Serves the metrics of a registry at one address, until it is closed."""

    def __init__(self, registry: CollectorRegistry, address: str, port: int, idle_s: float = IDLE_S) -> None:
        handler = type("Handler", (_Handler,), {"timeout": idle_s})
        try:
            self._server = _Server((address, port), handler)
        except (OSError, OverflowError) as error:
            raise SparkSetupError(
                f"cannot serve metrics at {address}:{port}: {error}; choose another port, or 0 for a free one"
            ) from error
        self._server.set_app(_only_metrics(make_wsgi_app(registry)))
        self._thread = threading.Thread(target=self._server.serve_forever, name="panewise metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        address, port = self._server.server_address[:2]
        return f"http://{address!s}:{port}{PATH}"

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    """A server that does not look up its own name, which may take long, and ignores clients that hang up."""

    daemon_threads = True

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """No line for each request."""


Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def _only_metrics(metrics: Application) -> Application:
    """The library's page at its path, and nothing elsewhere."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == PATH:
            return metrics(environ, start_response)
        start_response(f"404 the metrics are at {PATH}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"the metrics are at {PATH}\n".encode()]

    return application

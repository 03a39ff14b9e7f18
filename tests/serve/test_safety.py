"""The server is safe: who may ask, how much, and what it tells."""

from __future__ import annotations

import logging
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.serve.conftest import START_US
from tests.serve.test_folder import until
from typer.testing import CliRunner
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panewise.cli.main import app
from panewise.errors import ArgumentError, CommandError, FileAccessError
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.limits import Limits
from panewise.serve.server import Address, check_address, read_token, running

TOKEN = "a-token-of-some-length"


def test_another_address_needs_a_token() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        with pytest.raises(CommandError, match="needs a token"):
            check_address(Address(host), None)
        check_address(Address(host), TOKEN)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_address(Address(host), None)
    with pytest.raises(CommandError, match="belong together"):
        check_address(Address(certificate=Path("c.pem")), None)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_used(tmp_path: Path, source: EngineSource, content: str | None) -> None:
    file = tmp_path / "server.pem"
    if content is not None:
        file.write_text(content)
    address = Address(port=0, certificate=file, key=file)
    with (
        pytest.raises(CommandError, match=r"--certificate .*server.pem.*cannot use them.*PEM"),
        running(Application(source), address),
    ):
        pass


def test_an_age_that_no_answer_has() -> None:
    refused = CliRunner().invoke(app, ["serve", "--demo", "--most-age", "-1"])
    assert refused.exit_code == 2
    assert "--most-age is a positive number of seconds; got -1" in refused.output


def test_where_a_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PANEWISE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("PANEWISE_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file = tmp_path / "token"
    with pytest.raises(FileAccessError):
        read_token(file)
    for text in ("", "short", "ä" * 20):
        file.write_text(text)
        with pytest.raises(ArgumentError, match="16 printable"):
            read_token(file)
    file.write_text(f"{TOKEN}-2\n")
    assert read_token(file) == f"{TOKEN}-2"


def test_a_token_is_asked_for(source: EngineSource) -> None:
    with running(Application(source, token=TOKEN)) as url, httpx.Client(base_url=url) as client:
        for path in ("/v1/queries", "/metrics", "/openapi.json", "/v1/nothing"):
            for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
                response = client.get(path, headers=given)
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
        for path in ("/", "/health", "/ready", "/assets/page.js"):
            assert client.get(path).status_code == 200
        assert client.get("/v1/queries", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "attacker.example"},
        {"origin": "https://attacker.example"},
        {"origin": "null"},
        {"host": "localhost.x:80"},
    ],
)
def test_other_sites_are_not_served(client: httpx.Client, headers: dict[str, str]) -> None:
    assert client.get("/v1/queries", headers=headers).status_code == 403


def test_its_own_page_is_served(client: httpx.Client) -> None:
    host = f"localhost:{client.base_url.port}"
    own = {"host": host, "origin": f"http://{host}"}
    assert client.get("/v1/queries", headers=own).status_code == 200
    assert client.get("/v1/queries", headers={"host": "localhost"}).status_code == 200
    assert client.get("/v1/queries", headers={"host": "[::1]:80"}).status_code == 200


def test_headers(client: httpx.Client) -> None:
    for path in ("/", "/v1/queries", "/v1/nothing", "/assets/page.js"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("name", ["..%2f..%2fsource.py", "index.html", "%00", "page.js%00", "..", "/etc/passwd"])
def test_no_name_of_a_request_reaches_a_path(client: httpx.Client, name: str) -> None:
    assert client.get(f"/assets/{name}").status_code in (404, 200 if name == ".." else 404)


def test_sizes_are_bounded(source: EngineSource) -> None:
    limits = Limits(body_bytes=1_000, events_bytes=2_000, url_bytes=500, queries=3, keys=5, statement_characters=200)
    with running(Application(source, limits=limits)) as url, httpx.Client(base_url=url) as client:
        kind = {"content-type": "application/x-ndjson"}
        for path, body in (("/v1/lookup", b"x" * 1_001), ("/v1/streams/trades/events", b"x" * 2_001)):
            assert client.post(path, content=body, headers=kind).status_code == 413
            assert client.post(path, content=iter([body]), headers=kind).status_code == 413
        assert client.get("/v1/queries", params={"search": "x" * 600}).status_code == 414
        assert client.post("/v1/lookup", json={"queries": ["latest"] * 4}).status_code == 400
        assert client.post("/v1/lookup", json={"queries": ["latest"], "keys": {"symbol": ["A"] * 6}}).status_code == 400
        assert client.post("/v1/queries", json={"statements": "-" * 201}).status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for(source: EngineSource) -> None:
    with running(Application(source, limits=Limits(body_s=0.3))) as url, connected(url) as slow:
        slow.sendall(b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert b"408" in slow.recv(1000).split(b"\r\n")[0]


def test_a_head_that_does_not_come_is_not_waited_for(source: EngineSource) -> None:
    with running(Application(source, limits=Limits(head_s=0.3))) as url:
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: loc"):
            with connected(url) as slow:
                slow.sendall(sent)
                with suppress(ConnectionResetError):
                    assert slow.recv(1000) == b""
        with connected(url) as quick:
            for _ in range(2):
                quick.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answered = b""
                while not answered.endswith(b"}"):
                    more = quick.recv(1000)
                    assert more, "a connection that is used again is kept"
                    answered += more
                assert answered.startswith(b"HTTP/1.1 200")
                sleep(0.4)


def test_a_client_that_takes_nothing_is_dropped(source: EngineSource, caplog: pytest.LogCaptureFixture) -> None:
    many = {"at": [START_US + 305_000_000] * 5_000, "symbol": [f"symbol number {place}" for place in range(5_000)]}
    source.push("trades", pa.table({**many, "price": [1.0] * 5_000, "volume": [1] * 5_000}), None)
    request = b"GET /v1/queries/latest/answers?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(Application(source, limits=Limits(send_s=0.3))) as url, connected(url) as slow:
        with caplog.at_level(logging.INFO, "panewise.serve"):
            slow.sendall(60 * request)
            until(lambda: "a reader was dropped: it took nothing for 0.3 s" in caplog.text)
        taken = 0
        with suppress(ConnectionResetError):
            while more := slow.recv(1 << 20):
                taken += len(more)
        assert httpx.get(f"{url}/health").status_code == 200
        whole = len(httpx.get(f"{url}/v1/queries/latest/answers?limit=10000").content)
        assert taken < 60 * whole


def test_head_and_body_are_sent_at_once(client: httpx.Client) -> None:
    """So a client is woken once for an answer."""
    with connected(str(client.base_url).rstrip("/")) as asking:
        for _ in range(20):
            asking.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head, _, body = asking.recv(1 << 16).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert body.startswith(b'{"ok":true')


def connected(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 20)


def test_a_lookup_that_takes_too_long_is_given_up(source: EngineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = Event()
    monkeypatch.setattr(source, "statistics", lambda: goes_on.wait(60))
    limits = Limits(lookup_s=0.1, waiting=2)
    with running(Application(source, limits=limits)) as url, httpx.Client(base_url=url) as client:
        found = [client.get("/v1/statistics") for _ in range(3)]
        assert [one.status_code for one in found] == [503, 503, 503]
        assert "took longer than 0.1 s" in found[0].json()["error"]["message"]
        assert "too many requests wait" in found[2].json()["error"]["message"]
        assert client.get("/health").status_code == 200
        goes_on.set()


def test_an_unforeseen_error_tells_nothing(source: EngineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(source, "statistics", broken)
    with running(Application(source)) as url, httpx.Client(base_url=url) as client:
        response = client.get("/v1/statistics")
        assert response.status_code == 500
        assert "secret" not in response.text
        assert "Traceback" not in response.text
        assert response.json()["error"]["kind"] == "ServerError"


def test_tls(source: EngineSource, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"openssl makes no certificate here: {error}")
    import ssl

    trusting = ssl.create_default_context(cafile=certificate)
    with running(Application(source), Address(port=0, certificate=certificate, key=key)) as url:
        assert url.startswith("https://")
        assert httpx.get(f"{url}/health", verify=trusting).json()["ok"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/lookup", b'{"queries": ["late\x9a"]}'),
        ("/v1/queries", b'{"statements": "\xab"}'),
        ("/v1/streams/trades/events", b'{"\xc5t": 1}'),
    ],
)
def test_a_body_that_is_no_text(client: httpx.Client, path: str, body: bytes) -> None:
    refused = client.post(path, content=body, headers={"content-type": "application/x-ndjson"})
    assert refused.status_code == 400
    assert "utf-8" in refused.json()["error"]["message"].lower()


@pytest.mark.filterwarnings("ignore::panewise.errors.UnlikelyTimesWarning")
def test_a_window_before_the_first_year(client: httpx.Client) -> None:
    found = client.post("/v1/lookup", json={"queries": ["all_trades"], "at": "0001-01-01"})
    assert found.status_code == 200, found.text
    assert found.json()["answers"][0]["rows"][0]["window_start"].startswith("0000-12-31T23:55:00")


def test_a_slash_too_many_is_not_redirected(client: httpx.Client) -> None:
    assert client.get("/v1/queries/").status_code == 404


def test_a_client_that_goes_away_is_no_failure_of_the_server(
    source: EngineSource, caplog: pytest.LogCaptureFixture
) -> None:
    with running(Application(source)) as url, httpx.Client(base_url=url) as client:
        with connected(url) as gone:
            gone.sendall(b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        counted = 'panewise_serve_requests_total{route="/v1/lookup",status="400"} 1.0'
        for _ in range(200):
            metrics = client.get("/metrics").text
            if counted in metrics:
                break
            sleep(0.01)
        assert counted in metrics
    assert not caplog.records


def test_no_answer_waits_for_the_client_to_confirm_its_head(
    source: EngineSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head and body are two packets; without this option the second waits some 40 ms."""
    transports = []
    made = HttpToolsProtocol.connection_made

    def noted(protocol: HttpToolsProtocol, transport: Any) -> None:
        transports.append(transport)
        made(protocol, transport)

    monkeypatch.setattr(HttpToolsProtocol, "connection_made", noted)
    with running(Application(source)) as url, httpx.Client(base_url=url) as client:
        assert client.get("/health").status_code == 200
        (transport,) = transports
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_command_refuses_what_it_must(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        refused = CliRunner().invoke(app, ["serve", *arguments], env={"COLUMNS": "200"})
        assert refused.exit_code == 2
        return refused.output

    assert "one of them" in run()
    file = tmp_path / "q.sql"
    file.write_text("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;")
    assert "needs a token" in run("--engine", str(file), "--host", "0.0.0.0")
    assert "an engine's state is its own" in run("--engine", str(file), "--share", str(tmp_path))

"""One Kafka broker in KRaft mode on free ports of the loopback interface, for tests and for trying things by hand.

`python tests/kafka/broker.py TOPIC ...` starts one with some topics, prints its address and the setting that gives
Spark the connector, and ends with Ctrl-C.
"""

from __future__ import annotations

import base64
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.kafka.jars import broker_jars, connector_jars

from panewise.spark.java import ensure_java

PARTITIONS = 3
"""Of every topic."""
START_WITHIN_S = 90
STOP_WITHIN_S = 20
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class BrokerError(Exception):
    """The broker did not start."""


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """The address of a broker that keeps everything in a folder and ends with the context."""
    controller, port = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(
        SETTINGS.format(controller=controller, port=port, data=folder / "data"),
        encoding="utf-8",
    )
    log = folder / "broker.log"
    # With a letter in front: an id that begins with a hyphen would be read as an option.
    cluster = "W" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    formatting = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(settings)]
    with log.open("w", encoding="utf-8") as output:
        formatted = subprocess.run(_java(*formatting), stdout=output, stderr=output, check=False)
        if formatted.returncode:
            raise BrokerError(f"the broker's storage cannot be formatted: {_end_of(log)}")
        process = subprocess.Popen(_java("kafka.Kafka", str(settings)), stdout=output, stderr=output)
    try:
        _wait_until_it_answers(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def create_topics(address: str, names: Iterable[str]) -> None:
    """Make topics. A broker that makes a topic at its first write may put the first messages out of order."""
    topics = [_text(name) + struct.pack(">ihii", PARTITIONS, 1, 0, 0) for name in names]
    body = struct.pack(">i", len(topics)) + b"".join(topics) + struct.pack(">ib", 30_000, 0)
    response = _asked(address, api=19, version=2, body=body, within_s=60)
    (count,), place = struct.unpack_from(">i", response, 8), 12  # after the number of the request and the throttle
    for _ in range(count):
        (length,) = struct.unpack_from(">h", response, place)
        name = response[place + 2 : place + 2 + length].decode()
        error, length_of_message = struct.unpack_from(">hh", response, place + 2 + length)
        place += 6 + length + max(0, length_of_message)
        if error:
            raise BrokerError(f"topic {name} cannot be made: error {error} of Kafka's protocol")


def _asked(address: str, api: int, version: int, body: bytes, within_s: float) -> bytes:
    """The broker's answer to a request of Kafka's protocol."""
    request = struct.pack(">hhih", api, version, 1, -1) + body
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), within_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as response:
            (length,) = struct.unpack(">i", response.read(4))
            return response.read(length)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def _java(*command: str) -> list[str]:
    java = ensure_java().home / "bin" / "java"
    log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(java), "-Xmx384m", "-XX:+UseSerialGC", log_level, "-cp", f"{broker_jars()}/*", *command]


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_WITHIN_S
    while not _answers(port):
        if process.poll() is not None:
            raise BrokerError(f"the broker ended with {process.returncode}: {_end_of(log)}")
        if time.monotonic() > until:
            raise BrokerError(f"the broker does not answer within {START_WITHIN_S} s: {_end_of(log)}")
        time.sleep(0.2)


def _answers(port: int) -> bool:
    """Whether the broker answers a request for the protocol's versions; it accepts connections before it does."""
    try:
        return len(_asked(f"127.0.0.1:{port}", api=18, version=0, body=b"", within_s=1)) > 0
    except (OSError, struct.error):
        return False


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="panewise-kafka-") as folder, running_broker(Path(folder)) as address:
        create_topics(address, sys.argv[1:])
        print(f'kafka.bootstrap.servers = "{address}"')
        print(f'"spark.jars" = "{",".join(map(str, connector_jars()))}"', flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()

"""The death of Spark's Java process, told once: PySpark's threads would each print a traceback of their own."""

from __future__ import annotations

import logging
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from pyspark import accumulators


@contextmanager
def told_once() -> Iterator[None]:
    """In this block, PySpark's own threads print nothing about Java; who waits for Java still gets the error."""
    root = logging.getLogger()
    servers = [server for server in vars(accumulators).values() if _is_server(server)]
    root.addFilter(_is_not_of_py4j)
    for server in servers:
        server.handle_error = _say_nothing
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)
        for server in servers:
            del server.handle_error


def _is_server(value: Any) -> bool:
    """Whether it is a class of PySpark's own servers, to which Java sends what tasks count."""
    is_class = isinstance(value, type) and issubclass(value, socketserver.BaseServer)
    return is_class and value.__module__ == accumulators.__name__


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs what it raises, with a traceback, to the root logger."""
    return "py4j" not in PurePath(record.pathname).parts


def _say_nothing(server: object, request: object, client_address: object) -> None:
    """In place of a traceback on standard error."""

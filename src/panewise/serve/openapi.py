"""The interface as OpenAPI, made from the operations and their messages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from panewise.serve.encoding import ARROW, JSON
from panewise.serve.messages import Failure

EVENTS = "text/event-stream"
NDJSON = "application/x-ndjson"
INTERFACE = "1"
"""The version of the interface. A change that breaks clients is a new one, at other addresses."""


@dataclass(frozen=True)
class Endpoint:
    """One thing that can be asked: its address, what it takes and what it gives."""

    method: str
    path: str
    run: Callable[[Request], Awaitable[Response]]
    summary: str
    answer: type | None = None
    """The message of its answer in JSON."""
    body: type | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    """Of the address's query: the name, and what it means."""
    headers: dict[str, str] = field(default_factory=dict)
    """Of the request, likewise."""
    others: dict[int, tuple[str, type]] = field(default_factory=dict)
    """Further statuses that are no errors of the request: what they mean, and the message."""
    kinds: Sequence[str] = (JSON,)
    """The media types that it can answer with."""
    takes: Sequence[str] = (JSON,)
    """The media types of its body."""
    status: int = 200


_TYPES: dict[str, Any] = {
    **{name: {"type": "integer", "minimum": 0} for name in ("limit", "offset", "points", "step_s")},
    **{name: {"type": "boolean", "default": False} for name in ("descending", "check", "changed")},
    "query": {"type": "array", "items": {"type": "string"}, "minItems": 1},
}
"""The types of parameters; the others are text."""
_REQUIRED = ("query",)


def openapi(operations: Sequence[Endpoint], *, has_token: bool) -> dict[str, Any]:
    """The description of all operations."""
    types: list[type] = [Failure]
    for operation in operations:
        types += [one for one in (operation.answer, operation.body) if one is not None]
        types += [message for _, message in operation.others.values()]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(types, schemas))
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schema_of)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Panewise",
            "version": INTERFACE,
            "description": "Answers of sliding-window queries over a stream, as they are now and live.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if has_token:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
    return described


def _described(operation: Endpoint, schema_of: dict[type, Any]) -> dict[str, Any]:
    content = {kind: {"schema": _schema(kind, operation.answer, schema_of)} for kind in operation.kinds}
    others = {
        str(status): {"description": text, "content": {JSON: {"schema": schema_of[message]}}}
        for status, (text, message) in operation.others.items()
    }
    said: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.run.__name__.strip("_"),
        "responses": {
            str(operation.status): {"description": "Done.", "content": content},
            **others,
            "default": {"description": "What is wrong.", "content": {JSON: {"schema": schema_of[Failure]}}},
        },
    }
    names = re.findall(r"{(\w+)}", operation.path)
    said["parameters"] = [
        *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names),
        *(
            {
                "name": name,
                "in": "query",
                "description": text,
                "required": name in _REQUIRED,
                "schema": _TYPES.get(name, {"type": "string"}),
            }
            for name, text in operation.parameters.items()
        ),
        *(
            {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
            for name, text in operation.headers.items()
        ),
    ]
    if operation.body is not None:
        said["requestBody"] = {"required": True, "content": {JSON: {"schema": schema_of[operation.body]}}}
    elif tuple(operation.takes) != (JSON,):
        content = {kind: {"schema": _schema(kind, None, schema_of)} for kind in operation.takes}
        said["requestBody"] = {"required": True, "content": content}
    return said


def _schema(kind: str, message: type | None, schema_of: dict[type, Any]) -> Any:
    """What a body of a media type is. The data of a server-sent event is JSON in text."""
    if kind == JSON:
        return {"type": "object"} if message is None else schema_of[message]
    described: dict[str, Any] = {"type": "string", "contentMediaType": kind}
    if kind == EVENTS and message is not None:
        described = {"type": "string", "contentMediaType": JSON, "contentSchema": schema_of[message]}
    return described


__all__ = ["ARROW", "EVENTS", "JSON", "NDJSON", "Endpoint", "openapi"]

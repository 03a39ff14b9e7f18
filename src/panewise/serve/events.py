"""Events of a request, as a table: an Arrow stream, or JSON lines."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from panewise.errors import EventsError
from panewise.language.model import Stream

_LINES = msgspec.json.Decoder(dict[str, object])


def events_of(stream: Stream | None, body: bytes, *, is_arrow: bool) -> pa.Table:
    """The events. Columns that the stream does not declare are left out of JSON lines."""
    if is_arrow:
        try:
            table: pa.Table = pa.ipc.open_stream(body).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise EventsError(f"this is no Arrow stream: {str(error)[:200]}") from None
        return table
    rows: list[dict[str, object]] = []
    for number, line in enumerate(body.splitlines(), 1):
        if line.strip():
            try:
                rows.append(_LINES.decode(line))
            except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
                raise EventsError(f"line {number} is no JSON object: {error}") from None
    names = list(stream.attributes) if stream is not None else list(rows[0] if rows else ())
    try:
        return pa.table({name: [row.get(name) for row in rows] for name in names})
    except (pa.ArrowException, OverflowError) as error:
        raise EventsError(f"the values of a column are not of one type: {str(error)[:200]}") from None

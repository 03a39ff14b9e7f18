"""What waits in a source: what Spark had seen there when a batch began, and left for later batches.

Sources tell it in their own ways. Kafka tells the newest offset of each partition, and so the messages that wait are
counted. Delta tells the files and bytes that wait. A source of files, and others, tell nothing.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SourceBacklog:
    """What waits in one source; None for what the source does not tell."""

    source: str
    """The source as Spark describes it, such as `KafkaV2[Subscribe[trades]]`."""
    offsets: int | None = None
    """Messages, over all partitions."""
    files: int | None = None
    bytes: int | None = None

    @staticmethod
    def of(source: Mapping[str, Any]) -> SourceBacklog:
        """From the progress of a source."""
        metrics = source.get("metrics") or {}
        return SourceBacklog(
            source["description"],
            _offsets_behind(source.get("endOffset"), source.get("latestOffset")),
            _number(metrics.get("numFilesOutstanding")),
            _number(metrics.get("numBytesOutstanding")),
        )

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"source": self.source, "offsets": self.offsets, "files": self.files, "bytes": self.bytes}


def _offsets_behind(end: Any, latest: Any) -> int | None:
    """How far offsets by topic and partition are behind the latest ones; None if they are of another kind."""
    read, newest = dict(_by_partition(end)), dict(_by_partition(latest))
    if not newest:
        return None
    # A partition that is new begins at an offset that nobody tells: it counts from the next batch on.
    return sum(max(0, offset - read[partition]) for partition, offset in newest.items() if partition in read)


def _by_partition(offsets: Any) -> Iterator[tuple[tuple[str, str], int]]:
    """The offsets of each partition of each topic."""
    by_topic = _parsed(offsets) if isinstance(offsets, str) else offsets
    for topic, partitions in by_topic.items() if isinstance(by_topic, Mapping) else ():
        for partition, offset in partitions.items() if isinstance(partitions, Mapping) else ():
            if isinstance(offset, int):
                yield (topic, partition), offset


def _parsed(text: str) -> Any:
    """Offsets from their text: JSON, or before Spark 4.2 sometimes what Python prints of a dict; None for others."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def _number(text: Any) -> int | None:
    """A metric of a source; Spark hands them over as text."""
    try:
        return None if text is None else int(float(text))
    except ValueError:
        return None

"""The flow of a stream: how many events came, and how fast in event time."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Flow:
    """The events of a stream so far: how many, and the newest time after the first batch that had some."""

    events: int = 0
    first_events: int = 0
    first_newest_us: int | None = None

    def with_events(self, count: int, newest_us: int | None) -> Flow:
        """The same after a batch."""
        events = self.events + count
        if self.first_newest_us is None and newest_us is not None:
            return Flow(events, events, newest_us)
        return replace(self, events=events)

    def rate(self, newest_us: int | None) -> float | None:
        """Events a second of event time since the first batch; None while that is not known."""
        if newest_us is None or self.first_newest_us is None or newest_us <= self.first_newest_us:
            return None
        return (self.events - self.first_events) / ((newest_us - self.first_newest_us) / 1e6) or None

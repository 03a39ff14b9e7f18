"""Feeds: live answers by server-sent events.

A feed is what somebody follows: queries, keys, and whether all groups or only changed ones come. Readers of the same
feed share it: answers are looked up once, and each message is made once. A feed keeps its last messages, so that a
reader who comes back with the id of the last one goes on from there. One who comes too late, or from another run of the
server, gets everything anew, and `complete` says so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from secrets import token_hex
from time import monotonic
from typing import Any

import msgspec

from panewise.engine.wide_columns import group_columns
from panewise.errors import ArgumentError
from panewise.language.model import Query
from panewise.serve.asking import Asking, OverloadedError
from panewise.serve.encoding import Told
from panewise.serve.faults import told
from panewise.serve.messages import Answer, Keys, Row

ROUND_S = 0.1
"""Messages of a feed are at least so far apart."""
BEAT_S = 15.0
"""A line that means nothing tells a reader, and all between, that the server is there."""
KEEP_S = 60.0
"""A feed without readers is kept so long for those who come back."""
KEPT_MESSAGES = 256
MOST_FEEDS = 256
_WINDOW = ("window_start", "window_end")


@dataclass(frozen=True)
class Followed:
    """What a feed shows."""

    queries: tuple[str, ...]
    keys: bytes
    """As JSON, so that equal ones are one feed."""
    changed_only: bool


@dataclass(eq=False)
class _Reader:
    """Someone who follows a feed; None in the queue ends it."""

    queue: asyncio.Queue[bytes | None]
    is_dropped: bool = False


@dataclass(eq=False)
class _Feed:
    followed: Followed
    answers: list[Answer] = field(default_factory=list)
    number: int = 0
    sent: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=KEPT_MESSAGES))
    readers: set[_Reader] = field(default_factory=set)
    idle_since_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Feeds:
    """All feeds of a server."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._feeds: dict[Followed, _Feed] = {}
        self._run_id = token_hex(4)
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """Readers that were too slow."""

    @property
    def readers(self) -> int:
        """How many follow something now."""
        return sum(len(feed.readers) for feed in self._feeds.values())

    def start(self) -> None:
        """Begin to tell what is new."""
        loop = asyncio.get_running_loop()
        self._asking.source.changed = lambda: _call(loop, self._news.set)
        self._task = loop.create_task(self._tell())

    async def close(self) -> None:
        """End all feeds."""
        self._asking.source.changed = lambda: None
        if self._task is not None:
            self._task.cancel()
        for feed in self._feeds.values():
            _end(feed)

    async def follow(self, followed: Followed, last_id: str | None) -> AsyncIterator[bytes]:
        """The messages of a feed, from the one after `last_id` if it is still known."""
        if self.readers >= self._asking.limits.readers:
            raise OverloadedError("too many readers; come again later")
        feed = self._feeds.get(followed)
        if feed is None:
            if len(self._feeds) >= MOST_FEEDS:
                self._forget_an_idle_one()
            feed = _Feed(followed)
            feed.answers = await self._looked_up(followed)
            feed.idle_since_s = monotonic()
            feed = self._feeds.setdefault(followed, feed)
        reader = _Reader(asyncio.Queue(self._asking.limits.messages))
        async with feed.lock:
            begin = self._missed(feed, last_id)
            feed.readers.add(reader)
        return self._read(feed, reader, begin)

    def _forget_an_idle_one(self) -> None:
        """Make room: whoever comes back to that feed gets everything anew."""
        idle = [feed for feed in self._feeds.values() if not feed.readers]
        if not idle:
            raise OverloadedError("too many different things are followed; come again later")
        del self._feeds[min(idle, key=lambda feed: feed.idle_since_s).followed]

    async def _read(self, feed: _Feed, reader: _Reader, begin: list[bytes]) -> AsyncIterator[bytes]:
        try:
            for message in begin:
                yield message
            while not reader.is_dropped:
                try:
                    message_or_end = await asyncio.wait_for(reader.queue.get(), BEAT_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if message_or_end is None:
                    return
                yield message_or_end
        finally:
            feed.readers.discard(reader)
            feed.idle_since_s = monotonic()

    def _missed(self, feed: _Feed, last_id: str | None) -> list[bytes]:
        """What a reader must get first."""
        run_id, _, number = (last_id or "").partition("-")
        if run_id == self._run_id and number.isascii() and number.isdigit():
            last = int(number)
            first = feed.sent[0][0] if feed.sent else feed.number + 1
            if first - 1 <= last <= feed.number:
                return [message for place, message in feed.sent if place > last]
        return [self._message(feed.number, feed.answers, complete=True)]

    def _message(self, number: int, answers: list[Answer], *, complete: bool) -> bytes:
        content = msgspec.json.encode({"complete": complete, "answers": answers})
        return b"event: answers\nid: %s-%d\ndata: %s\n\n" % (self._run_id.encode(), number, content)

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for feed in list(self._feeds.values()):
                if not feed.readers and monotonic() - feed.idle_since_s > KEEP_S:
                    del self._feeds[feed.followed]
                    continue
                async with feed.lock:
                    await self._renew(feed)
            await asyncio.sleep(ROUND_S)

    async def _renew(self, feed: _Feed) -> None:
        try:
            answers = await self._looked_up(feed.followed)
            rows = sum(len(one.rows) for one in answers)
            shown = await self._asking.shaped(rows, lambda: self._changes(feed.answers, answers))
        except OverloadedError:
            # The next news bring it.
            self._news.set()
            return
        except Exception as error:
            # Whatever it is, it must not end the other feeds.
            _, failure, _ = told(error)
            self._send(feed, b"event: failure\ndata: %s\n\n" % failure)
            _end(feed)
            self._feeds.pop(feed.followed, None)
            return
        if feed.followed.changed_only:
            news = [one for one in shown if one.rows or one.ended]
        else:
            news = answers if any(one.rows or one.ended for one in shown) or _moved(feed.answers, answers) else []
        feed.answers = answers
        if news:
            feed.number += 1
            message = self._message(feed.number, news, complete=not feed.followed.changed_only)
            feed.sent.append((feed.number, message))
            self._send(feed, message)

    def _send(self, feed: _Feed, message: bytes) -> None:
        for reader in list(feed.readers):
            try:
                reader.queue.put_nowait(message)
            except asyncio.QueueFull:
                # It gets what it has not read yet when it comes back with its last id.
                reader.is_dropped = True
                feed.readers.discard(reader)
                self.dropped += 1

    async def _looked_up(self, followed: Followed) -> list[Answer]:
        keys = msgspec.json.decode(followed.keys, type=Keys | None)
        found = await self._asking.lookup(list(followed.queries), keys, None)
        most = self._asking.limits.rows
        for query, _, table in found.tables:
            if table.num_rows > most:
                raise ArgumentError(
                    f"query {query} has {table.num_rows:,} groups, and {most:,} can be followed at once; name `keys`"
                )
        about = Told(found.position)
        return await self._asking.shaped(
            sum(table.num_rows for _, _, table in found.tables),
            lambda: [about.answer(query, stream, table, most) for query, stream, table in found.tables],
        )

    def _changes(self, before: list[Answer], after: list[Answer]) -> list[Answer]:
        """Of each query, the groups whose answers changed, and those that have none any more."""
        workload = self._asking.source.workload
        changes = []
        for old, new in zip(before, after):
            query = workload.queries.get(new.query)
            names = [*group_columns(workload.streams[query.stream], query).values()] if isinstance(query, Query) else []
            was, now = _by_group(old.rows, names), _by_group(new.rows, names)
            rows = [row for group, row in now.items() if group not in was or _values(was[group]) != _values(row)]
            ended = [{name: row[name] for name in names} for group, row in was.items() if group not in now]
            changes.append(msgspec.structs.replace(new, rows=rows, ended=ended))
        return changes


def _by_group(rows: list[Row], names: list[str]) -> dict[tuple[Any, ...], Row]:
    if not names and len(rows) > 1:
        # Rows of a row query have no groups; all of them together are one answer.
        return {tuple(map(str, row.values())): row for row in rows}
    return {tuple(row[name] for name in names): row for row in rows}


def _values(row: Row) -> list[Any]:
    return [value for name, value in row.items() if name not in _WINDOW]


def _moved(before: list[Answer], after: list[Answer]) -> bool:
    """Whether the stream went on, even if no answer changed."""
    times = ([(one.watermark, one.newest_event) for one in answers] for answers in (before, after))
    return next(times) != next(times)


def _end(feed: _Feed) -> None:
    for reader in feed.readers:
        while True:
            try:
                reader.queue.put_nowait(None)
                break
            except asyncio.QueueFull:
                reader.queue.get_nowait()


def _call(loop: asyncio.AbstractEventLoop, function: Any) -> None:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        # The loop ended; nobody is there to be told.
        return

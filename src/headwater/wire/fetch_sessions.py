"""Incremental fetch sessions: a consumer of many partitions names only what changed since its last fetch. Pure.

The server remembers the partitions of a session and answers only for those that have something new to say. A session
is a convenience: one that was forgotten, or never granted, makes the client name all its partitions again.

What a request wants is in its session id and epoch:

    id 0,   epoch -1   no session
    id 0,   epoch 0    a new session, if there is room
    id n,   epoch 0    close n, and a new session
    id n,   epoch -1   close n, and no session
    id n,   epoch e    the next fetch of session n, number e
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.wire.protocol.fetch import FetchPartition, FetchRequest, PartitionAnswer

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1

SESSIONS_MAX = 1000
PARTITIONS_MAX = 100_000
"""Of all sessions together."""

EVICTABLE_AFTER_MS = 120_000

Topic = str | UUID
Answer = PartitionAnswer[Any]
Key = tuple[Topic, int]


class Wanted(NamedTuple):
    topic: Topic
    partition: FetchPartition


class Answered(NamedTuple):
    topic: Topic
    answer: Answer


class _Cached:
    """A partition of a session, and the state last sent to its client."""

    __slots__ = ("high_watermark", "partition", "start_offset", "topic")

    def __init__(self, topic: Topic, partition: FetchPartition) -> None:
        self.topic, self.partition = topic, partition
        self.high_watermark = self.start_offset = -1

    def news(self, answer: Answer) -> bool:
        """Returns whether the response has anything new; if so, it counts as sent."""
        changed = (
            bool(answer.records_bytes)
            or answer.error_code != 0
            or answer.high_watermark != self.high_watermark
            or answer.start_offset != self.start_offset
        )
        # After an error nothing is known to the client, so that the end of the error is news.
        self.high_watermark = -1 if answer.error_code else answer.high_watermark
        self.start_offset = -1 if answer.error_code else answer.start_offset
        return changed


class _Session:
    def __init__(self, session_id: int, *, uses_ids: bool) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.uses_ids = uses_ids
        self.used_ms = 0
        self.partitions: dict[Key, _Cached] = {}

    def update(self, request: FetchRequest) -> None:
        for forgotten in request.forgotten:
            for number in forgotten.partitions:
                self.partitions.pop((forgotten.topic, number), None)
        for topic, partitions in request.topics:
            for partition in partitions:
                cached = self.partitions.get((topic, partition.number))
                if cached is None:
                    self.partitions[topic, partition.number] = _Cached(topic, partition)
                else:
                    cached.partition = partition

    def rotate(self, answered: Sequence[Answered]) -> None:
        """Moves served partitions to the end, so that a few busy partitions cannot starve the others."""
        for topic, answer in answered:
            if answer.records_bytes:
                cached = self.partitions.pop((topic, answer.number), None)
                if cached is not None:
                    self.partitions[topic, answer.number] = cached


class Plan:
    """The partitions that one fetch reads, and the form of its response."""

    def __init__(
        self, wanted: list[Wanted], finish: Callable[[Sequence[Answered]], tuple[int, list[Answered]]]
    ) -> None:
        self.wanted = wanted
        self._finish = finish

    def finish(self, answered: Sequence[Answered]) -> tuple[int, list[Answered]]:
        """The session id to answer with, and those partition responses that the client has to see."""
        return self._finish(answered)


class FetchSessions:
    def __init__(self, *, sessions_max: int = SESSIONS_MAX, partitions_max: int = PARTITIONS_MAX) -> None:
        self._sessions: dict[int, _Session] = {}  # the one used longest ago first
        self._sessions_max, self._partitions_max = sessions_max, partitions_max
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, *, uses_ids: bool, now_ms: int) -> Plan | ErrorCode:
        """What to read for this request; an error if it refers to a session that is not, or not any more, like that."""
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._close(request.session_id)
            wanted = [Wanted(topic, partition) for topic, partitions in request.topics for partition in partitions]
            if request.session_epoch == FINAL_EPOCH:
                return Plan(wanted, lambda answered: (0, list(answered)))
            return Plan(wanted, lambda answered: self._open(wanted, answered, uses_ids=uses_ids, now_ms=now_ms))
        return self._continue(request, uses_ids=uses_ids, now_ms=now_ms)

    def _continue(self, request: FetchRequest, *, uses_ids: bool, now_ms: int) -> Plan | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.uses_ids != uses_ids:
            return ErrorCode.fetch_session_topic_id_error
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        before = len(session.partitions)
        session.update(request)
        self._partitions += len(session.partitions) - before
        if self._partitions > self._partitions_max:
            self._close(session.id)
            return ErrorCode.fetch_session_id_not_found
        self._touch(session, now_ms)
        wanted = [Wanted(cached.topic, cached.partition) for cached in session.partitions.values()]
        return Plan(wanted, lambda answered: self._increment(session, answered))

    def _increment(self, session: _Session, answered: Sequence[Answered]) -> tuple[int, list[Answered]]:
        news = [
            one
            for one in answered
            if (cached := session.partitions.get((one.topic, one.answer.number))) is None or cached.news(one.answer)
        ]
        session.rotate(news)
        return session.id, news

    def _open(
        self, wanted: list[Wanted], answered: Sequence[Answered], *, uses_ids: bool, now_ms: int
    ) -> tuple[int, list[Answered]]:
        """Remember what was asked and answered, if there is room; 0 means that there is no session."""
        if not wanted or not self._make_room(len(wanted), now_ms):
            return 0, list(answered)
        session = _Session(self._new_id(), uses_ids=uses_ids)
        for topic, partition in wanted:
            session.partitions[topic, partition.number] = _Cached(topic, partition)
        for topic, answer in answered:
            session.partitions[topic, answer.number].news(answer)
        self._partitions += len(session.partitions)
        self._touch(session, now_ms)
        return session.id, list(answered)

    def _make_room(self, partitions: int, now_ms: int) -> bool:
        while len(self._sessions) >= self._sessions_max or self._partitions + partitions > self._partitions_max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < EVICTABLE_AFTER_MS:
                return False
            self._close(oldest.id)
        return True

    def _touch(self, session: _Session, now_ms: int) -> None:
        session.used_ms = now_ms
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _new_id(self) -> int:
        # Not counted up: after a restart an id must not mean the session of another client.
        while (session_id := 1 + secrets.randbelow(2**31 - 1)) in self._sessions:
            pass
        return session_id

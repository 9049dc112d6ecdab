"""Sessions of share consumers: which partitions a member fetches from, named once. Pure.

epoch 0     a new session, in place of the one before
epoch e     the next request of a session; its number goes up by one each time
epoch -1    the last one: what the member holds is given back
"""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

INITIAL, FINAL = 0, -1
EPOCH_MAX = 2**31 - 1
SESSIONS_MAX = 2_000

Partition = tuple[UUID, int]


class SessionKey(NamedTuple):
    group: str
    member: str


class ShareSession:
    def __init__(self) -> None:
        self.epoch = 1
        """The number of the next request."""
        self.partitions: dict[Partition, None] = {}

    def update(self, added: Iterable[Partition], forgotten: Iterable[Partition]) -> None:
        for partition in added:
            self.partitions.setdefault(partition)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def rotate(self, served: Iterable[Partition]) -> None:
        """Partitions that were served come last the next time, so that none is forgotten over a busy one."""
        for partition in served:
            if self.partitions.pop(partition, self) is None:
                self.partitions[partition] = None


class ShareSessions:
    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._sessions_max = sessions_max

    def open(self, key: SessionKey) -> ShareSession | ErrorCode:
        if key not in self._sessions and len(self._sessions) >= self._sessions_max:
            return ErrorCode.share_session_limit_reached
        self._sessions[key] = ShareSession()
        return self._sessions[key]

    def next(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """The session that a request belongs to, counted on."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.share_session_not_found
        if epoch == FINAL:
            return session
        if epoch != session.epoch:
            return ErrorCode.invalid_share_session_epoch
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def find(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

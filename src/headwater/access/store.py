"""Users, permissions and quotas, as the compacted topic __headwater_access keeps them; read at the start.

What was written counts once it is durable. If some of the topic cannot be read, a denial may be missing: then `doubt`
says why, and only super users may do anything.
"""

import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.access import records
from headwater.access.acls import Acl, AclFilter, AclIndex
from headwater.access.quotas import Entity
from headwater.access.records import Credentials, Entry, UserKey
from headwater.access.scram import Credential
from headwater.errors import ConflictError, CorruptBatch, DamagedRange, UnavailableError, UnknownTopic
from headwater.log.own_topics import ensure_own_topic
from headwater.log.topic import ACCESS_TOPIC as TOPIC
from headwater.record import Record

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.access")

CONFIGS = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(1024**2),
    "message.timestamp.type": "CreateTime",
    "remote.storage.enable": "false",
}
ENTRIES_MAX = 100_000
"""Users, ACLs and quotas altogether: they are in memory."""


class AccessStore:
    """May be used from any thread. Reading never waits for the disk."""

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._users: dict[str, Credentials] = {}
        self._acls = AclIndex()
        self._quotas: dict[Entity, dict[str, float]] = {}
        self.doubt = ""
        self.version = 0
        """Another one after each change, so that decisions may be kept until then."""
        self.guess = secrets.token_bytes(32)
        """From which the salts of users are made who do not exist."""

    def load(self) -> None:
        newest: dict[bytes, Record] = {}
        try:
            offset: int | None = self._log.partition(TOPIC, 0).start_offset
        except UnknownTopic:
            return
        except UnavailableError as error:
            self._note(str(error))
            return
        while offset is not None:
            start, offset = offset, None
            try:
                for record in self._log.read(TOPIC, 0, offset=start):
                    newest[record.key or b""] = record
            except DamagedRange as damage:
                self._note(str(damage))
                offset = damage.end
            except UnavailableError as error:
                self._note(str(error))
        for gap in self._log.partition(TOPIC, 0).unreadable:
            self._note(f"{TOPIC}/0: {gap}")
        self._apply([entry for record in newest.values() if (entry := self._understood(record)) is not None])

    # -- what is so now ----------------------------------------------------------------------------------------------

    def user_names(self) -> list[str]:
        with self._lock:
            return sorted(self._users)

    def credentials(self, name: str) -> Credentials:
        with self._lock:
            return self._users.get(name, {})

    def credential(self, name: str, mechanism: str) -> Credential | None:
        return self.credentials(name).get(mechanism)

    def acls(self, wanted: AclFilter) -> list[Acl]:
        with self._lock:
            return self._acls.find(wanted)

    @property
    def index(self) -> AclIndex:
        """To decide by; hold `lock` meanwhile."""
        return self._acls

    @property
    def lock(self) -> threading.Lock:
        return self._lock

    def quotas(self) -> dict[Entity, dict[str, float]]:
        with self._lock:
            return dict(self._quotas)

    # -- changes -----------------------------------------------------------------------------------------------------

    def set_credential(self, name: str, mechanism: str, credential: Credential | None) -> bool:
        """Durable when it returns; False if there was nothing to forget."""
        with self._writing:
            before = self.credentials(name)
            after = {one: kept for one, kept in before.items() if one != mechanism}
            if credential is not None:
                after[mechanism] = credential
            elif mechanism not in before:
                return False
            self._write([Entry(UserKey(name), after or None)])
            return True

    def add_acls(self, acls: Sequence[Acl]) -> None:
        with self._writing:
            self._write([Entry(acl, {}) for acl in acls if acl not in self._acls])

    def remove_acls(self, wanted: AclFilter) -> list[Acl]:
        with self._writing:
            found = self.acls(wanted)
            self._write([Entry(acl, None) for acl in found])
            return found

    def change_quota(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """None removes a limit; limits that are not named stay, also those that are being set at the same time."""
        with self._writing:
            limits = {**self.quotas().get(entity, {}), **changes}
            self._write([Entry(entity, {key: value for key, value in limits.items() if value is not None} or None)])

    def _write(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        kept = len(self._users) + len(self._acls) + len(self._quotas)
        # What takes something away is possible in any case, or a full node could not be made emptier.
        if kept + sum(entry.value is not None for entry in entries) > ENTRIES_MAX:
            raise ConflictError(f"there are {ENTRIES_MAX} users, permissions and quotas; more are not kept")
        ensure_own_topic(self._log, TOPIC, CONFIGS)
        rows = [records.encode(entry) for entry in entries]
        self._log.append(TOPIC, [Record(value, key) for key, value in rows], partition=0)
        self._apply(entries)

    def _apply(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            for key, value in entries:
                if isinstance(key, UserKey):
                    _put(self._users, key.name, value)
                elif isinstance(key, Acl):
                    if value is not None:
                        self._acls.add(key)
                    elif key in self._acls:
                        self._acls.remove(key)
                else:
                    _put(self._quotas, key, value)
            self.version += 1

    def _understood(self, record: Record) -> Entry | None:
        try:
            return records.decode(record.key or b"", record.value)
        except CorruptBatch as error:
            self._note(f"record {record.offset} of {TOPIC}: {error}")
        return None

    def _note(self, what: str) -> None:
        logger.error("users and permissions may be missing, so only super users are let in: %s", what)
        self.doubt = self.doubt or what


def _put(table: dict, key: object, value: object) -> None:  # type: ignore[type-arg]
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value

"""The contents of the registry: subjects with their versions, ids, levels. Pure."""

from collections.abc import Iterable, Sequence

from headwater.errors import UnknownSchema, UnknownSubject, UnknownVersion
from headwater.registry.records import Entry, LastIdKey, LevelKey, VersionKey
from headwater.registry.words import LATEST, Compatibility, Version

DEFAULT_LEVEL = Compatibility.BACKWARD


class Subjects:
    """Changed by `apply` alone, with what is durable."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, Version]] = {}
        self._by_id: dict[int, set[VersionKey]] = {}
        self._levels: dict[str | None, Compatibility] = {}
        self._last_id = 0

    def apply(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            match entry:
                case Entry(VersionKey() as key, Version() as version):
                    self._forget(key)
                    self._versions.setdefault(key.subject, {})[key.number] = version
                    self._by_id.setdefault(version.id, set()).add(key)
                    self._last_id = max(self._last_id, version.id)
                case Entry(VersionKey() as key, _):
                    self._forget(key)
                case Entry(LevelKey() as key, Compatibility() as level):
                    self._levels[key.subject] = level
                case Entry(LevelKey() as key, _):
                    self._levels.pop(key.subject, None)
                case Entry(LastIdKey(), int() as number):
                    self._last_id = max(self._last_id, number)

    def _forget(self, key: VersionKey) -> None:
        versions = self._versions.get(key.subject, {})
        old = versions.pop(key.number, None)
        if not versions:
            self._versions.pop(key.subject, None)
        if old is not None:
            keys = self._by_id[old.id]
            keys.discard(key)
            if not keys:
                del self._by_id[old.id]

    @property
    def last_id(self) -> int:
        return self._last_id

    def names(self, *, deleted: bool = False) -> list[str]:
        """Subjects with at least one version that readers see; with `deleted`, all."""
        return sorted(name for name in self._versions if self.versions(name, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Oldest first; nothing if there is no such subject."""
        found = self._versions.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def some_versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        found = self.versions(subject, deleted=deleted)
        if not found:
            raise UnknownSubject(subject)
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        found = self.some_versions(subject, deleted=deleted)
        if number == LATEST:
            return found[-1]
        for version in found:
            if version.number == number:
                return version
        raise UnknownVersion(subject, number)

    def with_id(self, number: int) -> list[Version]:
        """All versions of all subjects that are this schema, also deleted ones. UnknownSchema if there is none."""
        keys = self._by_id.get(number)
        if not keys:
            raise UnknownSchema(f"the registry has no schema with id {number}", "Was it deleted for good?")
        return [self._versions[key.subject][key.number] for key in sorted(keys)]

    def every(self) -> Iterable[Version]:
        return (version for versions in self._versions.values() for version in versions.values())

    def own_level(self, subject: str | None) -> Compatibility | None:
        return self._levels.get(subject)

    def level(self, subject: str | None) -> Compatibility:
        """Returns the compatibility level of a subject; None: the default level."""
        return self._levels.get(subject) or self._levels.get(None) or DEFAULT_LEVEL

    def referring_to(self, versions: Sequence[Version]) -> list[int]:
        """Ids of schemas that readers see and that are built on one of these versions."""
        wanted = {(version.subject, version.number) for version in versions}
        return sorted(
            {
                one.id
                for one in self.every()
                if not one.deleted and any((said.subject, said.version) in wanted for said in one.schema.references)
            }
        )

"""The registry: registers, finds, compares and deletes schemas. Safe to use from many threads.

A change is written to the journal and durable before it takes effect and before it is answered; one at a time, so that
what was decided is still true when it is written. Texts are read and compared outside that lock, one schema after the
other and each with a budget: what was compared with is looked at once more before the change is written, and who only
looks something up never waits for it.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from headwater.errors import (
    AlreadyDeleted,
    IncompatibleSchema,
    InvalidSchemaText,
    NoOwnCompatibility,
    NotYetDeleted,
    RegistryUnavailable,
    SchemaReferenced,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
)
from headwater.registry.budget import Budget, OutOfSteps
from headwater.registry.journal import TOPIC, Journal
from headwater.registry.kinds import kind_called
from headwater.registry.parsed_schemas import ParsedSchemas
from headwater.registry.records import Entry, LastIdKey, LevelKey, VersionKey
from headwater.registry.subjects import Subjects
from headwater.registry.words import Compatibility, Kind, Parsed, Reference, SchemaText, Version, against

TOO_LARGE = (
    "the schemas are too large to be compared; make them smaller, or set the compatibility of the subject to NONE"
)


class Verdict(NamedTuple):
    """Whether a schema may follow others, and if not, why."""

    compatible: bool
    reasons: list[str]
    version: int = 0
    """Of the first with which it is not."""


class Registry:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()
        self._subjects = Subjects()
        self._parsed = ParsedSchemas(self._referred)
        self._working = threading.Lock()
        """Held while texts are read and compared, which takes a bounded time: only the CPU is shared, nothing else."""
        self._ids: dict[str, int] = {}
        """Fingerprint -> id, of schemas that are kept."""
        self._subjects.apply(journal.read())
        for version in sorted(self._subjects.every(), key=lambda version: version.id):
            try:
                self._ids.setdefault(self._parsed.fingerprint(version.schema), version.id)
            except InvalidSchemaText:
                continue  # kept as it is for those who know its id; written by another program, or with other libraries

    # -- looking up --------------------------------------------------------------------------------------------------

    def subjects(self, *, deleted: bool = False) -> list[str]:
        self._raise_if_damaged()
        with self._lock:
            return self._subjects.names(deleted=deleted)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Oldest first. UnknownSubject if there is none."""
        self._raise_if_damaged()
        with self._lock:
            return self._subjects.some_versions(subject, deleted=deleted)

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        with self._lock, self._known():
            return self._subjects.version(subject, number, deleted=deleted)

    def with_id(self, number: int) -> list[Version]:
        """Every version that is the schema with an id; a deleted one still answers, because records carry its id."""
        with self._lock, self._known():
            return self._subjects.with_id(number)

    def _raise_if_damaged(self) -> None:
        """Raises if the list may be incomplete."""
        if self._journal.damage:
            raise RegistryUnavailable(f"topic {TOPIC}", f"a part of it is damaged: {self._journal.damage}")

    @contextmanager
    def _known(self) -> Iterator[None]:
        """Turns "not found" into RegistryUnavailable if a part of the topic is damaged."""
        try:
            yield
        except (UnknownSchema, UnknownSubject, UnknownVersion):
            self._raise_if_damaged()
            raise

    def find(self, subject: str, schema: SchemaText, *, deleted: bool = False) -> Version:
        """The version of a subject that is this schema. UnknownSchema if none is."""
        versions = self.versions(subject, deleted=deleted)
        with self._working:
            found = self._same(schema, versions)
        if found is not None:
            return found
        raise UnknownSchema(f'subject "{subject}" has no such schema', "Register it first.")

    def referring_to(self, subject: str, number: int) -> list[int]:
        with self._lock:
            return self._subjects.referring_to([self._subjects.version(subject, number, deleted=True)])

    def parsed(self, schema: SchemaText) -> Parsed:
        """InvalidSchemaText if it is none, or if something that it refers to is not here."""
        with self._working:
            return self._parsed.get(schema)

    # -- changing ----------------------------------------------------------------------------------------------------

    def register(self, subject: str, schema: SchemaText) -> Version:
        """A version of the subject that is this schema: the one it has, or a new one.

        IncompatibleSchema if the subject's rule forbids it. A schema that the registry knows from any subject keeps
        its id.
        """
        _check_subject(subject)
        while True:
            with self._lock:
                versions, level = self._subjects.versions(subject), self._subjects.level(subject)
            with self._working:
                known = self._same(schema, versions)
                if known is not None:
                    return known
                self._check_rule(subject, schema, level, versions)
                kept = replace(schema, text=self._parsed.get(schema).text)
                fingerprint = self._parsed.fingerprint(schema)
            with self._lock:
                # A concurrent request has registered something: then all is checked again.
                if (versions, level) == (self._subjects.versions(subject), self._subjects.level(subject)):
                    return self._add(subject, kept, fingerprint)

    def _add(self, subject: str, schema: SchemaText, fingerprint: str) -> Version:
        for reference in schema.references:
            self._referred(reference)  # may have been deleted since it was read
        every = self._subjects.versions(subject, deleted=True)
        number = every[-1].number + 1 if every else 1
        made = Version(subject, number, self._ids.get(fingerprint) or self._subjects.last_id + 1, schema)
        self._write([Entry(VersionKey(subject, number), made)])
        self._ids.setdefault(fingerprint, made.id)
        return made

    def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> int:
        """Hide a version from readers; with `permanent`, forget one that is hidden. Answers its number."""
        with self._lock:
            version = self._subjects.version(subject, number, deleted=True)
            if permanent and not version.deleted:
                raise NotYetDeleted(subject, version.number)
            if not permanent and version.deleted:
                raise AlreadyDeleted(subject, version.number)
            self._delete([version], permanent=permanent)
            return version.number

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """The same with all versions of a subject; answers their numbers."""
        with self._lock:
            every = self._subjects.some_versions(subject, deleted=True)
            seen = [version for version in every if not version.deleted]
            if permanent and seen:
                raise NotYetDeleted(subject)
            if not permanent and not seen:
                raise AlreadyDeleted(subject)
            going = every if permanent else seen
            self._delete(going, permanent=permanent)
            return [version.number for version in going]

    def _delete(self, going: Sequence[Version], *, permanent: bool) -> None:
        if by := self._subjects.referring_to(going):
            raise SchemaReferenced(going[0].subject, going[0].number, by)
        entries = [
            Entry(VersionKey(version.subject, version.number), None if permanent else replace(version, deleted=True))
            for version in going
        ]
        if permanent:
            # First: should the rest be lost, an id too many is reserved, which does no harm.
            entries.insert(0, Entry(LastIdKey(), self._subjects.last_id))
        self._write(entries)
        if permanent:
            self._ids = {text: id_ for text, id_ in self._ids.items() if self._is_kept(id_)}

    # -- rules -------------------------------------------------------------------------------------------------------

    def own_level(self, subject: str | None) -> Compatibility:
        """The level that was set for a subject (None: the registry). NoOwnCompatibility if it has none."""
        with self._lock:
            level = self._subjects.level(None) if subject is None else self._subjects.own_level(subject)
        if level is None:
            raise NoOwnCompatibility(subject or "")
        return level

    def level(self, subject: str | None) -> Compatibility:
        """The level that counts for a subject."""
        with self._lock:
            return self._subjects.level(subject)

    def set_level(self, subject: str | None, level: Compatibility | None) -> Compatibility:
        """Set a level, or with None give it up; returns what counted before."""
        if subject is not None:
            _check_subject(subject)
        with self._lock:
            before = self._subjects.level(subject)
            if level is None and subject is not None and self._subjects.own_level(subject) is None:
                raise UnknownSubject(subject)
            self._write([Entry(LevelKey(subject), level)])
            return before

    def check(self, subject: str, schema: SchemaText, number: int | None) -> Verdict:
        """May the schema follow one version, or with None all that the subject's rule looks at?"""
        with self._lock:
            level = self._subjects.level(subject)
            if number is not None:
                versions: Sequence[Version] = [self._subjects.version(subject, number)]
            else:
                versions = against(level, self._subjects.versions(subject))
        with self._working:
            return self._held_against(level, schema, versions)

    def _check_rule(self, subject: str, schema: SchemaText, level: Compatibility, versions: Sequence[Version]) -> None:
        verdict = self._held_against(level, schema, against(level, versions))
        if not verdict.compatible:
            raise IncompatibleSchema(subject, level=level, version=verdict.version, reasons=verdict.reasons)

    def _held_against(self, level: Compatibility, schema: SchemaText, versions: Sequence[Version]) -> Verdict:
        new, budget = self._parsed.get(schema), Budget()
        for version in versions:
            old = self._parsed.get(version.schema)
            if old.kind != new.kind:
                reasons = [f"it is of kind {new.kind}, and the version of kind {old.kind}"]
            else:
                reasons = _reasons(level, kind_called(new.kind), new, old, budget)
            if level is not Compatibility.NONE and reasons:
                return Verdict(False, reasons, version.number)
        return Verdict(True, [])

    # -- within ------------------------------------------------------------------------------------------------------

    def _same(self, schema: SchemaText, versions: Sequence[Version]) -> Version | None:
        """The newest that is this schema, however it is written."""
        wanted = self._parsed.fingerprint(schema)
        return next((one for one in reversed(versions) if self._parsed.fingerprint(one.schema) == wanted), None)

    def _referred(self, reference: Reference) -> SchemaText:
        try:
            with self._lock:
                return self._subjects.version(reference.subject, reference.version, deleted=True).schema
        except (UnknownSubject, UnknownVersion) as error:
            raise InvalidSchemaText(f'reference "{reference.name}" leads nowhere: {error}') from None

    def _is_kept(self, number: int) -> bool:
        try:
            return bool(self._subjects.with_id(number))
        except UnknownSchema:
            return False

    def _write(self, entries: Sequence[Entry]) -> None:
        self._raise_if_damaged()  # an id that cannot be read any more could be given to another schema
        self._journal.write(entries)
        self._subjects.apply(entries)


def _reasons(level: Compatibility, kind: Kind, new: Parsed, old: Parsed, budget: Budget) -> list[str]:
    """A comparison that exceeds the budget counts as incompatible."""
    found = []
    try:
        if level.backward:
            found += [f"(backward) {reason}" for reason in kind.unreadable(new.tree, old.tree, budget)]
        if level.forward:
            found += [f"(forward) {reason}" for reason in kind.unreadable(old.tree, new.tree, budget)]
    except (OutOfSteps, RecursionError):
        return [TOO_LARGE]
    return found


def _check_subject(subject: str) -> None:
    if not 1 <= len(subject) <= 500 or not subject.isprintable():
        raise InvalidSchemaText(f"{subject[:80]!r} cannot name a subject", "Use 1 to 500 printable characters.")

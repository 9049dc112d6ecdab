"""The tables of a capture: which they are, what the publication covers, and how their rows are read."""

import logging
from collections.abc import Mapping

from headwater.capture.change import CapturedTable
from headwater.capture.notes import Note
from headwater.capture.postgresql.database import Database
from headwater.capture.postgresql.described_types import described
from headwater.capture.postgresql.pgoutput import Column, Relation
from headwater.capture.postgresql.setup import publish
from headwater.capture.postgresql.tables import FULL, NOTHING, Plan, TableFacts, chosen, parse_pattern
from headwater.capture.schemas import ROW, row_of
from headwater.capture.topic_names import topic_of
from headwater.errors import InvalidCapture, SourceRefused

_logger = logging.getLogger(__name__)

TOAST_TARGET = 2032
PACKED = 8
"""As text a row may be so many times shorter than on the disk, and not more."""


class Catalog:
    """Asks the database what a table is now; a relation in the stream says what it was then."""

    def __init__(
        self, database: Database, patterns: tuple[str, ...], *, capture: str, topic: str, publication: str
    ) -> None:
        self._database, self._patterns = database, patterns
        self._capture, self._topic, self._publication = capture, topic, publication
        self._types = database.types()
        self._topics: dict[int, str] = {}
        self._schemas: dict[str, Note] = {}
        self.facts: dict[int, TableFacts] = {}
        self.entries: dict[str, int] = {}
        """Of each table, its entry in the publication: another one if it was taken out and put in again."""

        self.left_out: list[str] = []
        """Tables that a pattern names and that cannot be captured: they lack a key, or the role a right."""

        self.notes: dict[str, Note | None] = {}
        """Versions of schemas that are new: the caller that registers them empties this."""

    def remember(self, notes: Mapping[str, Note]) -> None:
        self._schemas = {what: note for what, note in notes.items() if what.startswith("schema/")}

    def publish(self, *, all_there: bool) -> list[TableFacts]:
        """Adds every wanted table to the publication; returns those that it did not have before.

        `all_there`: a table that was named, and is not in the database, is an error.
        """
        wanted = self._without_unfit(chosen(self._database.tables(), self._patterns))
        missing = [
            pattern
            for pattern in map(parse_pattern, self._patterns)
            if not pattern.wild and not any(pattern.matches(table.schema, table.name) for table in wanted)
        ]
        if missing and all_there:
            raise SourceRefused(f"there is no table {missing[0].schema}.{missing[0].name} in the database")
        if not wanted:
            raise SourceRefused(f"no table of the database is named by {', '.join(self._patterns)}")
        topics = {table.id: topic_of(self._topic, self._capture, table.schema, table.name) for table in wanted}
        if len(set(topics.values())) < len(topics):
            raise InvalidCapture(
                f"capture {self._capture} would write several tables to one topic",
                "Let its topic name the table, as {capture}.{schema}.{table} does.",
            )
        added = publish(self._database, self._publication, wanted)
        fresh = {table.full_name for table in wanted}
        self.facts = {id: table for id, table in self.facts.items() if table.full_name not in fresh}
        self.facts.update({table.id: table for table in wanted})
        self._topics.update(topics)
        entries = self._database.published(self._publication) or {}
        self.entries = {f"{schema}.{name}": entry for (schema, name), entry in entries.items()}
        return added

    def _without_unfit(self, tables: list[TableFacts]) -> list[TableFacts]:
        """A table that only a pattern names, and that cannot be captured, must not keep the others from it."""
        named = [pattern for pattern in map(parse_pattern, self._patterns) if not pattern.wild]
        unfit = [
            table
            for table in tables
            if (table.changes_refused or not table.owned or not table.readable)
            and not any(pattern.matches(table.schema, table.name) for pattern in named)
        ]
        for table in unfit:
            if table.full_name not in self.left_out:
                _logger.warning("table %s is left out: see headwater capture check", table.full_name)
        self.left_out = [table.full_name for table in unfit]
        return [table for table in tables if table not in unfit]

    def named(self, full_name: str) -> TableFacts | None:
        """Returns the current definition of the table with this name; None if it was deleted."""
        known = next((one for one in self.facts.values() if one.full_name == full_name), None)
        found = self._database.tables(known.id) if known else []
        if not found:
            return None
        self.facts[found[0].id] = found[0]
        return found[0]

    # -- how rows are read -------------------------------------------------------------------------------------------

    def plan(self, relation: Relation) -> Plan | None:
        """For rows of the stream, as the table was when they were written; None if it is not captured."""
        topic = self._topics.get(relation.id)
        if topic is None:
            if not chosen([_facts_of(relation)], self._patterns):
                return None
            topic = topic_of(self._topic, self._capture, relation.namespace, relation.name)
            self._topics[relation.id] = topic
        if found := self._database.tables(relation.id):
            self.facts[relation.id] = found[0]
        facts = self.facts.get(relation.id)
        names = [column.name for column in relation.columns]
        if relation.identity in (FULL, NOTHING):
            key = tuple(names.index(name) for name in (facts.primary_key if facts else ()) if name in names)
        else:
            key = tuple(index for index, column in enumerate(relation.columns) if column.identity)
        wide = (facts.toast_target if facts else TOAST_TARGET) // PACKED
        table = CapturedTable(relation.namespace, relation.name, topic, tuple(names), key, wide)
        return self._made(table, relation)

    def plan_of(self, facts: TableFacts) -> Plan:
        """For rows of a query."""
        columns = tuple(
            Column(column.name, column.type, column.modifier, column.name in facts.key) for column in facts.columns
        )
        names = [column.name for column in columns]
        key = tuple(index for index, name in enumerate(names) if name in facts.key)
        table = CapturedTable(
            facts.schema, facts.name, self._topics[facts.id], tuple(names), key, facts.toast_target // PACKED
        )
        return self._made(table, Relation(facts.id, facts.schema, facts.name, facts.identity, columns))

    def _made(self, table: CapturedTable, relation: Relation) -> Plan:
        if any(column.type not in self._types for column in relation.columns):
            self._types = self._database.types()
        self._note_schema(table, relation)
        return Plan(table, relation, self._types)

    def _note_schema(self, table: CapturedTable, relation: Relation) -> None:
        columns = [[column.name, self._type_name(column.type)] for column in relation.columns]
        key = [table.columns[index] for index in table.key]
        row = row_of(((one.name, described(one.type, one.modifier, self._types)) for one in relation.columns), key)
        what = f"schema/{table.full_name}"
        known = self._schemas.get(what)
        if known is None or (known["columns"], known["key"], known.get(ROW)) != (columns, key, row):
            version = int(str(known["version"])) + 1 if known else 1
            note: Note = {"version": version, "columns": columns, "key": key, "topic": table.topic, ROW: row}
            self._schemas[what] = self.notes[what] = note
            self.notes[f"{what}/{version}"] = note

    def _type_name(self, type: int) -> str:
        return self._types[type].name if type in self._types else f"type {type}"


def _facts_of(relation: Relation) -> TableFacts:
    return TableFacts(relation.id, relation.namespace, relation.name, relation.identity, (), (), ())

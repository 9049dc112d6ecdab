"""The tables of a capture: how their rows are read from the log and from queries, and what versions they have had."""

import logging
from collections.abc import Mapping, Sequence

from headwater.capture.change import CapturedTable, Row
from headwater.capture.mariadb_binlog.assembler import Plan
from headwater.capture.mariadb_binlog.database import Cells, Database
from headwater.capture.mariadb_binlog.described_types import Kind, described, form, kind_of_catalog, kind_of_log
from headwater.capture.mariadb_binlog.table_map import describe
from headwater.capture.mariadb_binlog.tables import BASE_TABLE, NEVER_LEFT_OUT, Pattern, TableFacts
from headwater.capture.mariadb_binlog.text_values import AS_TEXT, Convert, converter
from headwater.capture.mariadb_binlog.values import RowReader, reader
from headwater.capture.notes import Note
from headwater.capture.schemas import ROW, SCHEMA_NOTE, row_of
from headwater.capture.topic_names import topic_of
from headwater.errors import InvalidCapture, SourceRefused

_logger = logging.getLogger(__name__)
FORMS = "forms"
"""In the note of a schema: how the columns of the key are written, in the order of the key."""


class TextPlan:
    """How the rows of a query become fragments."""

    def __init__(self, table: CapturedTable, facts: TableFacts) -> None:
        self.table = table
        self._converters: list[Convert] = []
        for column in facts.columns:
            convert = converter(column)
            if convert is None:
                raise SourceRefused(
                    f"column {column.name} of {facts.full_name} is of type {column.full_type or column.type}, which "
                    "captures cannot read"
                )
            self._converters.append(convert)

    def row(self, cells: Cells) -> Row:
        return [
            b"null" if cell is None else convert(cell)
            for cell, convert in zip(cells, self._converters, strict=True)
        ]  # fmt: skip


class Catalog:
    """Asks the server what a table is now; the log says what it was when its rows were written."""

    def __init__(self, database: Database, patterns: Sequence[Pattern], *, capture: str, topic: str) -> None:
        self._database, self._capture, self._topic = database, capture, topic
        self._folds = database.one("SELECT @@global.lower_case_table_names") != "0"
        self._patterns = [Pattern(*self.folded(one)) for one in patterns]
        self.charsets = database.charsets()
        self._plans: dict[bytes, tuple[Plan, Sequence[Kind]] | None] = {}
        self._known: dict[tuple[str, str], CapturedTable] = {}
        self._forms: dict[CapturedTable, list[str]] = {}
        self._schemas: dict[str, Note] = {}
        self.notes: dict[str, Note | None] = {}
        """Versions of schemas that are new: the caller that registers them empties this."""

        self.rekeyed: set[str] = set()
        """Tables whose keys are written otherwise than before: what their topics have is under keys of the old form."""

    def folded(self, name: tuple[str, str]) -> tuple[str, str]:
        """Schema and name as this server compares them."""
        return (name[0].lower(), name[1].lower()) if self._folds else name

    def remember(self, notes: Mapping[str, Note]) -> None:
        """The noted tables: also tables deleted since, for the log may still have their last changes."""
        self._schemas = {what: note for what, note in notes.items() if what.startswith(SCHEMA_NOTE)}
        for what, note in self._schemas.items():
            if f"{what}/{note['version']}" in self._schemas:
                schema, _, name = what.removeprefix(SCHEMA_NOTE).partition(".")
                columns = tuple(str(column[0]) for column in note["columns"])  # type: ignore[attr-defined]
                key = tuple(columns.index(one) for one in note["key"])  # type: ignore[attr-defined]
                self._known[schema, name] = CapturedTable(
                    schema, name, self._topic_of(schema, name), columns, key, NEVER_LEFT_OUT
                )

    def matches(self, schema: str, name: str) -> bool:
        folded = self.folded((schema, name))
        return any(one.matches(*folded) for one in self._patterns)

    def find(self) -> list[TableFacts]:
        """All tables that are wanted and there. One that was named and is missing is an error."""
        tables = self._database.all_tables()
        found = [table for table in tables if table.kind == BASE_TABLE and self.matches(table.schema, table.name)]
        there = [self.folded((table.schema, table.name)) for table in found]
        for one in self._patterns:
            if not one.wild and not any(one.matches(*name) for name in there):
                raise SourceRefused(f"there is no table {one.schema}.{one.name} in the database")
        if not found:
            patterns = ", ".join(f"{one.schema}.{one.name}" for one in self._patterns)
            raise SourceRefused(f"no table of the database is named by {patterns}")
        if len({self._topic_of(table.schema, table.name) for table in found}) < len(found):
            raise InvalidCapture(
                f"capture {self._capture} would write several tables to one topic",
                "Let its topic name the table, as {capture}.{schema}.{table} does.",
            )
        return found

    def facts(self, full_name: str) -> TableFacts | None:
        """Returns the current definition of a table; None if it was deleted."""
        schema, _, name = full_name.partition(".")
        found = [table for table in self._database.tables(schema, name) if table.kind == BASE_TABLE]
        return found[0] if found else None

    def known(self) -> list[CapturedTable]:
        return list(self._known.values())

    def named(self, schema: str, name: str) -> list[CapturedTable]:
        """Captured tables of a schema with this name, or all of the schema for "", or all for "" and ""."""
        if not schema and not name:
            return self.known()
        schema, name = self.folded((schema, name))
        of_schema = {self.folded(known)[1]: table for known, table in self._known.items()
                     if self.folded(known)[0] == schema}  # fmt: skip
        if not name:
            return list(of_schema.values())
        if name in of_schema:
            return [of_schema[name]]
        if not self.matches(schema, name) or (facts := self.facts(f"{schema}.{name}")) is None:
            return []
        return [self.table_of(facts)]

    def table_of(self, facts: TableFacts) -> CapturedTable:
        names = tuple(column.name for column in facts.columns)
        key = tuple(index for index, name in enumerate(names) if name in facts.key)
        return self._made(facts.schema, facts.name, names, key, [kind_of_catalog(column) for column in facts.columns])

    def text_plan(self, facts: TableFacts) -> TextPlan:
        return TextPlan(self.table_of(facts), facts)

    def plan(self, content: bytes) -> Plan | None:
        """For rows of the log, as their table was when they were written; None if it is not captured."""
        if content not in self._plans:
            schema, name = _names(content)
            self._plans[content] = self._plan(content, schema, name) if self.matches(schema, name) else None
        found = self._plans[content]
        if found is None:
            return None
        plan, kinds = found
        if self._known.get((plan.table.schema, plan.table.name)) is not plan.table:
            self._take_version(plan.table, kinds)
        return plan

    def _plan(self, content: bytes, schema: str, name: str) -> tuple[Plan, Sequence[Kind]] | None:
        now = self._database.tables(schema, name)
        if now and now[0].kind != BASE_TABLE:
            return None
        types = {column.name: column.type for table in now for column in table.columns}
        version = describe(content)
        names = tuple(column.name for column in version.columns)
        shown = [AS_TEXT.get(types.get(one, "")) for one in names]
        kinds = [
            kind_of_log(column, self.charsets, shown=one is not None)
            for column, one in zip(version.columns, shown, strict=True)
        ]
        table = self._made(schema, name, names, version.key, kinds)
        readers = [
            reader(column, self.charsets, as_text=one) for column, one in zip(version.columns, shown, strict=True)
        ]
        return Plan(table, RowReader(readers)), kinds

    def _topic_of(self, schema: str, name: str) -> str:
        return topic_of(self._topic, self._capture, schema, name)

    def _made(
        self, schema: str, name: str, columns: tuple[str, ...], key: tuple[int, ...], kinds: Sequence[Kind]
    ) -> CapturedTable:
        table = self._known.get((schema, name))
        said = (columns, key, [form(kinds[index]) for index in key])
        if table is None or (table.columns, table.key, self._forms.get(table)) != said:
            table = CapturedTable(schema, name, self._topic_of(schema, name), columns, key, NEVER_LEFT_OUT)
        self._take_version(table, kinds)
        return table

    def _take_version(self, table: CapturedTable, kinds: Sequence[Kind]) -> None:
        """From here on the table is this one."""
        self._known[table.schema, table.name] = table
        forms = self._forms[table] = [form(kinds[index]) for index in table.key]
        key = [table.columns[index] for index in table.key]
        known = self._schemas.get(f"{SCHEMA_NOTE}{table.full_name}")
        if known is not None and (known["key"], known.get(FORMS, forms)) != (key, forms):
            self.rekeyed.add(table.full_name)
        self._note_schema(table, kinds, key, forms)

    def _note_schema(self, table: CapturedTable, kinds: Sequence[Kind], key: list[str], forms: list[str]) -> None:
        columns = [[name, kind.name] for name, kind in zip(table.columns, kinds, strict=True)]
        row = row_of(zip(table.columns, map(described, kinds), strict=True), key)
        what = f"{SCHEMA_NOTE}{table.full_name}"
        known = self._schemas.get(what)
        said = (columns, key, row, forms)
        if known is None or (known["columns"], known["key"], known.get(ROW), known.get(FORMS, forms)) != said:
            version = int(str(known["version"])) + 1 if known else 1
            note: Note = {
                "version": version, "columns": columns, "key": key, FORMS: forms, "topic": table.topic, ROW: row,
            }  # fmt: skip
            self._schemas[what] = self.notes[what] = note
            self.notes[f"{what}/{version}"] = note


def _names(content: bytes) -> tuple[str, str]:
    """Schema and name of a table, of its description in the log."""
    middle = 3 + content[2]
    end = middle + 2 + content[middle + 1]
    return content[3:middle].decode("utf-8", "replace"), content[middle + 2 : end].decode("utf-8", "replace")

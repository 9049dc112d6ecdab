"""An app: everything one user file declares."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.duration import duration_us
from headwater.flow.declare.nodes import Source, SourceStream, SourceTable, Sql
from headwater.flow.declare.place import Place, calling_place
from headwater.flow.declare.sinks import SinkDeclaration
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.formats.decoding import MODULES
from headwater.flow.formats.schema import Schema, nearest, parse_ddl

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
VIEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
TIMES = ("timestamp[us, tz=UTC]",)

Body = Callable[[], Stream | Table]
AnyBody = TypeVar("AnyBody", bound=Body)

VIEW, TOPIC, SINK = "view", "topic", "sink"


@dataclass(frozen=True, eq=False)
class Output:
    """A view, an output topic or a sink: its body says what it holds."""

    kind: str
    name: str
    key: tuple[str, ...]
    body: Body
    place: Place
    store: str = ""
    sink: SinkDeclaration | None = None
    partitions: int = 1
    doc: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.place})"


class App:
    """Streams, tables, views and outputs under one name.

    app = hw.App("shop")
    orders = app.stream("orders", "id string, amount decimal(12,2), at timestamp", time="at")

    @app.view(key="id")
    def latest_orders():
        return orders.latest("id")
    """

    def __init__(self, name: str, *, store: str = "", shards: int = 0) -> None:
        """`store`: where views are kept unless they say otherwise (default: SQLite beside the log; or a postgresql://
        URL). `shards`: parts that state is cut into, so many tasks at once; 0: by the machine at the first run."""
        _check_name("an app", name)
        self.name, self.store, self.shards = name, store, shards
        self.place = calling_place()
        self.sources: dict[str, Source] = {}
        self.outputs: dict[str, Output] = {}

    # -- inputs --------------------------------------------------------------------------------------------------------

    def stream(
        self,
        topic: str,
        schema: str = "value binary",
        *,
        time: str | None = None,
        lateness: str = "0s",
        format: str = "",
        name: str = "",
        options: Mapping[str, str] | None = None,
    ) -> Stream:
        """Facts from a topic. `schema` is Spark DDL; `time` names the column with the event time."""
        parsed = self._schema(schema, topic)
        self._check_time(parsed, time, topic)
        chosen = format or ("raw" if schema == "value binary" else "json")
        name = name or topic
        node = SourceStream(
            calling_place(), name, topic, parsed, chosen, time, duration_us(lateness), dict(options or {})
        )
        self._add_source(node)
        return Stream(node)

    def table(
        self,
        topic: str,
        schema: str,
        *,
        key: str | tuple[str, ...] | list[str],
        versions: str = "0s",
        format: str = "json",
        name: str = "",
        options: Mapping[str, str] | None = None,
    ) -> Table:
        """The latest row per key of a changelog topic; a record without a value deletes its key."""
        parsed, names = self._schema(schema, topic), _tuple(key)
        for column in names:
            self._check_column(parsed, column, f"the key of table {topic}")
        name = name or topic
        node = SourceTable(
            calling_place(), name, topic, parsed, format, names, duration_us(versions), dict(options or {})
        )
        self._add_source(node)
        return Table(node)

    def sql(self, text: str) -> Stream:
        """SQL over this app's streams by their names: `app.sql("select id, amount from orders where amount > 100")`."""
        named = {name: node for name, node in self.sources.items() if re.search(rf"\b{re.escape(name)}\b", text)}
        if not named:
            known = ", ".join(sorted(self.sources)) or "none yet"
            raise InvalidDeclaration(f"the SQL at {calling_place()} names no stream of the app", f"There are: {known}.")
        if tables := [name for name, node in named.items() if node.keyed]:
            raise InvalidDeclaration(
                f"the SQL at {calling_place()} reads {tables[0]}, which is a table",
                f"SQL looks at rows of streams: use select, where and with_columns on {tables[0]} itself.",
            )
        return Stream(Sql(calling_place(), text, named))

    # -- outputs -------------------------------------------------------------------------------------------------------

    def view(
        self, *, key: str | tuple[str, ...] | list[str], store: str = "", name: str = ""
    ) -> Callable[[AnyBody], AnyBody]:
        """A table that people and programs can query, kept up to date."""
        place = calling_place()

        def declare(body: AnyBody) -> AnyBody:
            view = name or body.__name__
            if not VIEW_NAME.fullmatch(view):
                raise InvalidDeclaration(
                    f"{view!r} ({place}) cannot name a view", "Use up to 60 letters, digits and underscores."
                )
            self._add_output(
                Output(VIEW, view, _tuple(key), body, place, store=store or self.store, doc=_first_line(body))
            )
            return body

        return declare

    def topic(
        self, topic: str, *, key: str | tuple[str, ...] | list[str] = (), partitions: int = 1
    ) -> Callable[[AnyBody], AnyBody]:
        """An output topic: rows of a stream as JSON, or the changes of a table in Debezium's envelope."""
        place = calling_place()

        _check_name("a topic", topic)
        if partitions < 1:
            raise InvalidDeclaration(f"topic {topic} ({place}) cannot have {partitions} partitions", "One is enough.")

        def declare(body: AnyBody) -> AnyBody:
            self._add_output(
                Output(TOPIC, topic, _tuple(key), body, place, partitions=partitions, doc=_first_line(body))
            )
            return body

        return declare

    def sink(
        self, sink: SinkDeclaration, *, key: str | tuple[str, ...] | list[str] = (), name: str = ""
    ) -> Callable[[AnyBody], AnyBody]:
        """An output to files, a database, the console or a function of one's own."""
        place = calling_place()

        def declare(body: AnyBody) -> AnyBody:
            _check_name("a sink", name or body.__name__)
            self._add_output(
                Output(SINK, name or body.__name__, _tuple(key), body, place, sink=sink, doc=_first_line(body))
            )
            return body

        return declare

    # -- checks --------------------------------------------------------------------------------------------------------

    def _add_source(self, node: Source) -> None:
        _check_name("a topic", node.topic)
        _check_name("a stream or table", node.name)
        if node.format not in MODULES:
            raise InvalidDeclaration(
                f"{node.name} ({node.place}) is of format {node.format}, which there is not",
                nearest(node.format, MODULES),
            )
        if other := self.sources.get(node.name):
            raise InvalidDeclaration(
                f"{node.name} is declared at {other.place} and again at {node.place}", "Give one another name=."
            )
        self.sources[node.name] = node

    def _add_output(self, output: Output) -> None:
        if other := next((one for one in self.outputs.values() if _same_name(one, output)), None):
            what = "written" if output.kind == TOPIC == other.kind else "declared"
            raise InvalidDeclaration(
                f"{output.kind} {output.name} is {what} at {other.place} and again at {output.place}",
                "One output has one writer: give one another name, or union the two streams.",
            )
        self.outputs[output.name] = output

    def _schema(self, text: str, topic: str) -> Schema:
        try:
            return parse_ddl(text)
        except InvalidDeclaration as error:
            raise InvalidDeclaration(f"the schema of {topic} ({calling_place()}): {error}") from None

    def _check_time(self, schema: Schema, time: str | None, topic: str) -> None:
        if time is None:
            return
        self._check_column(schema, time, f"the time of stream {topic}")
        if str(schema.field(time).type) not in TIMES:
            raise InvalidDeclaration(
                f"the time of stream {topic} ({calling_place()}) is column {time}, which is no timestamp",
                f"Declare it as `{time} timestamp`.",
            )

    def _check_column(self, schema: Schema, column: str, what: str) -> None:
        if column not in schema.names:
            near = difflib.get_close_matches(column, schema.names, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(schema.names)}."
            raise InvalidDeclaration(f"{what} ({calling_place()}) is {column}, which is not in its schema", hint)


def _check_name(what: str, name: str) -> None:
    """Names become folders and topics."""
    if not NAME.fullmatch(name):
        raise InvalidDeclaration(
            f"{name!r} ({calling_place()}) cannot name {what}",
            "Use up to 200 letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
        )


def _same_name(one: Output, other: Output) -> bool:
    """Databases that hold views do not tell capital letters from small ones."""
    views = one.kind == other.kind == VIEW
    return one.name == other.name or (views and one.name.lower() == other.name.lower())


def _tuple(key: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _first_line(body: Body) -> str:
    return (body.__doc__ or "").strip().partition("\n")[0]

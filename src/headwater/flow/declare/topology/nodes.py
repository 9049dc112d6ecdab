"""The graph a user declares: small immutable nodes that point at their inputs.

    SourceStream ─► Where ─► Aggregate ─► (a view)
    SourceTable ─► Changes ─► Select ─► (a topic)

A node holds what the user wrote and where; what it means is in job/compiling.py. Column expressions are held as they
came (text or PySpark columns), so most of the graph can be made and checked while no Spark runs.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.topology.column_names import renamed_key
from headwater.flow.declare.topology.registered import Registered, options_of, schema_of
from headwater.flow.declare.windows import Emission
from headwater.flow.formats.schema import Schema
from headwater.flow.operators.comparisons import kinds
from headwater.flow.operators.joins.pairing import EXISTENCE, INNER, LEFT, RIGHT, Condition
from headwater.flow.operators.patterns.spec import PatternSpec
from headwater.flow.operators.windows.clock import CORRECTIONS
from headwater.flow.operators.windows.step import FINAL
from headwater.flow.operators.windows.window import Window
from headwater.flow.source.times.clock_rules import NO_RULES, ClockRules

Expression = Any
"""A PySpark column, or SQL text that Spark parses into one."""


@dataclass(frozen=True, eq=False)
class Node:
    place: Place

    @property
    def inputs(self) -> tuple["Node", ...]:
        return ()

    @property
    def keyed(self) -> bool:
        """Is it a table (the latest row per key) rather than a stream of facts?"""
        return False


@dataclass(frozen=True, eq=False)
class SourceStream(Node):
    name: str
    topic: str
    contents: Schema | Registered
    format: str
    time: str | None
    lateness_us: int
    options: Mapping[str, str] = field(default_factory=dict)
    idle_us: int | None = 30_000_000
    """How long a partition or a producer without rows is waited for; None: for ever."""
    clock: ClockRules = NO_RULES

    @property
    def schema(self) -> Schema:
        return schema_of(self.contents)

    @property
    def format_options(self) -> Mapping[str, str]:
        """What the decoder of the format is given: by the user, or by the registry for him."""
        return options_of(self.contents, self.options)


TABLE_IDLE_US = 1_000_000
"""A table changes now and then: what is read to its end is as it is."""


@dataclass(frozen=True, eq=False)
class SourceTable(Node):
    name: str
    topic: str
    contents: Schema | Registered
    format: str
    key: tuple[str, ...]
    versions_us: int
    options: Mapping[str, str] = field(default_factory=dict)
    valid_from: str | None = None
    valid_to: str | None = None
    idle_us: int | None = TABLE_IDLE_US
    """How long joins as of a time wait for a partition of it in which nothing happens; None: for ever."""
    version_id: str = ""
    """A column that names the record which a row is from, as topic/partition@offset."""

    @property
    def schema(self) -> Schema:
        return schema_of(self.contents)

    @property
    def format_options(self) -> Mapping[str, str]:
        return options_of(self.contents, self.options)

    @property
    def keyed(self) -> bool:
        return True


VERSIONS = ".versions"
"""Behind the name of a table."""


@dataclass(frozen=True, eq=False)
class SourceVersions(SourceStream):
    """All versions of a table's rows, each from its time on; the records of its topic as facts."""

    key: tuple[str, ...] = ()
    versions_us: int = 0
    valid_from: str | None = None
    """The column that says since when a version holds; None: since the timestamp of its record."""
    valid_to: str | None = None
    version_id: str = ""


Source = SourceStream | SourceTable
CHANGELOGS = (SourceTable, SourceVersions)
"""Sources whose records without a value say that a key is deleted."""


def source_id(source: "Source") -> str:
    """What is known of a source from batch to batch is kept under this name: one topic may be read by several."""
    return source.topic if source.name == source.topic else f"{source.topic}/{source.name}"


@dataclass(frozen=True, eq=False)
class OneInput(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=False)
class RowStep(OneInput):
    """Looks at one row at a time, of a stream or of a table."""

    @property
    def keyed(self) -> bool:
        return self.input.keyed


@dataclass(frozen=True, eq=False)
class Select(RowStep):
    columns: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Where(RowStep):
    condition: Expression


@dataclass(frozen=True, eq=False)
class WithColumns(RowStep):
    columns: Mapping[str, Expression]


GENERATORS = re.compile(r"\b(pos)?explode(_outer)?\s*\(|\binline(_outer)?\s*\(|\bstack\s*\(", re.IGNORECASE)
"""Functions of Spark that make several rows of one, or none."""


def generates(node: Node) -> bool:
    """Does a choice of columns make several rows of one?

    >>> generates(Select(None, None, ("id", "explode(items) as item"))), generates(Select(None, None, ("exploded",)))
    (True, False)
    """
    if not isinstance(node, Select | WithColumns):
        return False
    columns = node.columns.values() if isinstance(node, WithColumns) else node.columns
    return any(GENERATORS.search(str(one)) for one in columns)


@dataclass(frozen=True, eq=False)
class Explode(RowStep):
    column: str
    into: str
    outer: bool
    position: str = ""
    """Of a table: the column that says which element it is, beside the key of the row that it was in."""


@dataclass(frozen=True, eq=False)
class Apply(OneInput):
    """Any function DataFrame → DataFrame that looks at one row at a time."""

    function: Callable[..., Any]
    name: str


@dataclass(frozen=True, eq=False)
class Sql(Node):
    """SQL text over named streams."""

    text: str
    tables: Mapping[str, Node]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(self.tables.values())


@dataclass(frozen=True, eq=False)
class Union(Node):
    parts: tuple[Node, ...]
    part: str = ""
    """Of tables: the column that says which of them a row is of, from 0, beside its key there."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @property
    def keyed(self) -> bool:
        return self.parts[0].keyed


@dataclass(frozen=True, eq=False)
class Dedupe(OneInput):
    """The first row with each key; rows with the same key within the time are repetitions."""

    key: tuple[str, ...]
    within_us: int
    name: str


@dataclass(frozen=True, eq=False)
class Aggregate(OneInput):
    key: tuple[str, ...]
    aggregates: tuple[Expression, ...]
    name: str

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class TableAggregate(Aggregate):
    """Of the rows of a table, which change and go."""


@dataclass(frozen=True, eq=False)
class Windowed(OneInput):
    """Aggregates for each key and window of time."""

    window: Window
    by: tuple[str, ...]
    aggregates: tuple[Expression, ...]
    emission: Emission
    name: str
    processing: bool = False
    """By when rows are processed, and not by when they happened."""

    def __post_init__(self) -> None:
        if self.emission.kind == CORRECTIONS:
            self.window.refuse_corrections(self.place)

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.by, *self.window.key)

    @property
    def reserved(self) -> tuple[str, ...]:
        """Columns of the result that are not the user's."""
        return (*self.window.reserved, *((FINAL,) if self.emission.early else ()))

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Compared(OneInput):
    """Windows beside earlier ones of their key, as more columns."""

    comparisons: Mapping[str, kinds.Comparison]
    name: str

    @property
    def windowed(self) -> Windowed:
        found = windowed_of(self.input)
        assert found is not None
        return found

    @property
    def key(self) -> tuple[str, ...]:
        return self.windowed.key

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Lesson(Windowed):
    """Windows that a model learns from, each once and in the order of time."""


@dataclass(frozen=True, eq=False)
class KMeans(OneInput):
    """Centres of clusters that move with every window."""

    columns: tuple[str, ...]
    k: int
    half_life_us: int | None
    name: str

    @property
    def windowed(self) -> Windowed:
        assert isinstance(self.input, Lesson)
        return self.input

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.windowed.by, "cluster")

    @property
    def keyed(self) -> bool:
        return True


def windowed_of(node: Node) -> Windowed | None:
    """The windows whose result a table is, row by row."""
    while isinstance(node, Select | Where | WithColumns | Compared) and node.keyed:
        node = node.input
    return node if isinstance(node, Windowed) else None


@dataclass(frozen=True, eq=False)
class Latest(OneInput):
    """The newest row for each key, by event time and then by position."""

    key: tuple[str, ...]
    name: str

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Newest(OneInput):
    """The first rows of each group of a table, by the highest value of a column, as one list."""

    key: tuple[str, ...]
    order: str
    limit: int
    into: str
    name: str

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class History(OneInput):
    """All versions of a table's rows, each with since when and until when it holds. The input is all of them."""

    by: tuple[str, ...]
    valid_from: str
    valid_to: str
    name: str

    @property
    def versions(self) -> SourceVersions | None:
        """What says of itself since when it holds; None: its rows are events."""
        return next((node for node in walk(self.input) if isinstance(node, SourceVersions)), None)

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.by, self.valid_from)

    @property
    def keyed(self) -> bool:
        return True


class Using(NamedTuple):
    """Columns that a node names, of one of its inputs."""

    what: str
    names: tuple[str, ...]
    input: int = 0


Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TableOperator(Node):
    """What is given both sides of every change of tables, and makes a table whose rows may go from one of its shards to
    another: of such a row both emit a side."""

    @property
    def keyed(self) -> bool:
        return True

    @property
    def using(self) -> Sequence[Using]:
        return ()

    @property
    def in_words(self) -> tuple[str, str]:
        """A verb, and the user's words for the rest."""
        return type(self).__name__.lower(), ""

    def gives(self, given: Sequence[Names | None]) -> Names | None:
        """The columns of the result, of those of its inputs; None if they are for Spark to say."""
        return None


@dataclass(frozen=True, eq=False)
class Changes(OneInput):
    """The changes of a table as a stream of facts: op, before, after."""


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Rows of two inputs that have the same values in some columns; those are there once, under the left's names."""

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    further: tuple[Condition, ...]
    how: str
    prefix: str
    """Stands before the names of the right's other columns."""
    name: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def right_name(self) -> str:
        """What the user calls the right: a source, whatever steps follow it. Empty if it is none."""
        node = self.right
        while isinstance(node, OneInput) and not isinstance(node, STATEFUL):
            node = node.input
        if isinstance(node, SourceVersions):
            return node.name.removesuffix(VERSIONS)
        return node.name if isinstance(node, SourceStream | SourceTable) else ""

    def named(self, column: str) -> str:
        """What a column of the right is called in the result."""
        return next((left for left, right in self.on if right == column), self.prefix + column)


@dataclass(frozen=True, eq=False)
class TableJoin(Join, TableOperator):
    """Of two tables."""

    @property
    def key(self) -> tuple[str, ...]:
        """That of both; of one alone where its rows meet at most one of the other, and are never missing."""
        if self.how in EXISTENCE:
            return key_of(self.left)
        left, right = key_of(self.left), key_of(self.right)
        one_right, one_left = set(right) <= {name for _, name in self.on}, set(left) <= {name for name, _ in self.on}
        renamed = tuple(map(self.named, right))
        if one_right and self.how in (INNER, LEFT):
            return left
        if one_left and self.how in (INNER, RIGHT):
            return renamed
        return (*left, *(name for name in renamed if name not in left))


@dataclass(frozen=True, eq=False)
class IntervalJoin(Join):
    """Of two streams: an event at t meets those of the right from t + low to t + high."""

    low_us: int
    high_us: int
    horizon_us: int

    @property
    def key(self) -> tuple[str, ...]:
        return (LEFT_NAME, RIGHT_NAME)

    @property
    def keyed(self) -> bool:
        """What can be retracted is emitted as a table."""
        return self.horizon_us > 0


@dataclass(frozen=True, eq=False)
class LatestJoin(Join):
    """Of a stream and a table as it is when events come."""

    wait_us: int


@dataclass(frozen=True, eq=False)
class AsOfJoin(Join):
    """Of a stream and the versions of a table, each event with the one that held at its time."""

    horizon_us: int

    @property
    def versions(self) -> SourceVersions:
        return next(node for node in walk(self.right) if isinstance(node, SourceVersions))

    @property
    def key(self) -> tuple[str, ...]:
        return (LEFT_NAME,)

    @property
    def keyed(self) -> bool:
        return self.horizon_us > 0


@dataclass(frozen=True, eq=False)
class Recognized(OneInput):
    """Matches of a pattern in the rows of each key, in the order of time."""

    spec: PatternSpec
    name: str

    @property
    def key(self) -> tuple[str, ...]:
        return self.spec.key

    @property
    def keyed(self) -> bool:
        """What can be retracted is emitted as a table."""
        return self.spec.horizon_us > 0


LEFT_NAME, RIGHT_NAME = "left_row", "right_row"
"""Columns that name the records which a result was made from, as topic/partition@offset."""

STREAM_JOINS = (IntervalJoin, LatestJoin, AsOfJoin)
STATEFUL = (
    Aggregate, Windowed, Compared, KMeans, Latest, Dedupe, SourceTable, Join, Newest, History, TableOperator,
    Recognized,
)  # fmt: skip
MAKING = (Join, Recognized)
"""Operators whose results are facts again, unless they may be retracted."""
ARRIVING = (Changes, Dedupe, LatestJoin)
"""Steps whose results depend on which rows came in one batch."""
TIMED = (Windowed, Dedupe, *STREAM_JOINS, Recognized)
"""Operators for which a row may be late."""


def walk(node: Node) -> list[Node]:
    """The node and all it is made from, inputs first, each once."""
    found: list[Node] = []

    def visit(one: Node) -> None:
        if one in found:
            return
        for source in one.inputs:
            visit(source)
        found.append(one)

    visit(node)
    return found


MULTIPLYING = (Explode, Apply, Sql, Union, *MAKING)


def multiplies(node: Node) -> bool:
    """May several of its rows lie at one offset of the log?"""
    return any(isinstance(one, MULTIPLYING) or generates(one) for one in walk(node))


def steps_behind(node: Node) -> tuple[list[Node], Node]:
    """The steps on a table, in their order, and the operator that keeps it."""
    steps: list[Node] = []
    while not isinstance(node, STATEFUL):
        steps, node = [node, *steps], node.inputs[0]
    return steps, node


POSITION, PART = "_position", "_part"
"""Stand for what distinguishes rows where the user has no column for it; such a table can be grouped, and not kept."""


def key_of(node: Node) -> tuple[str, ...]:
    """The columns that are the key of a table, as its last step names them."""
    if isinstance(node, STATEFUL):
        own: tuple[str, ...] = node.key  # type: ignore[union-attr]  # all that keep a table have one
        return own
    if isinstance(node, Explode):
        return (*key_of(node.input), node.position or POSITION)
    if isinstance(node, Union):
        return (node.part or PART, *key_of(node.parts[0]))
    key = key_of(node.inputs[0])
    return renamed_key(key, node.columns) if isinstance(node, Select) else key


def sources_of(node: Node) -> list[Source]:
    return [one for one in walk(node) if isinstance(one, SourceStream | SourceTable)]

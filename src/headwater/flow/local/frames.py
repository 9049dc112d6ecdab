"""Frames that are evaluated in this process: they answer to what flows ask of Spark's frames.

A frame is a leaf (rows that something makes) and the steps after it, which are those that tasks evaluate on Arrow
(expressions/steps.py). Whatever has no such step is Untranslatable when it is asked for, and not when rows come.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.errors import FlowError
from headwater.flow.exchange.partition_number import numbered_partition
from headwater.flow.expressions.resolution.analysis import Known, resolve_expression
from headwater.flow.expressions.resolution.unresolved import Call, Named, Reference, Star, Unresolved, name_of
from headwater.flow.expressions.steps import Explode, Filter, Project, Step, Steps
from headwater.flow.expressions.tree import Expression, Untranslatable, column
from headwater.flow.local.columns import LocalColumn, column_node
from headwater.flow.local.groups import first_of_groups
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.state.shard import conformed

if TYPE_CHECKING:
    from headwater.flow.local.session import LocalSession

EXPLODING = {"explode": False, "explode_outer": True, "posexplode": False, "posexplode_outer": True}
POSITIONED = ("posexplode", "posexplode_outer")
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_numbers = count()


class Part(NamedTuple):
    """The rows of a partition, by the internal names of their columns."""

    columns: dict[str, pa.Array]
    rows: int


Make = Callable[[], list[Part]]


class After(NamedTuple):
    """A frame is another after a step; None: the same rows."""

    frame: "LocalFrame"
    step: Step | None


def local_frame(frame: object) -> "LocalFrame | None":
    """The frame, where it is evaluated in this process; None where Spark does it."""
    return frame if isinstance(frame, LocalFrame) else None


def as_spark(frame: "LocalFrame") -> DataFrame:
    """The type under which flows know a frame."""
    return cast("DataFrame", frame)


def fields_of(schema: pa.Schema) -> tuple[Known, ...]:
    return tuple(Known(one.name, f"{one.name}#{next(_numbers)}", one.type) for one in schema)


class LocalFrame:
    """Rows that are made when they are wanted, and then kept."""

    def __init__(self, session: "LocalSession", fields: Sequence[Known], origin: Make | After) -> None:
        self.sparkSession, self.fields, self._origin = session, tuple(fields), origin
        self._parts: list[Part] | None = None

    def __getattr__(self, name: str) -> Any:
        """What else Spark's frames answer to has no counterpart here."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise Untranslatable(f"DataFrame.{name}")

    # -- what it has ---------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        return [one.name for one in self.fields]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([(one.name, one.type) for one in self.fields])

    @property
    def schema(self) -> StructType:
        return spark_schema(self.arrow)

    @property
    def known(self) -> dict[str, Known]:
        """Columns by name; of a name that two have, none."""
        names = self.columns
        return {one.name: one for one in self.fields if names.count(one.name) == 1}

    @property
    def generates(self) -> bool:
        """Whether its last step makes several rows of one."""
        origin = self._origin
        return (
            isinstance(origin, After)
            and isinstance(origin.frame._origin, After)
            and isinstance(origin.frame._origin.step, Explode)
        )

    def resolved(self, given: Any) -> Expression:
        return resolve_expression(column_node(given), self.known)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def select(self, *given: Any) -> "LocalFrame":
        nodes = [each for one in given for each in self._expanded(column_node(one))]
        exploded = [one for one in nodes if _generator(one) is not None]
        if exploded:
            return self._exploded(nodes, exploded)
        return self._projected([(_name(one), resolve_expression(one, self.known)) for one in nodes])

    def withColumns(self, given: Mapping[str, Any]) -> "LocalFrame":
        made = {name: self.resolved(one) for name, one in given.items()}
        kept = {one.name: column(one.internal, one.type) for one in self.fields}
        if len(kept) < len(self.fields):
            raise Untranslatable("two columns of one name")
        return self._projected([*(kept | made).items()])

    def withColumn(self, name: str, given: Any) -> "LocalFrame":
        return self.withColumns({name: given})

    def drop(self, *names: str) -> "LocalFrame":
        kept = [one for one in self.fields if one.name not in names]
        return self._projected([(one.name, column(one.internal, one.type)) for one in kept])

    def where(self, condition: Any) -> "LocalFrame":
        node = self.sparkSession.parsed(condition) if isinstance(condition, str) else column_node(condition)
        found = resolve_expression(node, self.known)
        if not pa.types.is_boolean(found.type):
            raise Untranslatable(f"a condition of {found.type}")
        return LocalFrame(self.sparkSession, self.fields, After(self, Filter(found)))

    filter = where

    def counted(self, counts: Mapping[str, Any], totals: dict[str, int]) -> "LocalFrame":
        """The same rows; when they are made, sums of some columns of them are added to `totals`."""
        wanted = {name: self.resolved(one.cast("long")) for name, one in counts.items()}

        def made() -> list[Part]:
            parts = self.parts()
            for part in parts:
                for name, one in wanted.items():
                    totals[name] = totals.get(name, 0) + _sum(one, part)
            return parts

        return _Counted(self, made)

    def _projected(self, named: Sequence[tuple[str, Expression]]) -> "LocalFrame":
        fields = [Known(name, f"{name}#{next(_numbers)}", one.type) for name, one in named]
        made = tuple((field.internal, one) for field, (_, one) in zip(fields, named, strict=True))
        return LocalFrame(self.sparkSession, fields, After(self, Project(made)))

    def _expanded(self, node: Unresolved) -> list[Unresolved]:
        if not isinstance(node, Star):
            return [node]
        if not node.parts:
            return [column_node(LocalColumn(_reference(one.name))) for one in self.fields]
        holder = resolve_expression(_reference(*node.parts), self.known)
        if not pa.types.is_struct(holder.type):
            raise Untranslatable(f"{'.'.join(node.parts)}.*")
        return [_reference(*node.parts, one.name) for one in holder.type]

    def _exploded(self, nodes: list[Unresolved], exploded: list[Unresolved]) -> "LocalFrame":
        if len(exploded) > 1:
            raise Untranslatable("explode of two columns")
        call = _generator(exploded[0])
        assert call is not None
        lists = resolve_expression(call.inputs[0], self.known)
        if not pa.types.is_list(lists.type):
            raise Untranslatable(f"explode of {lists.type}")
        kept = [column(one.internal, one.type) for one in self.fields]
        before = self._projected([*zip(self.columns, kept, strict=True), ("_exploded_", lists)])
        into = Known("_element_", f"_element_#{next(_numbers)}", lists.type.value_type)
        place = Known("_place_", f"_place_#{next(_numbers)}", pa.int32())
        placed = call.name in POSITIONED
        step = Explode(
            before.fields[-1].internal, into.internal, EXPLODING[call.name], place.internal if placed else ""
        )
        fields = [*before.fields[:-1], *([place] if placed else []), into]
        after = LocalFrame(self.sparkSession, fields, After(before, step))
        names = _names(exploded[0]) or (["pos", "col"] if placed else ["col"])
        made = zip((["_place_"] if placed else []) + ["_element_"], names, strict=True)
        elements = [Named(_reference(own), name) for own, name in made]
        chosen = [each for one in nodes for each in (elements if one is exploded[0] else [one])]
        return after.select(*map(LocalColumn, chosen))

    # -- rows of several, or made by tasks -----------------------------------------------------------------------------

    def union(self, other: "LocalFrame") -> "LocalFrame":
        if [one.type for one in self.fields] != [one.type for one in other.fields]:
            raise Untranslatable("union of rows with other types")
        fields = fields_of(self.arrow)
        return LocalFrame(
            self.sparkSession, fields, lambda: [_renamed(one, of.fields, fields) for of in (self, other)
                                                for one in of.parts()]
        )  # fmt: skip

    def unionByName(self, other: "LocalFrame") -> "LocalFrame":
        return self.union(other.select(*(LocalColumn(_reference(name)) for name in self.columns)))

    def mapInArrow(self, task: Task, schema: StructType) -> "LocalFrame":
        wanted = arrow_schema(schema)
        fields = fields_of(wanted)

        def made() -> list[Part]:
            return [self._mapped(task, wanted, fields, number, part) for number, part in enumerate(self.parts())]

        return LocalFrame(self.sparkSession, fields, made)

    def _mapped(self, task: Task, wanted: pa.Schema, fields: Sequence[Known], number: int, part: Part) -> Part:
        given = [_batch(part, self.fields)] if part.rows else []
        with numbered_partition(number):
            found = [conformed(one, wanted) for one in task(iter(given))]
        table = pa.Table.from_batches(found, _nullable(wanted))
        columns = {one.internal: table.column(place).combine_chunks() for place, one in enumerate(fields)}
        return Part(columns, table.num_rows)

    def repartitionById(self, number: int, by: LocalColumn) -> "LocalFrame":
        wanted = self.select(*self.columns, by.alias("_to_"))

        def made() -> list[Part]:
            whole = joined_parts(wanted.parts(), wanted.fields)
            owners = whole.columns[wanted.fields[-1].internal]
            masks = [pc.equal(owners, place) for place in range(number)]
            return [_renamed(_filtered(whole, mask), wanted.fields[:-1], self.fields) for mask in masks]

        return LocalFrame(self.sparkSession, self.fields, made)

    def groupBy(self, *by: Any) -> "LocalGroups":
        return LocalGroups(self, [column_node(one) for one in by])

    # -- results -------------------------------------------------------------------------------------------------------

    def parts(self) -> list[Part]:
        with self.sparkSession.turns:
            if self._parts is None:
                self._parts = self._origin() if callable(self._origin) else self._stepped()
            return self._parts

    def _stepped(self) -> list[Part]:
        steps, frame = _steps_to(self, None)
        own = {one.internal: one.internal for one in frame.fields}
        outputs = tuple((one.internal, one.internal) for one in self.fields)
        return [_applied(Steps(own, tuple(steps), outputs), part) for part in frame.parts()]

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([_batch(one, self.fields) for one in self.parts()], self.arrow)

    def persist(self) -> "LocalFrame":
        return self

    def unpersist(self) -> "LocalFrame":
        return self

    def steps_from(self, source: "LocalFrame") -> Steps:
        """The steps that lead from the rows of another frame to those of this one."""
        steps, frame = _steps_to(self, source)
        if frame is not source:
            raise Untranslatable("rows that are not made of one source by steps")
        inputs = {one.name: one.internal for one in source.fields}
        return Steps(inputs, tuple(steps), tuple((one.name, one.internal) for one in self.fields))


class _Counted(LocalFrame):
    """The rows of another frame, which are counted when they are made."""

    def __init__(self, frame: LocalFrame, make: Make) -> None:
        super().__init__(frame.sparkSession, frame.fields, make)
        self.frame = frame


class LocalGroups:
    """Rows by key, of each of which the first values that are known are wanted."""

    def __init__(self, frame: LocalFrame, by: list[Unresolved]) -> None:
        self.frame, self.by = frame, by

    def agg(self, *given: LocalColumn) -> LocalFrame:
        calls = [(name_of(one.node), one.node.input if isinstance(one.node, Named) else one.node) for one in given]
        if not all(name and isinstance(one, Call) and one.name == "first" and one.ignore_nulls for name, one in calls):
            raise Untranslatable("an aggregation of a batch")
        firsts = [Named(one.inputs[0], str(name)) for name, one in calls if isinstance(one, Call)]
        wanted = self.frame.select(*map(LocalColumn, [*self.by, *firsts]))
        fields = fields_of(wanted.arrow)

        def made() -> list[Part]:
            whole = joined_parts(wanted.parts(), wanted.fields)
            columns = [whole.columns[one.internal] for one in wanted.fields]
            found = first_of_groups(columns, len(self.by))
            length = len(found[0]) if found else 0
            return [Part({one.internal: each for one, each in zip(fields, found, strict=True)}, length)]

        return LocalFrame(self.frame.sparkSession, fields, made)


def _steps_to(frame: LocalFrame, source: LocalFrame | None) -> tuple[list[Step], LocalFrame]:
    """The steps after a frame, and the frame: the source, or a leaf."""
    steps: list[Step] = []
    while frame is not source:
        if source is not None and isinstance(frame, _Counted):
            frame = frame.frame
            continue
        origin = frame._origin
        if not isinstance(origin, After):
            break
        if origin.step is not None:
            steps.append(origin.step)
        frame = origin.frame
    return steps[::-1], frame


def _applied(steps: Steps, part: Part) -> Part:
    found = steps.apply(part.columns, part.rows)
    if found.failed:
        raise FlowError(f"a step fails for a row: {found.failed[0].reasons[0]}")
    return Part(found.columns, found.rows)


def _sum(wanted: Expression, part: Part) -> int:
    steps = Steps({one: one for one in part.columns}, (Project((("sum", wanted),)),), (("sum", "sum"),))
    return int(pc.sum(_applied(steps, part).columns["sum"]).as_py() or 0)


def joined_parts(parts: Sequence[Part], fields: Sequence[Known]) -> Part:
    columns = {
        one.internal: pa.concat_arrays([part.columns[one.internal].cast(one.type) for part in parts])
        if parts
        else pa.array([], one.type)
        for one in fields
    }
    return Part(columns, sum(part.rows for part in parts))


def _renamed(part: Part, fields: Sequence[Known], into: Sequence[Known]) -> Part:
    pairs = zip(fields, into, strict=True)
    return Part({other.internal: part.columns[one.internal] for one, other in pairs}, part.rows)


def _filtered(part: Part, mask: pa.Array) -> Part:
    return Part({name: one.filter(mask) for name, one in part.columns.items()}, int(pc.sum(mask).as_py() or 0))


def _batch(part: Part, fields: Sequence[Known]) -> pa.RecordBatch:
    columns = [part.columns[one.internal] for one in fields]
    fitting = [one if one.type.equals(to.type) else one.cast(to.type) for one, to in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(fitting, schema=pa.schema([(one.name, one.type) for one in fields]))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(one.name, one.type) for one in schema])


def _generator(node: Unresolved) -> Call | None:
    inner = node
    while isinstance(inner, Named):
        inner = inner.input
    return inner if isinstance(inner, Call) and inner.name in EXPLODING else None


def _names(node: Unresolved) -> list[str]:
    return [node.name, *_names(node.input)] if isinstance(node, Named) else []


def _reference(*parts: str) -> Unresolved:
    return Reference(parts)


def _name(node: Unresolved) -> str:
    name = name_of(node)
    if name is None:
        raise Untranslatable("a column without a name of its own")
    return name

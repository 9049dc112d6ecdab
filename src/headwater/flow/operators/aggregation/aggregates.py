"""Aggregates whose state merges: Spark reduces each batch to one row per key, and that row is merged with what is kept.

What Spark computes for a batch (a *partial*) and what is kept for a key have the same columns, so that merging is the
same operation for the first batch and the thousandth, and any split of rows into batches gives the same result (of
floating-point sums up to rounding, which depends on the order of additions, in Spark as well).

    kind           columns kept                       Spark SQL makes them by           result
    count          bigint                             count(1), count(x)                bigint
    sum            bigint, double, decimal(p + 10)    sum(x)                            the same
    avg            sum and count                      sum(x), count(x)                  double, decimal(p + 4, s + 4)
    min, max       the type of x                      min(x), max(x)                    the type of x
    first, last    struct<time, position, value>      min(struct), max(struct)          the type of x
    collect        list<struct<time, …, value>>       array_sort(collect_list(…))       list, in the order of time
    collect_set    list                               array_sort(collect_set(x))        list, sorted

What is kept of the others stands in `kinds`.

Nulls count, add and compare as in Spark SQL: they are skipped by all but count(*), first and last; a sum of nothing is
null, a count of nothing 0, a collection of nothing empty.
"""

from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.averages import average_sum_type, average_type, sum_type
from headwater.flow.operators.kinds.families import FAMILIES
from headwater.flow.operators.kinds.kind import Partial, is_number, quoted
from headwater.flow.operators.kinds.options import Limit, Options
from headwater.flow.operators.kinds.placing import ordered_list_sql, ordered_sql, ordered_type

KINDS = ("count", "sum", "avg", "min", "max", "first", "last", "collect", "collect_set")
"""Those that are told here; the others tell of themselves."""
TIMED = ("first", "last", "collect", "user")


@dataclass(frozen=True)
class Aggregate:
    """`name` is the column of the result; `column` and its type what it is computed from, None for count(*).

    `time` is the column of the event time, for aggregates that depend on order.
    """

    kind: str
    name: str
    column: str | None = None
    type: pa.DataType | None = None
    time: str | None = None
    time_type: pa.DataType | None = None
    ignore_nulls: bool = False
    other: str | None = None
    """The second column, of those that compare two."""
    options: Options | None = None

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, *FAMILIES):
            raise InvalidDeclaration(
                f'"{self.name}" is of an unknown kind "{self.kind}"', f"Known: {', '.join((*KINDS, *FAMILIES))}."
            )
        if self.column is None and self.kind != "count":
            raise InvalidDeclaration(f'"{self.name}" has no column to compute the {self.kind} of')
        if self.time is None and self.kind in TIMED:
            raise InvalidDeclaration(
                f'"{self.name}" is the {self.kind} by time of a stream without a time', "Name the stream's time column."
            )
        check_type(self)

    @property
    def input_type(self) -> pa.DataType:
        return pa.null() if self.type is None else self.type

    @property
    def meaning(self) -> tuple[object, ...]:
        """What tells its state from that of another."""
        return (self.kind, self.name) if self.options is None else (self.kind, self.name, self.options)


def check_type(spec: Aggregate) -> None:
    if spec.kind in FAMILIES:
        FAMILIES[spec.kind].check(spec)
        return
    kind = spec.input_type
    numeric = is_number(kind)
    unordered = pa.types.is_map(kind) or pa.types.is_list(kind)
    wrong = (spec.kind in ("sum", "avg") and not numeric) or (spec.kind in ("min", "max", "collect_set") and unordered)
    if wrong:
        raise InvalidDeclaration(
            f'"{spec.name}" cannot be the {spec.kind} of `{spec.column}`, which is {kind}',
            "Use a column of numbers." if not numeric and spec.kind in ("sum", "avg") else "Use an ordered type.",
        )


def partials(spec: Aggregate) -> tuple[Partial, ...]:
    """The columns of an aggregate in a batch and in the state, and how Spark SQL computes them for a group."""
    if spec.kind in FAMILIES:
        return FAMILIES[spec.kind].partials(spec)
    name, column = f"{spec.name}__{spec.kind}", quoted(spec.column) if spec.column is not None else "1"
    match spec.kind:
        case "count":
            return (Partial(name, pa.int64(), f"count({column})"),)
        case "sum":
            kind = sum_type(spec.input_type)
            return (Partial(name, kind, f"sum({column})"),)
        case "avg":
            kind = average_sum_type(spec.input_type)
            wide = f"cast({column} as decimal(28,0))" if pa.types.is_int64(spec.input_type) else column
            count = Partial(f"{spec.name}__count", pa.int64(), f"count({column})")
            return (Partial(f"{spec.name}__sum", kind, f"sum({wide})"), count)
        case "min" | "max":
            return (Partial(name, spec.input_type, f"{spec.kind}({column})"),)
        case "collect_set":
            return (Partial(name, pa.list_(spec.input_type), f"array_sort(collect_set({column}))"),)
        case "collect":
            sql = ordered_list_sql(spec)
            if isinstance(spec.options, Limit):
                sql = f"slice({sql}, 1, {spec.options.limit})"
            return (Partial(name, pa.list_(ordered_type(spec)), sql),)
    return (Partial(name, ordered_type(spec), extreme_sql(spec)),)


def kept_sql(spec: Aggregate) -> str:
    """Which rows can be the first or last of a group: those without a time have no place, and are passed over."""
    kept = f"{quoted(spec.time or '')} is not null"
    return f"{kept} and {quoted(spec.column or '')} is not null" if spec.ignore_nulls else kept


def extreme_sql(spec: Aggregate) -> str:
    """The first or last value of a group."""
    extreme = "min" if spec.kind == "first" else "max"
    kept, value = kept_sql(spec), ordered_sql(spec)
    if pa.types.is_map(spec.input_type):  # Spark does not order maps, so that the value itself cannot take part
        value = f"{extreme}_by({value}, {value.rpartition(', ')[0].rpartition(', ')[0]}))"
        return f"{value} filter (where {kept})"
    return f"{extreme}({value}) filter (where {kept})"


def result_type(spec: Aggregate) -> pa.DataType:
    if spec.kind in FAMILIES:
        return FAMILIES[spec.kind].result_type(spec)
    kind = spec.input_type
    match spec.kind:
        case "count":
            return pa.int64()
        case "sum":
            return sum_type(kind)
        case "avg":
            return average_type(kind)
        case "collect" | "collect_set":
            return pa.list_(kind)
    return kind


def state_schema(specs: tuple[Aggregate, ...]) -> pa.Schema:
    """The columns kept for a key by several aggregates."""
    return pa.schema([pa.field(part.name, part.type) for spec in specs for part in partials(spec)])


def given_schema(specs: tuple[Aggregate, ...]) -> pa.Schema:
    """The columns that Spark makes of a batch for them."""
    parts = [part for spec in specs for part in partials(spec)]
    return pa.schema([pa.field(part.name, part.type if part.given is None else part.given) for part in parts])


def result_schema(specs: tuple[Aggregate, ...]) -> pa.Schema:
    return pa.schema([pa.field(spec.name, result_type(spec)) for spec in specs])

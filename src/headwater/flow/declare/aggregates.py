"""Aggregates that Spark has no name for: `hw.percentile("ms", 0.99).alias("p99")`; written down, no Spark runs yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.topology.nodes import Expression
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.exact_percentiles import Exact
from headwater.flow.operators.aggregation.kinds.hashed import Bloom, CountMin
from headwater.flow.operators.aggregation.kinds.kind import Options
from headwater.flow.operators.aggregation.kinds.ordered import Limit
from headwater.flow.operators.aggregation.kinds.percentiles import Kll
from headwater.flow.operators.aggregation.kinds.top_k import Frequent
from headwater.flow.operators.aggregation.kinds.user_code import Code
from headwater.flow.operators.aggregation.kinds.users import User
from headwater.flow.operators.sketches import bloom as blooms
from headwater.flow.operators.sketches import count_min as count_mins
from headwater.flow.operators.sketches.frequent import lg_size


@dataclass(frozen=True, eq=False)
class OwnAggregate:
    """One of headwater's aggregates, of columns or expressions. Give it a name with `alias`."""

    kind: str
    columns: tuple[Expression, ...]
    options: Options
    place: Place
    said: str
    """Its parameters as the user would write them."""
    name: str = ""

    def alias(self, name: str) -> "OwnAggregate":
        return replace(self, name=name)

    @property
    def call(self) -> str:
        """
        >>> collect("name", limit=3).call
        'collect(name, limit=3)'
        """
        shown = ", ".join([*map(_text, self.columns), *([self.said] if self.said else [])])
        return f"{'aggregate' if self.kind == 'user' else self.kind}({shown})"

    @property
    def meaning(self) -> str:
        """The same for the same results, whatever they are called."""
        return f"{self.call} {self.options!r}" if self.kind == "user" else self.call

    def __str__(self) -> str:
        return f"{self.call} as {self.name}" if self.name else self.call


def _text(expression: Expression) -> str:
    text = str(expression)
    return text.removeprefix("Column<'").removesuffix("'>")


def positive(given: object, what: str, most: int = 2**31 - 1) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
        raise InvalidDeclaration(f"{what} ({calling_place()}) is {given!r}", f"Take a number from 1 to {most}.")
    return given


def own(kind: str, columns: Sequence[Expression], options: Options, said: str = "") -> OwnAggregate:
    return OwnAggregate(kind, tuple(columns), options, calling_place(), said)


def collect(column: Expression, *, limit: int) -> OwnAggregate:
    """The first values of each key in the order of time, `limit` at most; the others are not kept."""
    return own("collect", [column], Limit(positive(limit, "the limit of collect")), f"limit={limit}")


def distinct(column: Expression, *, lg_k: int = 12, sketch: bool = False) -> OwnAggregate:
    """About how many different values: HyperLogLog with 2^lg_k registers of a byte, standard error 1.04 / √2^lg_k.

    At 12: 4 KB for each key, 1.6 %. With `sketch` the column holds the sketch itself, for hll_sketch_estimate.
    """
    if lg_k not in range(4, 22):
        raise InvalidDeclaration(f"lg_k of distinct ({calling_place()}) is {lg_k!r}", "Take a number from 4 to 21.")
    return own("distinct", [column], Hll(lg_k, sketch), _said(lg_k=(lg_k, 12), sketch=(sketch, False)))


def percentile(
    column: Expression,
    rank: float | Sequence[float] = (),
    *,
    k: int = 200,
    sketch: bool = False,
    exact: bool = False,
) -> OwnAggregate:
    """About the value that this share of all values does not exceed; a list of values for a list of ranks.

    KLL: at k = 200 within 1.33 % of the rank in 99 of 100 cases, from some 5 KB for each key. With `sketch` the column
    holds the sketch itself, for kll_sketch_get_quantile_double. With `exact` all values are kept, and the result is
    that of Spark's percentile(x, rank): of tables, and in windows, whose values go again.
    """
    several = not isinstance(rank, int | float)
    ranks = tuple(map(float, rank)) if not isinstance(rank, int | float) else (float(rank),)
    if sketch != (not ranks) or not all(0 <= one <= 1 for one in ranks):
        raise InvalidDeclaration(
            f"percentile at {calling_place()} is of rank {rank!r}",
            "Take ranks from 0 to 1, such as 0.99, or sketch=True and none.",
        )
    if exact:
        if sketch or k != 200:
            raise InvalidDeclaration(
                f"percentile at {calling_place()} is exact, and has no sketch", "Leave out k= and sketch=."
            )
        return exact_percentile(column, ranks, several=several)
    if k not in range(8, 65536):
        raise InvalidDeclaration(f"k of percentile ({calling_place()}) is {k!r}", "Take a number from 8 to 65535.")
    shown = [f"{rank if not several else list(ranks)}"] if ranks else []
    said = ", ".join([*shown, *filter(None, [_said(k=(k, 200), sketch=(sketch, False))])])
    return own("percentile", [column], Kll(ranks, several, k, sketch), said)


def exact_percentile(
    column: Expression, ranks: tuple[float, ...], *, several: bool = False, discrete: bool = False
) -> OwnAggregate:
    """Of all values that there are; `discrete`: always one of them."""
    shown = f"{list(ranks) if several else ranks[0]}, {'discrete' if discrete else 'exact'}=True"
    return own("exact_percentile", [column], Exact(ranks, several, discrete), shown)


def refuse_exact(aggregates: Sequence[Expression]) -> None:
    """Of a stream's rows, which never go again, all values would be kept for ever."""
    if any(isinstance(one, OwnAggregate) and one.kind == "exact_percentile" for one in aggregates):
        raise InvalidDeclaration(
            f"an exact percentile ({calling_place()}) of a stream would need all its values for ever",
            "Leave out exact=True, or group by windows.",
        )


def top_k(column: Expression, k: int, *, tracked: int | None = None, sketch: bool = False) -> OwnAggregate:
    """The most frequent values with their counts, as a list of structs `item` and `count`, the most frequent first.

    Exact for as many different values as are `tracked` (at least 1000); beyond, no count is less than the truth, and
    none more than it by over 2 / tracked of all. With `sketch` the column holds what approx_top_k_estimate reads.
    """
    positive(k, "k of top_k", 1_000_000)
    held = max(1000, 10 * k) if tracked is None else positive(tracked, "tracked of top_k", 1_000_000)
    if held < k:
        raise InvalidDeclaration(f"top_k at {calling_place()} tracks {held} values for {k}", "Track more of them.")
    said = ", ".join(filter(None, [str(k), _said(tracked=(tracked, None), sketch=(sketch, False))]))
    return own("top_k", [column], Frequent(k, lg_size(held), held, sketch), said)


def bloom(column: Expression, expected: int, error: float = 0.01) -> OwnAggregate:
    """A filter that knows for certain which values were not there; `hw.sketches.bloom_contains` asks it.

    For up to `expected` different values it takes another for one of them in `error` of all cases; at 0.01 that needs
    1.2 bytes for each value expected, for each key.
    """
    positive(expected, "expected of bloom", 2**33)
    if not 0 < error < 1:
        raise InvalidDeclaration(f"error of bloom ({calling_place()}) is {error!r}", "Take a share, such as 0.01.")
    shape = blooms.shape_for(expected, error)
    return own("bloom", [column], Bloom(shape.bits, shape.hashes), f"{expected}, {error}")


def count_min(column: Expression, error: float = 0.001, confidence: float = 0.99) -> OwnAggregate:
    """A sketch that knows of every value how often it came; `hw.sketches.count_min_estimate` asks it.

    An answer is never too small, and with this confidence not too large by more than `error` of all values; by default
    that takes 106 KB for each key.
    """
    if not 0 < error < 1 or not 0 < confidence < 1:
        raise InvalidDeclaration(
            f"count_min at {calling_place()} has error {error!r} and confidence {confidence!r}",
            "Take shares, such as 0.001 and 0.99.",
        )
    buckets, hashes = count_mins.shape_for(error, confidence)
    return own("count_min", [column], CountMin(buckets, hashes), f"{error}, {confidence}")


def aggregate(
    *,
    create: Callable[[], Any],
    add: Callable[..., Any],
    merge: Callable[[Any, Any], Any],
    finish: Callable[[Any], Any],
    state: str,
    returns: str,
) -> Callable[..., OwnAggregate]:
    """An aggregate of your own: what it returns is called with columns, `spread("price").alias("spread")`.

    `create()` is a state of nothing: a tuple of the columns that `state` names, as DDL. `add(state, value, ...)` is the
    state with a row more, whose values may be None; `merge(one, other)` that of the rows of both; `finish(state)` the
    result, of the type that `returns` names. Rows are added in the order of time within a batch, but batches come as
    they come: the result must not depend on how rows were divided, which `headwater verify` finds out.
    """
    place = calling_place()
    given: dict[str, object] = {"create": create, "add": add, "merge": merge, "finish": finish}
    if wrong := [name for name, one in given.items() if not callable(one)]:
        raise InvalidDeclaration(f"{wrong[0]} of the aggregate at {place} is no function", "Give a function.")
    kept = pa.schema([pa.field(one.name, one.type) for one in parse_ddl(state).fields])
    (result,) = parse_ddl(f"result {returns}").fields
    options = User(Code(create, add, merge, finish), kept, result.type, str(place))

    def of_columns(*columns: Expression) -> OwnAggregate:
        if not columns:
            raise InvalidDeclaration(f"the aggregate of {calling_place()} is of no column", "Name at least one.")
        return own("user", columns, options)

    return of_columns


def _said(**given: tuple[object, object]) -> str:
    """What differs from what would be without it."""
    return ", ".join(f"{name}={value}" for name, (value, usual) in given.items() if value != usual)

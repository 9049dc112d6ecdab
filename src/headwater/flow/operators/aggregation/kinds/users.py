"""Aggregates of users: a state of typed columns, and functions that make one, add a row, merge two, and finish it."""

from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Options, Partial
from headwater.flow.operators.aggregation.kinds.ordered import (
    ordered_list_sql,
    ordered_type,
    placed_lists,
    placed_values,
)
from headwater.flow.operators.aggregation.kinds.user_code import Code, users_errors
from headwater.flow.operators.aggregation.lists import closed_lists
from headwater.flow.operators.aggregation.segments import Segments

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headwater.flow.operators.aggregation.aggregates import Aggregate


@dataclass(frozen=True)
class User(Options):
    code: Code
    state: pa.Schema
    returns: pa.DataType
    place: str = field(repr=False)

    @property
    def kept(self) -> pa.DataType:
        return pa.struct(list(self.state))

    def make(self) -> Callable[[Iterable[Any]], Any]:
        """A state as the functions see it: a tuple whose fields have names."""
        return _tuple_of(tuple(self.state.names))

    def call(self, function: str, column: str, *given: Any) -> Any:
        with users_errors(function, column, self.place):
            return getattr(self.code, function)(*given)

    def state_of(self, function: str, column: str, *given: Any) -> Any:
        """What a function returns, if that is a state."""
        found = self.call(function, column, *given)
        if not isinstance(found, tuple | list) or len(found) != len(self.state):
            raise FlowError(
                f"{function} of column {column}, an aggregate declared at {self.place}, returned {found!r}",
                f"A state is a tuple of {', '.join(self.state.names)}.",
            )
        return self.make()(found)

    def added(self, rows: list[Any], column: str) -> Any:
        """The state of some rows, which are in the order of time."""
        state = self.state_of("create", column)
        for row in rows:
            state = self.state_of("add", column, state, *row["value"].values())
        return state

    def of_rows(self, lists: pa.Array, column: str) -> pa.Array:
        """The results of whole lists of rows."""
        states = [self.added(rows or [], column) for rows in lists.to_pylist()]
        return self.results(states, column)

    def results(self, states: list[Any], column: str) -> pa.Array:
        found = [self.call("finish", column, state) for state in states]
        with users_errors("finish", column, self.place):
            return pa.array(found, self.returns)

    def stored(self, states: list[Any], function: str, column: str) -> pa.Array:
        """States as they are kept: what does not fit their types is refused."""
        rows = [None if state is None else dict(zip(self.state.names, state, strict=True)) for state in states]
        with users_errors(function, column, self.place):
            return pa.array(rows, self.kept)

    def opened(self, column: pa.Array) -> list[Any]:
        make = self.make()
        return [None if one is None else make(one.values()) for one in column.to_pylist()]


@cache
def _tuple_of(names: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    make: Callable[[Iterable[Any]], Any] = namedtuple("State", names, rename=True)._make  # type: ignore[attr-defined]
    return make


class Users(Kind):
    form = "row"
    timed = True

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        given = pa.list_(ordered_type(spec))
        return (Partial(f"{spec.name}__user", _user(spec).kept, given),)

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return _user(spec).returns

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        return [closed_lists(placed_values(spec, rows, segments), len(segments), pa.list_(ordered_type(spec)))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [closed_lists(placed_lists(spec, given[0], segments), len(segments), pa.list_(ordered_type(spec)))]

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        user = _user(spec)
        states = [user.added(rows, spec.name) if rows else None for rows in given[0].to_pylist()]
        return [user.stored(states, "add", spec.name)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        user = _user(spec)
        pairs = zip(user.opened(old[0]), user.opened(new[0]), strict=True)
        states = [
            user.state_of("merge", spec.name, one, other) if one and other else one or other for one, other in pairs
        ]
        return [user.stored(states, "merge", spec.name)]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        user = _user(spec)
        states = [user.state_of("create", spec.name) if one is None else one for one in user.opened(kept[0])]
        return user.results(states, spec.name)

    def reference(self, spec: "Aggregate") -> "Column":
        """All rows added one after another; nothing is merged."""
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.functions import arrow_udf

        from headwater.flow.rows.arrow_types import spark_type

        user, make = _user(spec), cast(Any, arrow_udf)  # its overloads lack the plainest

        def whole(lists: pa.Array) -> pa.Array:
            return user.of_rows(lists, spec.name)

        return cast("Column", make(whole, spark_type(user.returns))(f.expr(ordered_list_sql(spec))))


def _user(spec: "Aggregate") -> User:
    assert isinstance(spec.options, User)
    return spec.options


USERS: dict[str, Kind] = {"user": Users()}

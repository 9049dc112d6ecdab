"""The inputs of a join in Spark: both in one frame, brought together by what they are joined on.

    _which   0 left, 1 right
    _k0 …    what is joined on
    _spread  null, but for rows that can meet none: a hash of their own, so that these do not all come to one task
    _left    the row of the left; null in rows of the right
    _right   and the other way round

and what the kind of join needs beside it. Spark's hash passes over nulls: `_spread` changes no other row's place. Of a
chain of joins the rights of all are there, numbered on: `_right2`, `_right3` and so on.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.nodes import Join, TableJoin, key_of
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.prepare.shard_hash import shard_hash
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.row_steps import quoted, visible
from headwater.flow.state.manifest import HASH

WHICH, SPREAD, LEFT_ROW, RIGHT_ROW = "_which", "_spread", "_left", "_right"
SIGNS = {"!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def row_column(which: int) -> str:
    """The column that holds the rows of an input."""
    return (LEFT_ROW, RIGHT_ROW)[which] if which < 2 else f"{RIGHT_ROW}{which}"


def pairing_of(node: Join, left: DataFrame, right: DataFrame) -> Pairing:
    """InvalidDeclaration if columns are missing, of different types, or of the same name."""
    for one, other in (*node.on, *((each.left, each.right) for each in node.further)):
        _check_types(node, _field(node, left, one, "left"), _field(node, right, other, "right"))
    schemas = [arrow_schema(frame.select(*map(quoted, visible(frame))).schema) for frame in (left, right)]
    shared = shared_names(node, visible(left), visible(right))
    pairing = Pairing(
        schemas[0], schemas[1], node.on, node.how, node.further, node.prefix, shared, node.right_name if shared else ""
    )
    names = [name.lower() for name in pairing.columns.names]
    if twice := [name for place, name in enumerate(pairing.columns.names) if name.lower() in names[:place]]:
        raise InvalidDeclaration(
            f"both inputs of the join at {node.place} have a column {twice[0]}",
            'Say prefix="..." to put that before the names of the right, or rename one with select(...).',
        )
    return pairing


def shared_names(node: Join, left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    """Columns of the right that are called like one of the left, where they can be told apart by the right's name."""
    partners, taken = {other for _, other in node.on}, {name.lower() for name in left}
    found = tuple(name for name in right if name not in partners and name.lower() in taken)
    keyed = {*key_of(node.right)} if isinstance(node, TableJoin) else set()
    under = node.right_name.lower()
    if node.prefix or not under.isidentifier() or under in {*taken, *map(str.lower, right)} or keyed & {*found}:
        return ()
    return found


def _field(node: Join, frame: DataFrame, name: str, side: str) -> tuple[str, str]:
    names = visible(frame)
    if name not in names:
        raise InvalidDeclaration(
            f"join at {node.place}: the {side} has no column {name}", f"There are: {', '.join(names)}."
        )
    return f"column {name} of the {side}", frame.schema[name].dataType.simpleString()


def _check_types(node: Join, one: tuple[str, str], other: tuple[str, str]) -> None:
    if one[1] != other[1]:
        raise InvalidDeclaration(
            f"join at {node.place}: {one[0]} is {one[1]}, and {other[0]} is {other[1]}",
            f'Make them the same, for example with with_columns(...="cast(... as {one[1]})").',
        )


def no_null(frame: DataFrame, names: Sequence[str]) -> Column:
    """Of rows that can meet others: a null is equal to nothing."""
    result = f.lit(True)
    for name in names:
        result = result & f.col(quoted(name)).isNotNull()
    return result


def sided(
    frame: DataFrame, other: DataFrame, on: Sequence[str], side: int, own: Sequence[str], more: Mapping[str, Column]
) -> DataFrame:
    """Rows of one side. `own` are columns that tell its rows apart, `more` what the kind of join needs."""
    rows = [f.struct(*(f.col(quoted(name)) for name in visible(frame))), _nothing(other)][:: -1 if side else 1]
    keys = [f.col(quoted(name)).alias(f"_k{place}") for place, name in enumerate(on)]
    spread = f.when(~no_null(frame, on), f.xxhash64(*(f.col(quoted(name)) for name in own)))
    return frame.select(
        f.lit(side).alias(WHICH), *keys, spread.alias(SPREAD), rows[0].alias(LEFT_ROW), rows[1].alias(RIGHT_ROW),
        *(column.alias(name) for name, column in more.items()),
    )  # fmt: skip


def _nothing(frame: DataFrame) -> Column:
    return f.lit(None).cast(StructType([StructField(name, frame.schema[name].dataType) for name in visible(frame)]))


def sharded(left: DataFrame, right: DataFrame, keys: int, shards: int) -> DataFrame:
    """Both, each shard in the partition of its number."""
    return placed(together(left, right), keys, shards)


def together(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right, allowMissingColumns=True)


def placed(rows: DataFrame, keys: int, shards: int) -> DataFrame:
    names = placed_by(keys)
    return rows.repartition(shards, *(f.col(name) for name in names)).withColumn(HASH, shard_hash(names))


def flat(rows: DataFrame) -> DataFrame:
    """As tasks are given them: each column of a row by itself, under a name that no user's column can have.

    Spark measures a batch for Python anew with each row of it, and goes through all parts of a struct to do so.
    """
    columns: list[Column] = []
    for field in rows.schema:
        if field.name.startswith((LEFT_ROW, RIGHT_ROW)) and isinstance(field.dataType, StructType):
            columns += [f.col(field.name)[one.name].alias(flat_name(field.name, one.name)) for one in field.dataType]
        else:
            columns.append(f.col(quoted(field.name)))
    return rows.select(*columns)


def flat_name(row: str, column: str) -> str:
    """
    >>> flat_name("_left", "id")
    '_left_6964'
    """
    return f"{row}_{column.encode().hex()}"


def in_place(rows: DataFrame, keys: int) -> DataFrame:
    """Rows of one side where they are; those of a shard may be in any partition."""
    return rows.withColumn(HASH, shard_hash(placed_by(keys)))


def placed_by(keys: int) -> list[str]:
    """The columns that decide in which shard a row lies."""
    return [*(f"_k{place}" for place in range(keys)), SPREAD]


def batch_join(node: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """The same as one query over all rows, as Spark joins them; hidden columns are left out."""
    ours = left.select(*(f.col(quoted(name)).alias(f"_l_{name}") for name in visible(left)))
    theirs = right.select(*(f.col(quoted(name)).alias(f"_r_{name}") for name in visible(right)))
    on = f.lit(True)
    for one, other in node.on:
        on = on & (ours[f"_l_{one}"] == theirs[f"_r_{other}"])
    for one, sign, other in node.further:
        on = on & getattr(ours[f"_l_{one}"], SIGNS[sign])(theirs[f"_r_{other}"])
    return named_pairs(node, ours.join(theirs, on, node.how), visible(left), visible(right))


def named_pairs(
    node: Join, joined: DataFrame, left: Sequence[str], right: Sequence[str], beside: Sequence[Column] = ()
) -> DataFrame:
    """Columns of a result, from those of both sides with `_l_` and `_r_` before their names."""
    partners = dict(node.on)
    columns = [
        f.coalesce(f.col(quoted(f"_l_{name}")), f.col(quoted(f"_r_{partners[name]}"))).alias(name)
        if name in partners else f.col(quoted(f"_l_{name}")).alias(name)
        for name in left
    ]  # fmt: skip
    shared = shared_names(node, left, right)
    others = [name for name in right if name not in (*partners.values(), *shared)]
    columns += [f.col(quoted(f"_r_{name}")).alias(node.named(name)) for name in others]
    if shared:
        fields = f.struct(*(f.col(quoted(f"_r_{name}")).alias(name) for name in shared))
        columns.append(fields.alias(node.right_name))
    return joined.select(*columns, *beside)

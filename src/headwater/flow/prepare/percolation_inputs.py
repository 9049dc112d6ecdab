"""From the node of a stream that meets stored queries to the operator."""

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.declare.topology.stored_queries import AsOfPercolate, Percolate
from headwater.flow.operate.join_operators import StreamJoinOperator
from headwater.flow.operators.joins.as_of import with_extra
from headwater.flow.operators.joins.events import Events
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.joins.tables import Side
from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.percolation import AsOfPercolation, HitPairing, Percolation, Search
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.rows.event_positions import check_valid_times
from headwater.flow.rows.sources import AT

SLOT_US = 4_000_000


def percolation_operator(
    node: Percolate | AsOfPercolate, left: DataFrame, right: DataFrame, pairing: Pairing, name: str
) -> StreamJoinOperator:
    """InvalidDeclaration if a column is missing, or not of the type that it has to be of."""
    search = checked_search(node, pairing)
    key = key_of(node.right) if isinstance(node, Percolate) else node.versions.key
    if lost := [one for one in key if one not in pairing.right.names]:
        raise InvalidDeclaration(
            f"percolate at {node.place}: the table of queries has no column {lost[0]} any more, which is of its key",
            "Keep it; prefix= puts something before the names of all its columns.",
        )
    if AT not in left.columns:
        raise InvalidDeclaration(f"percolate at {node.place} comes after a step that drops when rows happened")
    plain = {name: getattr(pairing, name) for name in Pairing.__dataclass_fields__}
    hits = HitPairing(**plain, hit_schema=search.hit_schema)
    if twice := [one for one in search.hit_schema.names if one in pairing.columns.names]:
        raise InvalidDeclaration(
            f"percolate at {node.place} makes a column {twice[0]}, and there is one already",
            "Rename it with select(...) or with_columns(...) before.",
        )
    documents = Events(pairing.left, (), SLOT_US)
    if isinstance(node, Percolate):
        table = Side(pairing.right, key, key)
        return StreamJoinOperator(name, Percolation(documents, table, hits, search=search), WindowClock(None, None))
    check_valid_times(node.versions, right)
    versions = Events(with_extra(pairing.right), key)
    kept_us, dated = node.versions.versions_us, node.versions.valid_from is not None
    return StreamJoinOperator(
        name, AsOfPercolation(documents, versions, hits, kept_us, dated, search=search), WindowClock(None, None)
    )


def checked_search(node: Percolate | AsOfPercolate, pairing: Pairing) -> Search:
    said, left, right = node.search, pairing.left, pairing.right
    wanted = [(left, one, pa.types.is_string, "text") for one, _ in said.text]
    wanted.append((right, said.query, pa.types.is_string, "text"))
    wanted += [(left, one, _is_number, "a number") for point in said.points for one in point[1:]]
    for schema, column, fits, kind in wanted:
        if column not in schema.names:
            side = "documents have" if schema is left else "table of queries has"
            raise InvalidDeclaration(f"percolate at {node.place}: the {side} no column {column}")
        if not fits(schema.field(column).type):
            raise InvalidDeclaration(
                f"percolate at {node.place}: column {column} is {schema.field(column).type}, and has to be {kind}"
            )
    return Search(Fields(said.text, left, said.points), said.query, said.default, said.highlight, said.explain)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))

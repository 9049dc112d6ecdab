"""How values lie in PostgreSQL: in its own types, so that psql and every reporting tool understand them. Pure.

boolean, smallint, integer, bigint, real, double precision, numeric(p,s), text (sorted by bytes, as in Spark),
bytea, date, timestamptz, timestamp; array, map and struct are jsonb
"""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headwater.errors import InvalidQuery
from headwater.views.json_text import check_years, hex_text, json_text, plain_text
from headwater.views.query import Condition
from headwater.views.shape import Column
from headwater.views.values import as_column, as_exact, as_float32, as_utc, from_json_text, from_json_texts

TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): 'text COLLATE "C"',
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.timestamp("us"): "timestamp",
}


def column_type(column: Column) -> str:
    if column.nested:
        return "jsonb"
    if pa.types.is_decimal(column.type):
        return f"numeric({column.type.precision},{column.type.scale})"
    return TYPES[column.type]


def encode(column: Column, values: pa.Array) -> pa.Array:
    """A column that CSV can say."""
    if column.nested:
        return pc.if_else(values.is_valid(), json_text(values), None)
    if pa.types.is_binary(column.type):
        return pc.binary_join_element_wise("\\x", hex_text(values), "")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        check_years(values)
    return values


def csv_text(table: pa.Table) -> memoryview:
    """Rows for COPY. Every value is in quotes, so that an empty text is not taken for a null."""
    target = io.BytesIO()
    csv.write_csv(table, target, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return target.getbuffer()


def bound(condition: Condition) -> list[object]:
    """The values of a condition as text, whose type PostgreSQL takes from the column."""
    column, values = condition.column, list(condition.values)
    if pa.types.is_decimal(column.type):
        return [str(as_exact(column, value)) for value in values]
    encoded = encode(column, as_column(column, values))
    texts = encoded if pa.types.is_string(encoded.type) else plain_text(encoded)
    if "\0" in "".join(texts.to_pylist()):
        raise InvalidQuery(f'PostgreSQL has no text with a NUL in it, so column "{column.name}" never equals that')
    return list(texts.to_pylist())


def decode(column: Column, value: Any) -> object:
    if column.nested:
        return from_json_text(value, column.type)
    if pa.types.is_float32(column.type):
        return as_float32(value)
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return as_utc(value)
    return value


def array(column: Column, values: Sequence[Any]) -> pa.Array:
    """What `decode` makes of each, all at once."""
    return from_json_texts(values, column.type) if column.nested else pa.array(values, column.type)

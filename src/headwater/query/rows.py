"""Rows of an answer as JSON, NDJSON and CSV. Pure."""

import csv
import io
import json
from typing import Any

import pyarrow as pa

from headwater.errors import UnstorableValue
from headwater.views.column_types import plain as plain_type
from headwater.views.column_types import spoken
from headwater.views.plain import plain

Row = dict[str, Any]


def rows_of(table: pa.Table) -> list[Row]:
    """As JSON has them: exact numbers and times are texts, as in all answers about views."""
    columns = [_plain(table.column(index), table.schema.field(index).type) for index in range(table.num_columns)]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []


def _plain(column: pa.ChunkedArray, type: pa.DataType) -> list[Any]:
    values = column.to_pylist(maps_as_pydicts="lossy")
    if pa.types.is_string(type) or pa.types.is_integer(type) or pa.types.is_boolean(type):
        return list(values)
    return [plain(value) for value in values]


def type_name(type: pa.DataType) -> str:
    """A type of Spark's, as a view has it; what no view has is called as Arrow calls it."""
    try:
        return spoken(plain_type(type))
    except UnstorableValue:
        return str(type)


def ndjson_bytes(table: pa.Table) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows_of(table)).encode("utf-8", "replace")


def csv_bytes(table: pa.Table) -> bytes:
    """With a line of names; a null is empty, and an empty text is in quotes."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n", quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else 0)
    writer.writerow(table.column_names)
    for row in rows_of(table):
        writer.writerow([_cell(value) for value in row.values()])
    return target.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value

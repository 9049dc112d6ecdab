"""Rows as JSON text, as Spark's to_json writes them with all null fields (pure).

For the records of topics and of late rows where a job runs without Spark; one value at a time, as tests have few.
"""

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array
from headwater.flow.expressions.tree import Expression

PLAIN_FROM, PLAIN_TO = 1e-3, 1e7
"""Doubles between these are written without an exponent, as Java does."""


def to_json(node: Expression, rows: int, value: Values) -> Evaluated:
    values = as_array(value, rows)
    return Evaluated(
        pa.array([None if one is None else _text(one, values.type) for one in values.to_pylist()], pa.string())
    )


def _text(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        fields = (f"{_quoted(one.name)}:{_text(value[one.name], one.type)}" for one in kind)
        return f"{{{','.join(fields)}}}"
    if pa.types.is_list(kind):
        return f"[{','.join(_text(one, kind.value_type) for one in value)}]"
    if pa.types.is_map(kind):
        pairs = (f"{_quoted(_key(key, kind.key_type))}:{_text(one, kind.item_type)}" for key, one in value)
        return f"{{{','.join(pairs)}}}"
    return _single(value, kind)


def _single(value: Any, kind: pa.DataType) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value, single=pa.types.is_float32(kind))
        case Decimal():
            return str(value)  # with an exponent where Java writes one
        case bytes():
            return _quoted(base64.b64encode(value).decode())
        case dt.datetime():
            return _quoted(_moment(value, zoned=kind.tz is not None))
        case dt.date():
            return _quoted(value.isoformat())
    return _quoted(str(value))


def _key(value: Any, kind: pa.DataType) -> str:
    return value if isinstance(value, str) else _single(value, kind).strip('"')


def _quoted(text: str) -> str:
    """Only what must be escaped is."""
    return json.dumps(text, ensure_ascii=False)


def _moment(value: dt.datetime, *, zoned: bool) -> str:
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if zoned else text


def _number(value: float, *, single: bool) -> str:
    if not math.isfinite(value):
        return f'"{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}"'
    written = np.float32(value) if single else np.float64(value)
    size = abs(value)
    if size == 0 or PLAIN_FROM <= size < PLAIN_TO:
        return str(np.format_float_positional(written, unique=True, trim="0"))
    mantissa, _, exponent = np.format_float_scientific(written, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"

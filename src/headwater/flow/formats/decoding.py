"""What every format does: bytes of values to typed columns, and a sentence for each value that is not what it claims.

A decoder never raises on what stands in a value: rows come from outside and one of them must not stop the others.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InvalidFormat
from headwater.flow.formats.schema import Schema, nearest

NULL_VALUE = "the value is null: read the topic as a table if that means a deletion"

# The modules are loaded when asked for: the compiler that json needs takes a second, and avro is rarely wanted.
MODULES = {
    "json": "headwater.flow.formats.json_decoding",
    "csv": "headwater.flow.formats.csv_decoding",
    "text": "headwater.flow.formats.text_decoding",
    "raw": "headwater.flow.formats.raw_decoding",
    "arrow": "headwater.flow.formats.arrow_decoding",
    "avro": "headwater.flow.formats.avro_decoding",
    "protobuf": "headwater.flow.formats.protobuf_decoding",
    "debezium": "headwater.flow.formats.debezium_decoding",
}


class Decoded(NamedTuple):
    columns: pa.RecordBatch
    """One row per value, exactly of the schema; null in every column where the value is bad, even if NOT NULL."""
    bad: npt.NDArray[np.int64]
    """Rows that do not decode, ascending."""
    reasons: list[str]
    """For each of them: the field, what stood there, what was expected."""
    deleted: npt.NDArray[np.bool_] | None = None
    """Rows whose value says that their key is deleted, where the format can say so; they are not bad."""


class Decoder(Protocol):
    def decode(self, values: pa.BinaryArray) -> Decoded: ...


@runtime_checkable
class CellDecoder(Protocol):
    """A decoder that reads values where they lie in a body of bytes."""

    def decode_cells(
        self, body: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> Decoded:
        """`lengths` are -1 where a value is null."""


def decoder_for(format: str, schema: Schema, options: Mapping[str, str] | None = None) -> Decoder:
    """The decoder of a format; a mistake in schema or options is raised here, before any row is read."""
    if format not in MODULES:
        raise InvalidFormat(f'there is no format "{format}"', nearest(format, MODULES))
    module = _module(format)
    # Spark does not keep the case of option names, and people write timeZone as in its own.
    chosen = {name.lower(): value for name, value in (options or {}).items()}
    for name in chosen:
        if name not in module.OPTIONS:
            way_out = nearest(name, module.OPTIONS) if module.OPTIONS else "It has no options."
            raise InvalidFormat(f'format {format} has no option "{name}"', way_out)
    build: Callable[[Schema, Mapping[str, str]], Decoder] = module.decoder
    return build(schema, chosen)


def _module(format: str) -> ModuleType:
    try:
        return import_module(MODULES[format])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headwater"):
            raise
        way_out = f'Install it with "pip install headwater[{format}]".'
        raise InvalidFormat(f"format {format} needs {error.name}", way_out) from None


def shortened(text: str, *, limit: int = 60) -> str:
    """A text as a sentence can hold it: on one line, and cut in the middle of nowhere if it is long.

    >>> shortened("x" * 100, limit=8)
    'xxxxxxx…'
    """
    flat = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: limit + 1])
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"

"""The bytes as they are. Every value fits; a null value is null, unless the schema says NOT NULL."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidSchema
from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder
from headwater.flow.formats.schema import Schema

OPTIONS = ()


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    if len(schema.fields) != 1 or schema.fields[0].type != pa.binary():
        raise InvalidSchema(f"format raw gives one binary, and the schema is: {schema.ddl}", 'Make it "value binary".')
    return RawDecoder(schema)


class RawDecoder:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def decode(self, values: pa.BinaryArray) -> Decoded:
        bad = np.zeros(0, dtype=np.int64)
        if not self._schema.fields[0].nullable and values.null_count:
            bad = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).astype(np.int64)
        columns = pa.RecordBatch.from_arrays([values], schema=self._schema.arrow)
        return Decoded(columns, bad, [NULL_VALUE] * len(bad))

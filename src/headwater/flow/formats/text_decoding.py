"""The whole value as one text, which must be UTF-8."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidSchema
from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder, shortened
from headwater.flow.formats.kernels.cells import MISSING, TEXT, VALID, cells_of_values
from headwater.flow.formats.kernels.utf8 import utf8_states
from headwater.flow.formats.schema import Schema

OPTIONS = ()


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    if len(schema.fields) != 1 or schema.fields[0].type != pa.string():
        raise InvalidSchema(f"format text gives one string, and the schema is: {schema.ddl}", 'Make it "line string".')
    return TextDecoder(schema)


class TextDecoder:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def decode(self, values: pa.BinaryArray) -> Decoded:
        cells = cells_of_values(values, TEXT)
        good = utf8_states(cells) == VALID
        bad = np.flatnonzero(~good)
        reasons = [
            NULL_VALUE if cells.kinds[row] == MISSING else f"the bytes are not UTF-8: {shortened(cells.text(row))}"
            for row in bad.tolist()
        ]
        offsets, data = values.buffers()[1:]
        validity = pa.py_buffer(np.packbits(good, bitorder="little")) if len(bad) else None
        if values.offset:
            offsets = pa.py_buffer(np.append(cells.starts, cells.ends[-1:]).astype(np.int32))
        column = pa.Array.from_buffers(pa.string(), len(values), [validity, offsets, data])
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self._schema.arrow), bad.astype(np.int64), reasons)

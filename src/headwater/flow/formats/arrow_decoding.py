"""Arrow's own format, one row in each value: an IPC stream with its schema, or a record batch message alone.

A value with more or fewer rows is bad, because every row of the input has one place in the log. Columns are taken by
name and cast where that loses nothing.
"""

from collections.abc import Mapping

import pyarrow as pa

from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder, shortened
from headwater.flow.formats.python_rows import Row, decoded_rows
from headwater.flow.formats.schema import Schema

OPTIONS = ()
HOSTILE = (pa.ArrowException, OSError, EOFError, ValueError, TypeError, LookupError, MemoryError, OverflowError)


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    return ArrowDecoder(schema)


class ArrowDecoder:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decoded_rows(self._schema, [self._row(value) for value in values])

    def _row(self, value: pa.BinaryScalar) -> Row:
        if not value.is_valid:
            return NULL_VALUE
        try:
            batches = _batches(value.as_buffer(), self._schema.arrow)
            for batch in batches:
                batch.validate(full=True)
            rows = sum(batch.num_rows for batch in batches)
            if rows != 1:
                return f"{rows} rows in one value, where there must be one"
            batch = next(batch for batch in batches if batch.num_rows)
            return self._taken(batch)
        except HOSTILE as error:
            return f"not an Arrow row of the schema: {shortened(str(error))}"

    def _taken(self, batch: pa.RecordBatch) -> Row:
        row = {}
        for field in self._schema.fields:
            place = batch.schema.get_field_index(field.name)
            if place >= 0:
                row[field.name] = batch.column(place).cast(field.type)[0].as_py(maps_as_pydicts="lossy")
        return row


def _batches(value: pa.Buffer, schema: pa.Schema) -> list[pa.RecordBatch]:
    message = pa.ipc.read_message(value)
    if message.type == "schema":
        return list(pa.ipc.open_stream(value))
    return [pa.ipc.read_record_batch(message, schema)]

"""Debezium's envelope to columns: the row is what stands in `after`; without one, the record deletes its key.

Both passes over the text are those of JSON: the first finds `after`, the second looks into it, in place.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.flow.formats.assembling import assemble
from headwater.flow.formats.decoding import Decoded, Decoder
from headwater.flow.formats.json_decoding import check_keys, why_not_json
from headwater.flow.formats.kernels.cells import MISSING, NULL, OBJECT, cells_of_values
from headwater.flow.formats.kernels.columns import convert, name_table
from headwater.flow.formats.kernels.json_scan import scan_objects
from headwater.flow.formats.kernels.times import AS_WRITTEN, TimeReading
from headwater.flow.formats.schema import Schema
from headwater.flow.formats.time_options import time_reading

OPTIONS = ("timestamp", "timezone")
NO_ENVELOPE = (
    "not a change in Debezium's envelope: it has no field after (with a schema inside every record, "
    "set converter.schemas.enable to false where it is written)"
)
EMPTIED = "a truncation names no rows: where it is captured, let it be written as deletes"


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    for field in schema.fields:
        check_keys(field.name, field.type)
    return DebeziumDecoder(schema, time_reading("debezium", options))


class DebeziumDecoder:
    def __init__(self, schema: Schema, times: TimeReading = AS_WRITTEN) -> None:
        self._schema, self._times = schema, times
        self._envelope, self._table = name_table(("after", "op")), name_table(schema.names)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        rows = cells_of_values(values, OBJECT)
        outer = scan_objects(rows, self._envelope)
        after, operation = outer.columns
        inner = scan_objects(after, self._table)
        present = (after.kinds == OBJECT) & (inner.failures == 0)
        columns = [
            convert(cells, field.type, times=self._times, required=not field.nullable)
            for cells, field in zip(inner.columns, self._schema.fields, strict=True)
        ]
        deleted = self._deleted(after.kinds, [operation.text(int(row)) for row in np.flatnonzero(after.kinds == NULL)])

        def why(row: int) -> str:
            if rows.kinds[row] == MISSING or outer.failures[row]:
                return why_not_json(rows, outer.failures, row)
            if after.kinds[row] == NULL:
                return EMPTIED
            return NO_ENVELOPE if after.kinds[row] == MISSING else f"after is no row: {after.text(row)[:40]}"

        decoded = assemble(self._schema, columns, present, why)
        bad = ~deleted[decoded.bad]
        reasons = [reason for reason, kept in zip(decoded.reasons, bad, strict=True) if kept]
        return Decoded(decoded.columns, decoded.bad[bad], reasons, deleted)

    def _deleted(self, kinds: npt.NDArray[np.uint8], operations: list[str]) -> npt.NDArray[np.bool_]:
        deleted: npt.NDArray[np.bool_] = kinds == NULL
        deleted[np.flatnonzero(deleted)] = [operation != "t" for operation in operations]
        return deleted

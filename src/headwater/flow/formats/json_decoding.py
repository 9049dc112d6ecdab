"""JSON objects to columns: two passes over the text, both compiled.

The first finds and checks (json_scan.py), the second converts column by column (columns.py). Names are compared byte
by byte; names that the schema does not have are skipped, and what it has and the object lacks is null.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InvalidSchema
from headwater.flow.formats.assembling import assemble
from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder, shortened
from headwater.flow.formats.kernels.cells import MISSING, OBJECT, ByteArray, Cells, cells_of_spans, cells_of_values
from headwater.flow.formats.kernels.columns import convert, name_table
from headwater.flow.formats.kernels.json_scan import NOT_OBJECT, SENTENCES, UNFINISHED, problem_of, scan_objects
from headwater.flow.formats.kernels.times import AS_WRITTEN, TimeReading
from headwater.flow.formats.schema import Schema, type_name
from headwater.flow.formats.time_options import time_reading

OPTIONS = ("timestamp", "timezone", "registry")

Int64Array = npt.NDArray[np.int64]


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    times = time_reading("json", options)
    for field in schema.fields:
        check_keys(field.name, field.type)
    if "registry" in options:
        from headwater.flow.registry.json_reading import RegisteredJson

        return RegisteredJson(JsonDecoder(schema, times), options["registry"])
    return JsonDecoder(schema, times)


def check_keys(name: str, kind: pa.DataType) -> None:
    """Names in a JSON object are texts, so nothing else can be the key of a map."""
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        wanted = f"map<string, {type_name(kind.item_type)}>"
        raise InvalidSchema(f'column "{name}" is a {type_name(kind)}, and keys in JSON are texts', f"Make it {wanted}.")
    for place in range(kind.num_fields):
        check_keys(name, kind.field(place).type)


class JsonDecoder:
    def __init__(self, schema: Schema, times: TimeReading = AS_WRITTEN) -> None:
        self._schema = schema
        self._times = times
        self._table = name_table(schema.names)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return self._decoded(cells_of_values(values, OBJECT))

    def decode_cells(self, body: ByteArray, starts: Int64Array, lengths: Int64Array) -> Decoded:
        return self._decoded(cells_of_spans(body, starts, lengths, OBJECT))

    def _decoded(self, rows: Cells) -> Decoded:
        scanned = scan_objects(rows, self._table)
        present = (rows.kinds != MISSING) & (scanned.failures == 0)
        columns = [
            convert(cells, field.type, times=self._times, required=not field.nullable)
            for cells, field in zip(scanned.columns, self._schema.fields, strict=True)
        ]
        return assemble(self._schema, columns, present, lambda row: why_not_json(rows, scanned.failures, row))


def why_not_json(rows: Cells, failures: npt.NDArray[np.int64], row: int) -> str:
    if rows.kinds[row] == MISSING:
        return NULL_VALUE
    start, end = int(rows.starts[row]), int(rows.ends[row])
    place, problem = problem_of(int(failures[row]))
    if start == end:
        return "the value is empty, where a JSON object was expected"
    if problem == UNFINISHED:
        return f"not JSON: {SENTENCES[problem]}, after {_excerpt(rows, max(start, end - 20), end)}"
    found = _excerpt(rows, place, min(place + 20, end))
    if problem == NOT_OBJECT:
        return f"not a JSON object: it begins with {found}"
    return f"not JSON: {SENTENCES[problem]}, at byte {place - start}: {found}"


def _excerpt(rows: Cells, start: int, end: int) -> str:
    return shortened(bytes(rows.body[start:end]).decode("utf-8", errors="replace"))

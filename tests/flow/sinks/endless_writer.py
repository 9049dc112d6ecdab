"""A process that writes one batch after the other until it is killed, and says so after each.

python -m tests.flow.sinks.endless_writer view|parquet WHERE
"""

import sys
from itertools import count
from pathlib import Path

from tests.contracts.sink import JOB, Place, mark, opened
from tests.flow.sinks.places import ParquetPlace, TablePlace

ROWS_PER_BATCH = 200


def place_of(kind: str, where: str) -> Place:
    return TablePlace(where, key=["number"]) if kind == "view" else ParquetPlace(Path(where), by=["odd"])


def main() -> None:
    place = place_of(sys.argv[1], sys.argv[2])
    sink = opened(place)
    newest = sink.committed(JOB)
    # The last batch comes again, as after a crash between the sink and the job's own note.
    for batch in count(0 if newest is None else newest):
        sink.write(mark(batch), place.batch(range(batch * ROWS_PER_BATCH, (batch + 1) * ROWS_PER_BATCH)))
        print(batch, flush=True)


if __name__ == "__main__":
    main()

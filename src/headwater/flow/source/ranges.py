"""What a task reads: ranges of the log, as the columns of each stream over them.

How many rows there were, and those that did not decode, are left in the stage.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from headwater.flow.source.options import SourceOptions
from headwater.flow.source.reach import Reach, unpacked_bytes_max
from headwater.flow.source.rows import RangeReader, read_rows
from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import staged_name, write_stage

Columns = dict[str, pa.Array]


def read_ranges(options: SourceOptions, ranges: Iterable[Range]) -> Iterator[tuple[int, Columns]]:
    """Chunk by chunk, with the number of the stream; all columns of a chunk have the same length, which may be 0."""
    reach = Reach(options.address, options.data)
    try:
        for one in ranges:
            yield from _read_range(options, one, reach)
    finally:
        reach.close()


def _read_range(options: SourceOptions, one: Range, reach: Reach) -> Iterator[tuple[int, Columns]]:
    # Of plain topics all have the same columns, and a topic that is named twice is read once.
    own = [number for number, stream in enumerate(options.streams) if stream.topic == one.topic]
    own = own if options.nested else own[:1]
    bytes_max = unpacked_bytes_max(options.data)
    readers = [
        RangeReader(options.streams[which], one, poisoned=options.poisoned, unpacked_bytes_max=bytes_max)
        for which in own
    ]
    for several in read_rows(readers, one, reach, data=options.data, account_losses=options.account_losses):
        yield from zip(own, several, strict=True)
    if options.stage is not None:
        for place, reader in enumerate(readers):
            staged_as = one._replace(topic=staged_name(one.topic, place))
            write_stage(options.stage, staged_as, reader.counts, reader.poisoned)

"""Have compiled code and slow imports loaded before the first batch needs them."""

from headwater.flow.formats.schema import parse_ddl
from headwater.flow.source.record_batches.files import Chunk
from headwater.flow.source.rows import RangeReader, frame_batches
from headwater.flow.source.splitting import Range
from headwater.flow.source.streams import Stream
from headwater.log.batch_format import encode_batch
from headwater.record import Record

USUAL = "a bigint, b string, c timestamp, d double, e boolean, f int, g decimal(12,2), h array<string>, i date"


def warm_up() -> None:
    """Read a record that is in no log. Worth doing in a process that forks workers: they then have it all already.

    >>> warm_up()
    """
    record = Record(b'{"a": 1, "b": "x", "c": "2026-01-01T00:00:00Z", "d": 1.5}', b"k", [("h", b"v")], 0)
    chunk = Chunk(0, 1, bytes(encode_batch([record])))
    for stream in (
        Stream("raw", "raw"),
        Stream("typed", "typed", "json", parse_ddl(USUAL), columns=("_headers", "_partition", "_timestamp"), time="c"),
    ):
        columns = RangeReader(stream, Range(stream.topic, 0, 0, 1), poisoned="fail").read(chunk)
        list(frame_batches(columns, 0, stream.frame.arrow, nested=False))

from headwater.flow.kafka.messages import Aborted
from headwater.flow.source.record_batches.records import decode_batches
from headwater.flow.source.record_batches.transactions import without_aborted
from headwater.log.batch_format import CONTROL_FLAG, TRANSACTIONAL_FLAG, encode_batch, pack_header, read_header, seal
from headwater.log.batch_table import find_batches
from headwater.record import Record

ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


class Written:
    """A partition that transactions write to."""

    def __init__(self) -> None:
        self.log, self.end = bytearray(), 0

    def add(self, producer: int, *, attributes: int = TRANSACTIONAL_FLAG, key: bytes = b"k") -> int:
        batch = encode_batch([Record(b"of %d" % producer, key, (), 5)], producer_id=producer)
        batch[:61] = pack_header(read_header(batch)._replace(base_offset=self.end, attributes=attributes))
        seal(batch)
        self.log += batch
        self.end += 1
        return self.end - 1

    def finish(self, producer: int, how: bytes) -> None:
        self.add(producer, attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG, key=how)

    def seen(self, *aborted: Aborted) -> list[int]:
        data = memoryview(bytes(self.log))
        left = without_aborted(data, find_batches(data), aborted)
        return list(decode_batches(left, 0, self.end, headers=False).offsets)


def test_what_an_aborted_transaction_wrote_is_not_seen() -> None:
    log = Written()
    first = log.add(7)
    other = log.add(8)
    log.add(7)
    log.finish(7, ABORT)
    log.finish(8, COMMIT)
    assert log.seen(Aborted(7, first)) == [other]


def test_the_next_transaction_of_the_same_producer_is_seen() -> None:
    log = Written()
    first = log.add(7)
    log.finish(7, ABORT)
    committed = log.add(7)
    log.finish(7, COMMIT)
    assert log.seen(Aborted(7, first)) == [committed]


def test_a_committed_transaction_before_the_aborted_one_is_seen() -> None:
    log = Written()
    committed = log.add(7)
    log.finish(7, COMMIT)
    second = log.add(7)
    log.finish(7, ABORT)
    assert log.seen(Aborted(7, second)) == [committed]


def test_one_that_began_before_what_was_fetched_is_known_all_the_same() -> None:
    log = Written()
    log.end = 100
    log.add(7)
    log.finish(7, ABORT)
    plain = log.add(7, attributes=0)
    assert log.seen(Aborted(7, 12)) == [plain]

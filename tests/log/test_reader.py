"""Reading and following in process."""

import threading
import time
from collections.abc import Iterator

import pytest

from headwater.errors import DamagedRange, LogClosed, OffsetOutOfRange, UnknownPartition, UnknownTopic
from headwater.log.batch_format import encode_batch, pack_header, read_header, seal, unpacked
from headwater.log.compression import LARGE_AT_ONCE, decompress
from headwater.log.reader import read_some
from headwater.record import Record, whole_length
from headwater.settings import LogSettings
from tests.log.bombs import PACKED, bomb
from tests.log.subjects import TOPIC, Subject, batch, headers_in
from tests.waiting import LONG


def three_a_batch(subject: Subject, batches: int = 4, codec: str = "none") -> None:
    for number in range(batches):
        rows = [Record(b"%d" % (number * 3 + index), timestamp_ms=1_000 + number * 3 + index) for index in range(3)]
        subject.partition.append(encode_batch(rows, compression=codec), durable=False)


# Reading


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_reading_may_start_anywhere_in_a_batch_and_stop_anywhere(codec: str) -> None:
    subject = Subject()
    three_a_batch(subject, codec=codec)
    for offset in range(13):
        for limit in (0, 1, 4, None):
            found = [record.offset for record in subject.log.read(TOPIC, offset=offset, limit=limit)]
            assert found == list(range(offset, 12))[:limit]


def test_reading_starts_at_a_time() -> None:
    subject = Subject()
    three_a_batch(subject)
    assert [record.offset for record in subject.log.read(TOPIC, time_ms=1_004)] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert list(subject.log.read(TOPIC, time_ms=5_000)) == []


def test_reading_without_a_starting_point_begins_at_the_first_record_there_is() -> None:
    subject = Subject()
    three_a_batch(subject)
    subject.partition.delete_records(5)
    assert subject.offsets() == [5, 6, 7, 8, 9, 10, 11]


def test_reading_ends_where_the_log_ended_when_it_began() -> None:
    subject = Subject()
    three_a_batch(subject)
    reading = subject.log.read(TOPIC)
    next(reading)
    three_a_batch(subject)
    assert [record.offset for record in reading][-1] == 11


@pytest.mark.parametrize("offset", [-1, 2, 13])
def test_an_offset_that_is_not_there_is_an_error(offset: int) -> None:
    subject = Subject()
    three_a_batch(subject)
    subject.partition.delete_records(3)
    with pytest.raises(OffsetOutOfRange) as error:
        list(subject.log.read(TOPIC, offset=offset))
    assert (error.value.first, error.value.end) == (3, 12)


def test_a_topic_or_partition_that_is_not_there_is_an_error_at_once() -> None:
    subject = Subject()
    with pytest.raises(UnknownTopic):
        subject.log.read("nowhere")
    with pytest.raises(UnknownPartition):
        subject.log.read(TOPIC, 1)


def test_all_parts_of_a_record_come_back() -> None:
    subject = Subject()
    record = Record(b"value", b"key", (("a", b"1"), ("b", None)), timestamp_ms=77)
    subject.log.append(TOPIC, record)
    assert subject.records() == [Record(b"value", b"key", (("a", b"1"), ("b", None)), timestamp_ms=77, offset=0)]


# Damage met while reading


def damaged(byte: int, number: int = 3) -> Subject:
    """Twelve batches of one record, one of them damaged on the disk without the log's knowledge."""
    subject = Subject({"index.interval.bytes": "0", "segment.bytes": "350"})
    subject.fill(12)
    subject.restart()
    path = subject.path(number // 2)
    data = subject.bytes_of(path)
    position = headers_in(data)[number % 2][0] + byte
    subject.overwrite(path, position, bytes([data[position] ^ 0x11]))
    subject.restart()
    assert subject.partition.recovery_report == []
    return subject


def readable(subject: Subject) -> tuple[list[int], list[tuple[int, int]]]:
    """Offsets that can be read, continuing after damage as the error says, and the ranges it named."""
    found: list[int] = []
    ranges: list[tuple[int, int]] = []
    position = subject.partition.start_offset
    for _ in range(100):
        try:
            for record in subject.log.read(TOPIC, offset=position):
                found.append(record.offset)
            return found, ranges
        except DamagedRange as error:
            ranges.append((error.first, error.end))
            position = max(error.end, (found[-1] + 1) if found else 0)
    raise AssertionError(f"reading does not get on: {ranges[:5]}")


@pytest.mark.parametrize("number", [0, 1, 2, 3, 10])
@pytest.mark.parametrize("byte", [8, 9, 10, 11, 16, 17, 20, 30, 61, 75])
def test_a_damaged_batch_is_reported_once_and_then_stepped_over(byte: int, number: int) -> None:
    subject = damaged(byte, number)
    others = [offset for offset in range(12) if offset != number]
    found, ranges = readable(subject)
    assert found == others
    assert ranges == [(number, number + 1)]
    assert readable(subject) == (others, [])
    subject.kill()
    assert readable(subject) == (others, [])


def test_a_batch_that_makes_no_sense_though_its_checksum_fits_is_stepped_over() -> None:
    subject = Subject()
    subject.put(b"a")
    nonsense = batch(b"b", b"c", b"d")
    nonsense[61:64] = b"\xff\xff\xff"
    seal(nonsense)
    subject.partition.append(nonsense, durable=False)
    subject.put(b"e")
    assert readable(subject) == ([0, 4], [(1, 4)])
    with pytest.raises(DamagedRange):
        list(subject.log.read(TOPIC, offset=2))
    assert subject.partition.offset_for_time(0) is not None


def test_records_missing_from_a_batch_do_not_end_the_reading() -> None:
    subject = Subject()
    sparse = batch(b"a", b"b", b"c")
    header = read_header(sparse)._replace(record_count=1)
    one = batch(b"a")
    cleaned = pack_header(header._replace(length=len(one) - 12)) + one[61:]
    seal(cleaned)
    subject.partition.segments[-1].append(cleaned, header._replace(length=len(one) - 12), index_interval=0)
    subject.partition._advance(header._replace(length=len(one) - 12), durable=False)
    subject.put(b"d")
    assert subject.offsets() == [0, 3]
    assert [record.offset for record in subject.log.read(TOPIC, offset=1)] == [3]


# Following


def collect(following: Iterator[Record], into: list[int], enough: threading.Event, count: int) -> None:
    for record in following:
        into.append(record.offset)
        if len(into) >= count:
            enough.set()


def test_following_wakes_up_when_another_thread_appends() -> None:
    subject = Subject()
    subject.put(b"before")
    found: list[int] = []
    enough = threading.Event()

    def follow() -> None:
        with pytest.raises(LogClosed):
            collect(subject.log.follow(TOPIC), found, enough, 4)

    thread = threading.Thread(target=follow)
    thread.start()
    for _ in range(3):
        subject.put(b"more")
    assert enough.wait(LONG)
    subject.log.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert found == [0, 1, 2, 3]


def test_following_waits_for_a_notification_and_does_not_poll() -> None:
    subject = Subject()
    reads = 0
    look = subject.partition.snapshot

    def counted(*, committed: bool) -> object:
        nonlocal reads
        reads += 1
        return look(committed=committed)

    subject.partition.snapshot = counted  # type: ignore[method-assign,assignment]
    begun = time.monotonic()
    assert list(subject.log.follow(TOPIC, timeout=0.3)) == []
    assert time.monotonic() - begun >= 0.3
    assert reads <= 2


def test_following_stops_after_a_time_without_anything_new() -> None:
    subject = Subject()
    subject.fill(3)
    assert [record.offset for record in subject.log.follow(TOPIC, offset=1, timeout=0.01)] == [1, 2]


def test_following_sees_nothing_before_it_is_durable() -> None:
    subject = Subject()
    subject.partition.append(batch(b"a"), durable=True)
    assert list(subject.log.follow(TOPIC, timeout=0.01)) == []
    subject.partition.make_durable(1)
    assert len(list(subject.log.follow(TOPIC, timeout=0.01))) == 1


def test_who_stops_following_is_not_called_any_more() -> None:
    subject = Subject()
    subject.fill(3)
    following = subject.log.follow(TOPIC)
    next(following)
    following.close()  # type: ignore[attr-defined]
    assert subject.partition._listeners._callbacks == ()


def test_following_a_topic_that_is_deleted_ends_with_an_error() -> None:
    subject = Subject()
    subject.put(b"a")
    following = subject.log.follow(TOPIC)
    next(following)
    subject.log.delete_topic(TOPIC)
    with pytest.raises(LogClosed):
        next(following)


def test_a_follower_that_was_overtaken_by_deletion_gets_an_error() -> None:
    subject = Subject({"segment.bytes": "200"})
    subject.fill(3)
    following = subject.log.follow(TOPIC, timeout=0.01)
    next(following)
    subject.fill(10)
    subject.partition.delete_records(8)
    with pytest.raises(OffsetOutOfRange):
        list(following)


# Batches that nothing can unpack


SMALL = LogSettings(decompressed_bytes_max=100_000)


def with_bombs(codec: str) -> Subject:
    """A record, a batch of three that unpacks to too much, another, two records: offsets 0, 1 to 3, 4 to 6, 7 and 8."""
    subject = Subject()
    subject.put(b"before")
    for _ in range(2):
        subject.partition.append(bomb(300_000, codec, records=3), durable=False)
    subject.put(b"after", b"last")
    subject.settings = SMALL
    subject.restart()
    return subject


@pytest.mark.parametrize("codec", PACKED)
def test_a_batch_that_unpacks_to_too_much_hides_none_of_its_neighbours(codec: str) -> None:
    subject = with_bombs(codec)
    records, following = read_some(subject.partition, 0, SMALL.decompressed_bytes_max)
    assert ([one.value for one in records], following) == ([b"before"], 1)
    with pytest.raises(DamagedRange, match="unpacks to more than 100000 bytes") as raised:
        read_some(subject.partition, following, SMALL.decompressed_bytes_max)
    assert (raised.value.first, raised.value.end) == (1, 4)
    with pytest.raises(DamagedRange) as raised:
        read_some(subject.partition, 5, SMALL.decompressed_bytes_max)
    records, following = read_some(subject.partition, raised.value.end, SMALL.decompressed_bytes_max)
    assert ([one.value for one in records], following) == ([b"after", b"last"], 9)


@pytest.mark.parametrize("codec", PACKED)
def test_a_look_up_by_time_steps_over_what_cannot_be_unpacked(codec: str) -> None:
    subject = with_bombs(codec)
    now = subject.clock.now_ms()
    assert subject.partition.offset_for_time(now - 1) is not None
    assert [one.offset for one in subject.log.read(TOPIC, offset=7)] == [7, 8]


def test_one_record_of_many_large_batches_costs_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject({"max.message.bytes": "20000000"})
    for _ in range(5):
        subject.partition.append(bomb(9 * 1024**2, "zstd", records=1000), durable=False)
    unpackings: list[int] = []

    def counted(codec: int, data: object, *, bytes_max: int) -> object:
        unpackings.append(bytes_max)
        return decompress(codec, data, bytes_max=bytes_max)  # type: ignore[arg-type]

    monkeypatch.setattr("headwater.log.batch_format.decompress", counted)
    records, following = read_some(subject.partition, 0, 128 * 1024**2, records_max=1)
    assert (len(records), following, len(unpackings)) == (1, 1, 1)
    records, following = read_some(subject.partition, 3, 128 * 1024**2)
    assert (len(records), following, len(unpackings)) == (997, 1000, 2)


def test_records_come_in_parts_of_a_batch_with_the_next_offset() -> None:
    subject = Subject()
    three_a_batch(subject)
    found, offset = [], 1
    while offset < 12:
        records, offset = read_some(subject.partition, offset, 1000, records_max=2)
        assert len(records) <= 2
        found += [one.offset for one in records]
    assert found == list(range(1, 12))


def test_large_batches_are_unpacked_a_few_at_a_time() -> None:
    large = bomb(3 * 1024**2, "zstd")
    inside, most = 0, 0
    lock = threading.Lock()

    def unpack() -> None:
        nonlocal inside, most
        with unpacked(large, bytes_max=4 * 1024**2):
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.02)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=unpack) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == LARGE_AT_ONCE


def test_of_large_values_no_more_than_their_beginning_is_copied() -> None:
    subject = Subject()
    large = Record(b"v" * 5000, b"k" * 3000, (("name", b"h" * 4000), ("small", b"x")), timestamp_ms=1)
    subject.log.append(TOPIC, [large, Record(b"v" * 20, timestamp_ms=1)], compression="zstd")
    (cut, whole), _ = read_some(subject.partition, 0, 10**6, field_bytes_max=20)
    parts = (cut.key, cut.value, cut.headers[0][1])
    assert parts == (b"k" * 20, b"v" * 20, b"h" * 20)
    assert [whole_length(part) for part in parts] == [3000, 5000, 4000]
    assert cut.headers[1] == ("small", b"x")
    assert (type(whole.value), whole.value) == (bytes, b"v" * 20)

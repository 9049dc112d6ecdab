"""Records into batches: how they are grouped, and what waits for room."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BatchTooLarge, InvalidRecord, LogClosed, TopicFull
from headwater.log.writer import BATCH_BYTES, batches_of
from headwater.record import Record
from tests.log.subjects import TOPIC, Subject, headers_in
from tests.waiting import LONG

SMALL_AND_BLOCKING = {"retention.bytes": "1000", "headwater.full.policy": "block", "segment.bytes": "250"}


@given(sizes=st.lists(st.integers(0, BATCH_BYTES + 1000), max_size=12))
def test_records_are_grouped_in_their_order_into_batches_of_moderate_size(sizes: list[int]) -> None:
    records = [Record(bytes(size)) for size in sizes]
    groups = batches_of(records, now_ms=0)
    assert [record for group in groups for record in group] == [replace(record, timestamp_ms=0) for record in records]
    assert all(group for group in groups)
    assert all(len(group) == 1 or sum(len(r.value or b"") for r in group) <= BATCH_BYTES for group in groups)


def test_many_records_become_few_batches() -> None:
    subject = Subject()
    subject.log.append(TOPIC, [Record(b"x" * 1000) for _ in range(1200)])
    assert len(subject.records()) == 1200
    assert len(headers_in(subject.bytes_of(subject.path(0)))) == 3


def test_all_batches_of_one_append_share_a_sync_and_are_seen_together() -> None:
    subject = Subject()
    seen: list[int] = []
    subject.partition.subscribe(lambda: seen.append(subject.partition.high_watermark))
    subject.log.append(TOPIC, [Record(b"x" * 1000) for _ in range(1200)])
    assert seen == [1200]


def test_a_record_too_large_for_the_topic_is_refused() -> None:
    subject = Subject({"max.message.bytes": "1000"})
    with pytest.raises(BatchTooLarge):
        subject.log.append(TOPIC, Record(b"x" * 1000))
    subject.log.append(TOPIC, Record(b"x" * 900))
    subject.log.append(TOPIC, Record(b"x" * 5000), compression="zstd")


def test_a_record_of_a_mebibyte_is_stored_where_the_topic_allows_it() -> None:
    subject = Subject({"max.message.bytes": str(2 * 1024**2)})
    subject.log.append(TOPIC, Record(bytes(1024**2)))
    assert subject.values() == [bytes(1024**2)]


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    subject = Subject({"cleanup.policy": "compact"})
    with pytest.raises(InvalidRecord, match="needs a key"):
        subject.log.append(TOPIC, [Record(b"a", key=b"k"), Record(b"b")])
    assert subject.records() == []


# Waiting for room


def waiting(subject: Subject, *, durable: bool = True) -> tuple[threading.Thread, list[object]]:
    """A topic filled to the brim, and a thread that waits to append one record more."""
    with pytest.raises(TopicFull):
        subject.fill(100)
    results: list[object] = []

    def append() -> None:
        try:
            results.append(subject.log.append(TOPIC, Record(b"waiting" + b"." * 100), durable=durable).offset)
        except LogClosed as error:
            results.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert results == []
    return thread, results


FREEING: dict[str, Callable[[Subject], object]] = {
    "records were deleted": lambda subject: subject.partition.delete_records(3),
    "all records were deleted": lambda subject: subject.partition.delete_records(-1),
    "the limit was raised": lambda subject: subject.log.alter_topic(TOPIC, {"retention.bytes": "5000"}),
    "the limit was lifted": lambda subject: subject.log.alter_topic(TOPIC, {"retention.bytes": None}),
    "the oldest may be dropped": lambda subject: subject.log.alter_topic(
        TOPIC, {"headwater.full.policy": "drop-oldest"}
    ),
}


@pytest.mark.parametrize("event", FREEING)
def test_an_append_that_waits_for_room_continues_when(event: str) -> None:
    subject = Subject(SMALL_AND_BLOCKING)
    thread, results = waiting(subject)
    end = subject.partition.end_offset
    FREEING[event](subject)
    thread.join(LONG)
    assert results == [end]
    assert subject.offsets()[-1] == end


def test_an_append_that_waits_for_room_continues_when_time_has_made_some() -> None:
    subject = Subject(SMALL_AND_BLOCKING | {"retention.ms": "60000"})
    thread, results = waiting(subject)
    end = subject.partition.end_offset
    subject.log.maintain()
    thread.join(0.05)
    assert thread.is_alive(), "a topic that blocks does not forget to make room"
    subject.clock.advance(60_001)
    subject.log.maintain()
    thread.join(LONG)
    assert results == [end]


@pytest.mark.parametrize("end", ["close", "delete"])
def test_an_append_that_waits_for_room_fails_when_the_log_is_closed(end: str) -> None:
    subject = Subject(SMALL_AND_BLOCKING)
    thread, results = waiting(subject)
    if end == "close":
        subject.log.close()
    else:
        subject.log.delete_topic(TOPIC)
    thread.join(LONG)
    assert not thread.is_alive()
    assert [type(result) for result in results] == [LogClosed]


def test_many_who_wait_share_what_room_there_is() -> None:
    subject = Subject(SMALL_AND_BLOCKING)
    with pytest.raises(TopicFull):
        subject.fill(100)
    appended: list[int] = []
    threads = [
        threading.Thread(target=lambda: appended.append(subject.log.append(TOPIC, Record(b"." * 150)).offset))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for _ in range(200):
        subject.partition.delete_records(-1)
        for thread in threads:
            thread.join(0.01)
        if not any(thread.is_alive() for thread in threads):
            break
    assert len(set(appended)) == 6


def test_a_record_larger_than_the_topic_may_be_does_not_wait_for_ever() -> None:
    subject = Subject(SMALL_AND_BLOCKING)
    with pytest.raises(TopicFull):
        subject.log.append(TOPIC, Record(b"x" * 2000))

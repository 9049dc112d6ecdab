"""The table on top of producer_state.py, row by row, and that it outlives restarts, retention and moved clocks."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DuplicateSequence, InvalidRecord, OutOfOrderSequence, StaleProducerEpoch
from headwater.log.appended import Appended
from headwater.log.batch_format import APPEND_TIME_FLAG, BatchHeader, read_header
from headwater.log.producer_state import BATCHES_REMEMBERED, ProducerStates
from headwater.settings import LogSettings
from tests.log.subjects import FOLDER, Subject, batch

LAST_SEQUENCE = 2**31 - 1
PRODUCER = 42


def header(
    sequence: int, records: int = 1, *, epoch: int = 0, offset: int = 0, producer: int = PRODUCER
) -> BatchHeader:
    sent = batch(*[b"v"] * records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return read_header(sent)._replace(base_offset=offset)


def knowing(*stored: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for one in stored:
        states.note(one, elapsed_ms=0)
    return states


def seven_batches() -> ProducerStates:
    """Seven batches of two records: of the first two only that they were stored is known."""
    return knowing(*(header(number * 2, 2, offset=100 + number * 2) for number in range(7)))


# Same epoch


@pytest.mark.parametrize("number", range(2, 7))
def test_one_of_the_last_five_is_a_retry_that_gets_its_old_offset(number: int) -> None:
    found = seven_batches().find_duplicate(header(number * 2, 2))
    assert found is not None
    assert (found.base_offset, found.last_offset) == (100 + number * 2, 101 + number * 2)


@pytest.mark.parametrize("sequence, records", [(0, 2), (2, 2), (0, 1), (3, 1), (1, 3)])
def test_what_was_stored_before_the_last_five_is_a_duplicate(sequence: int, records: int) -> None:
    with pytest.raises(DuplicateSequence):
        seven_batches().find_duplicate(header(sequence, records))


@pytest.mark.parametrize("number", range(2, 7))
def test_other_records_under_the_number_of_one_of_the_last_five_are_no_retry(number: int) -> None:
    """Answered as a retry they would be acknowledged and stored nowhere."""
    other = header(number * 2, 2)._replace(crc=17)
    with pytest.raises(OutOfOrderSequence, match=f"sent another batch under sequence {number * 2}"):
        seven_batches().find_duplicate(other)


def test_of_a_batch_that_was_stamped_only_the_number_is_known() -> None:
    stamped = header(0)
    stamped = stamped._replace(attributes=stamped.attributes | APPEND_TIME_FLAG)
    assert knowing(stamped).find_duplicate(header(0)._replace(crc=17)) is not None


def test_checkpoints_of_earlier_releases_have_no_checksums() -> None:
    written: Any = seven_batches().to_rows(below=999)
    rows = [[id, epoch, [batch[:5] for batch in batches]] for id, epoch, batches in written]
    again = ProducerStates.from_rows(rows, elapsed_ms=0)
    assert again.find_duplicate(header(12, 2)._replace(crc=17)) is not None


OUT_OF_ORDER = [
    (15, 1), (16, 2), (1000, 1), (13, 2), (12, 3), (LAST_SEQUENCE // 2, 1), (4, 1), (5, 3), (12, 1), (0, 14), (3, 2),
]  # fmt: skip
"""Gaps, and what meets the last five batches, which are from 4 to 13, and is none of them."""


@pytest.mark.parametrize("records", [1, 5])
def test_the_next_in_line_is_new(records: int) -> None:
    assert seven_batches().find_duplicate(header(14, records)) is None


@pytest.mark.parametrize("sequence, records", OUT_OF_ORDER)
def test_a_gap_or_an_overlap_is_out_of_order(sequence: int, records: int) -> None:
    with pytest.raises(OutOfOrderSequence, match="where 14 comes next"):
        seven_batches().find_duplicate(header(sequence, records))


# Other epochs


def test_a_newer_epoch_begins_at_nought() -> None:
    states = seven_batches()
    assert states.find_duplicate(header(0, epoch=1)) is None
    for sequence in (1, 14):
        with pytest.raises(OutOfOrderSequence, match="where 0 comes next"):
            states.find_duplicate(header(sequence, epoch=1))


def test_a_newer_epoch_fences_the_older_one() -> None:
    states = seven_batches()
    states.note(header(0, epoch=3, offset=200), elapsed_ms=0)
    for sequence in (0, 12, 14):
        for epoch in (0, 2):
            with pytest.raises(StaleProducerEpoch):
                states.find_duplicate(header(sequence, 2, epoch=epoch))
    assert states.find_duplicate(header(1, epoch=3)) is None
    assert states.find_duplicate(header(0, epoch=3)) is not None


def test_a_batch_of_an_older_epoch_found_in_the_log_changes_nothing() -> None:
    states = knowing(header(0, epoch=2, offset=10), header(5, epoch=1, offset=11))
    assert states.find_duplicate(header(1, epoch=2)) is None


# Others


@pytest.mark.parametrize("sequence", [0, 5, LAST_SEQUENCE])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    states = seven_batches()
    assert states.find_duplicate(header(sequence, producer=43)) is None
    states.note(header(sequence, producer=43), elapsed_ms=0)
    assert states.find_duplicate(header((sequence + 1) % 2**31, producer=43)) is None


def test_who_is_not_idempotent_is_not_looked_at() -> None:
    states = ProducerStates()
    plain = read_header(batch(b"v"))
    for _ in range(2):
        assert states.find_duplicate(plain) is None
        states.note(plain, elapsed_ms=0)
    assert len(states) == 0


@pytest.mark.parametrize("sequence, epoch", [(-1, 0), (0, -1), (-5, 3)])
def test_an_idempotent_batch_needs_an_epoch_and_a_sequence(sequence: int, epoch: int) -> None:
    with pytest.raises(InvalidRecord):
        ProducerStates().find_duplicate(header(sequence, epoch=epoch))


# Sequences start again at nought


def test_sequences_wrap_around_inside_a_batch_and_between_batches() -> None:
    states = knowing(header(LAST_SEQUENCE - 3, 3, offset=0))
    assert states.find_duplicate(header(LAST_SEQUENCE, 4, offset=3)) is None
    states.note(header(LAST_SEQUENCE, 4, offset=3), elapsed_ms=0)
    assert states.find_duplicate(header(3)) is None
    repeated = states.find_duplicate(header(LAST_SEQUENCE, 4))
    assert repeated is not None
    assert (repeated.first_sequence, repeated.last_sequence) == (LAST_SEQUENCE, 2)
    with pytest.raises(DuplicateSequence):
        states.find_duplicate(header(LAST_SEQUENCE - 10, 2))
    with pytest.raises(OutOfOrderSequence, match="where 3 comes next"):
        states.find_duplicate(header(4))


@given(start=st.integers(LAST_SEQUENCE - 40, LAST_SEQUENCE), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=20))
def test_a_producer_that_counts_right_is_always_understood(start: int, sizes: list[int]) -> None:
    states, sequence, offset = ProducerStates(), start, 0
    sent: list[BatchHeader] = []
    for size in sizes:
        one = header(sequence, size, offset=offset)
        assert states.find_duplicate(one) is None
        states.note(one, elapsed_ms=0)
        sent.append(one)
        sequence, offset = (sequence + size) % 2**31, offset + size
    for one in sent[-BATCHES_REMEMBERED:]:
        found = states.find_duplicate(one)
        assert found is not None
        assert found.base_offset == one.base_offset
    for one in sent[:-BATCHES_REMEMBERED]:
        with pytest.raises(DuplicateSequence):
            states.find_duplicate(one)


# Written down and expired


def test_what_is_remembered_can_be_written_down() -> None:
    states = seven_batches()
    states.note(header(9, epoch=4, producer=1, offset=500), elapsed_ms=0)
    again = ProducerStates.from_rows(states.to_rows(below=10**6), elapsed_ms=0)
    assert again.to_rows(below=10**6) == states.to_rows(below=10**6)
    assert again.find_duplicate(header(12, 2)) == states.find_duplicate(header(12, 2))


def test_what_lies_above_the_checkpoint_is_left_to_the_log_itself() -> None:
    rows = seven_batches().to_rows(below=110)
    again = ProducerStates.from_rows(rows, elapsed_ms=0)
    assert again.find_duplicate(header(8, 2)) is not None
    assert again.find_duplicate(header(10, 2)) is None
    assert seven_batches().to_rows(below=100) == []


def test_who_sends_nothing_for_too_long_is_forgotten() -> None:
    states = knowing(header(0, producer=1), header(0, producer=2))
    states.note(header(1, producer=2), elapsed_ms=50)
    assert states.expire(elapsed_ms=100, expiry_ms=100) == 0
    assert states.expire(elapsed_ms=101, expiry_ms=100) == 1
    assert states.find_duplicate(header(77, producer=1)) is None
    assert states.find_duplicate(header(1, producer=2)) is not None


# In a partition


def sent(subject: Subject, sequence: int) -> Appended:
    """The same bytes each time: a client sends again what it has."""
    one = batch(b"%d" % sequence, timestamp_ms=1000, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
    appended = subject.partition.append(one, durable=True)
    subject.partition.make_durable(appended.last_offset + 1)
    return appended


@pytest.mark.parametrize("restart", [Subject.restart, Subject.kill])
def test_a_retry_is_recognised_after_a_restart(restart: object) -> None:
    subject = Subject()
    for sequence in range(7):
        sent(subject, sequence)
    restart(subject)  # type: ignore[operator]
    for sequence in range(2, 7):
        again = sent(subject, sequence)
        assert (again.base_offset, again.duplicate) == (sequence, True)
    with pytest.raises(DuplicateSequence):
        sent(subject, 1)
    with pytest.raises(OutOfOrderSequence):
        sent(subject, 8)
    assert not sent(subject, 7).duplicate
    assert len(subject.records()) == 8


def test_a_retry_is_recognised_after_a_checkpoint_and_a_kill() -> None:
    subject = Subject()
    sent(subject, 0)
    subject.partition.checkpoint()
    sent(subject, 1)
    subject.kill()
    assert sent(subject, 0).duplicate
    assert sent(subject, 1).duplicate
    assert len(subject.records()) == 2


@pytest.mark.parametrize("restart", [Subject.restart, Subject.kill])
def test_a_retry_is_recognised_after_its_segment_was_deleted(restart: object) -> None:
    subject = Subject({"segment.bytes": "100", "retention.bytes": "300"})
    for sequence in range(3):
        sent(subject, sequence)
    subject.fill(20)
    subject.log.maintain()
    assert subject.partition.start_offset > 3
    restart(subject)  # type: ignore[operator]
    again = sent(subject, 2)
    assert (again.base_offset, again.duplicate) == (2, True)
    assert not sent(subject, 3).duplicate


def test_a_retry_of_what_is_not_durable_yet_is_answered_and_waits_for_the_same_sync() -> None:
    subject = Subject()
    one = batch(b"v", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
    subject.partition.append(bytearray(one), durable=True)
    again = subject.partition.append(bytearray(one), durable=True)
    assert again.duplicate
    assert subject.partition.high_watermark == 0
    subject.partition.make_durable(again.last_offset + 1)
    assert len(subject.records()) == 1


def test_only_time_that_truly_passed_while_running_makes_a_producer_forgotten() -> None:
    day = 86_400_000
    subject = Subject(settings=LogSettings(producer_expiry=timedelta(days=1)))
    sent(subject, 0)
    subject.clock.jump_wall(400 * day)
    subject.log.maintain()
    subject.clock.jump_wall(-800 * day)
    subject.log.maintain()
    assert sent(subject, 0).duplicate
    subject.clock.jump_wall(400 * day)
    subject.clock.advance(day - 1)
    subject.log.close()
    subject.clock.advance(day)  # no process ran that could forget
    subject.open()
    subject.clock.advance(day)
    subject.log.maintain()
    assert sent(subject, 0).duplicate
    subject.clock.advance(1)
    subject.log.maintain()
    assert not sent(subject, 0).duplicate, "expired: a producer that sends now starts again"


def test_what_was_forgotten_stays_forgotten_after_a_kill() -> None:
    subject = Subject(settings=LogSettings(producer_expiry=timedelta(hours=1)))
    sent(subject, 0)
    subject.clock.advance(3_600_001)
    subject.log.maintain()
    subject.kill()
    assert "[]" in subject.bytes_of(f"{FOLDER}/checkpoint").decode()
    assert not sent(subject, 5).duplicate


def test_the_answer_to_a_retry_has_the_time_of_the_first_try() -> None:
    subject = Subject({"message.timestamp.type": "LogAppendTime"})
    first = sent(subject, 0)
    subject.clock.advance(5000)
    assert sent(subject, 0).append_time_ms == first.append_time_ms
    subject.kill()
    assert sent(subject, 0).append_time_ms == first.append_time_ms

"""Look-ups by index answer what a linear scan of the files answers: every offset, every time, whatever happened."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.log.batch_format import decode_batch, encode_batch, read_header
from headwater.log.check import check_log
from headwater.record import Record
from headwater.testing import ManualClock, SimulatedDisk
from tests.log.subjects import FOLDER, Subject, headers_in

NOW = ManualClock().now_ms()
BYTES_MAX = 10**6

Batch = tuple[list[int], int, str, bool]  # timestamps of its records, bytes of each value, codec, durable


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, str], list[Batch]]:
    """Any batches in tiny segments with a dense or a sparse index; timestamps in any order, or in none."""
    configs = {
        "segment.bytes": str(draw(st.integers(100, 1500))),
        "index.interval.bytes": str(draw(st.sampled_from([0, 1, 70, 150, 400, 4096]))),
    }
    ordered = draw(st.booleans())
    times = st.integers(-1, 60)
    rows = st.tuples(
        st.lists(times, min_size=1, max_size=4),
        st.integers(0, 150),
        st.sampled_from(["none", "none", "gzip", "snappy", "lz4", "zstd"]),
        st.booleans(),
    )
    batches = draw(st.lists(rows, min_size=1, max_size=40))
    if ordered:
        batches = [([index * 3 + time % 3 for time in sorted(b[0])], *b[1:]) for index, b in enumerate(batches)]
    return configs, batches


def stored(subject: Subject, batches: list[Batch], keys: int = 5) -> None:
    for number, (times, size, codec, durable) in enumerate(batches):
        rows = [
            Record(b"v" * size, key=b"%d" % ((number + index) % keys), timestamp_ms=time)
            for index, time in enumerate(times)
        ]
        appended = subject.partition.append(encode_batch(rows, compression=codec), durable=durable)
        if durable:
            subject.partition.make_durable(appended.last_offset + 1)


class LinearScan:
    """What is in the files, read from their first byte to their last."""

    def __init__(self, subject: Subject) -> None:
        partition = subject.partition
        self.start, self.end = partition.start_offset, partition.high_watermark
        self.batches = []
        self.records: list[Record] = []
        for name in subject.names(".log"):
            data = bytes(subject.bytes_of(f"{FOLDER}/{name}"))
            for position, header in headers_in(data):
                self.batches.append((f"{FOLDER}/{name}", position, header))
                rows = decode_batch(data[position : position + header.size], bytes_max=BYTES_MAX)
                self.records += [row for row in rows if self.start <= row.offset < self.end]

    def batch_for(self, offset: int) -> tuple[int, int] | None:
        """Base offset and size of the batch that a read at this offset must begin with."""
        if offset >= self.end:
            return None
        found = next((h for _, _, h in self.batches if h.last_offset >= offset), None)
        return None if found is None else (found.base_offset, found.size)

    def first_at(self, time: int) -> tuple[int, int] | None:
        found = next((row for row in self.records if row.timestamp_ms >= time), None)
        return None if found is None else (found.timestamp_ms, found.offset)

    def newest(self) -> tuple[int, int] | None:
        found = max(self.records, key=lambda row: (row.timestamp_ms, -row.offset), default=None)
        return None if found is None else (found.timestamp_ms, found.offset)


def answers_like_a_scan(subject: Subject) -> None:
    partition, scan = subject.partition, LinearScan(subject)
    for offset in range(scan.start, scan.end + 1):
        assert _first_batch(subject, offset) == scan.batch_for(offset), f"offset {offset}"
    for time in sorted({near for row in scan.records for near in (row.timestamp_ms, row.timestamp_ms + 1)} | {-2, 99}):
        assert partition.offset_for_time(time) == scan.first_at(time), f"time {time}"
    assert partition.newest_timestamp() == scan.newest()
    assert subject.records() == scan.records


def _first_batch(subject: Subject, offset: int) -> tuple[int, int] | None:
    found = subject.partition.read(offset, bytes_max=1)
    if not found.slices:
        return None
    (piece,) = found.slices
    header = read_header(piece.file.read_at(piece.position, piece.length))
    assert piece.length == header.size, "one whole batch, though it is larger than what was asked for"
    return header.base_offset, header.size


def delete_indexes_and_kill(subject: Subject) -> None:
    subject.delete(".index")
    subject.delete(".timeindex")
    subject.kill()


def checkpoint_and_kill(subject: Subject) -> None:
    subject.partition.checkpoint()
    subject.put(b"after the checkpoint")
    subject.kill()


def roll_and_kill(subject: Subject) -> None:
    subject.partition.roll()
    subject.kill()


def delete_half(subject: Subject) -> None:
    partition = subject.partition
    partition.delete_records((partition.start_offset + partition.high_watermark) // 2)


def lose_the_checkpoint_and_kill(subject: Subject) -> None:
    subject.lose("checkpoint")
    subject.kill()


EVENTS: dict[str, Callable[[Subject], None]] = {
    "nothing happened": lambda subject: None,
    "a clean restart": Subject.restart,
    "kill -9": Subject.kill,
    "kill -9 after a checkpoint": checkpoint_and_kill,
    "kill -9 right after a roll": roll_and_kill,
    "the checkpoint is lost": lose_the_checkpoint_and_kill,
    "the indexes were deleted": delete_indexes_and_kill,
    "half of it was deleted": delete_half,
}


@pytest.mark.parametrize("event", EVENTS)
@settings(max_examples=30)
@given(history=histories())
def test_every_look_up_equals_a_scan_when(event: str, history: tuple[dict[str, str], list[Batch]]) -> None:
    configs, batches = history
    subject = Subject(configs)
    stored(subject, batches)
    EVENTS[event](subject)
    answers_like_a_scan(subject)


@settings(max_examples=60)
@given(history=histories(), seed=st.integers(0, 2**32))
def test_every_look_up_equals_a_scan_after_a_power_cut(history: tuple[dict[str, str], list[Batch]], seed: int) -> None:
    configs, batches = history
    subject = Subject(configs, storage=SimulatedDisk(ManualClock(), seed=seed))
    stored(subject, batches)
    subject.power_cut(seed)
    answers_like_a_scan(subject)
    stored(subject, batches[:5])
    answers_like_a_scan(subject)
    subject.kill()
    subject.power_cut(seed)
    answers_like_a_scan(subject)


@settings(max_examples=40)
@given(history=histories(), keys=st.integers(1, 8), restart=st.sampled_from(["none", "kill", "indexes"]))
def test_every_look_up_equals_a_scan_after_compaction(
    history: tuple[dict[str, str], list[Batch]], keys: int, restart: str
) -> None:
    configs, batches = history
    subject = Subject(configs | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    stored(subject, batches, keys)
    subject.log.maintain()
    answers_like_a_scan(subject)
    stored(subject, batches[:7], keys)
    {"none": EVENTS["nothing happened"], "kill": Subject.kill, "indexes": delete_indexes_and_kill}[restart](subject)
    answers_like_a_scan(subject)
    subject.partition.roll()
    subject.log.maintain()
    answers_like_a_scan(subject)


@settings(max_examples=40)
@example(history=({"segment.bytes": "100"}, [([5], 0, "none", True), ([9], 0, "none", True)]), visible=1)
@given(history=histories(), visible=st.integers(0, 40))
def test_look_ups_do_not_see_what_is_not_visible_yet(history: tuple[dict[str, str], list[Batch]], visible: int) -> None:
    configs, batches = history
    subject = Subject(configs)
    stored(subject, [(*b[:3], True) for b in batches[:visible]])
    for times, size, codec, _ in batches[visible:]:
        rows = [Record(b"v" * size, timestamp_ms=time) for time in times]
        subject.partition.append(encode_batch(rows, compression=codec), durable=True)
    answers_like_a_scan(subject)


def test_thousands_of_offsets_and_times_of_a_larger_log_equal_a_scan() -> None:
    dice = Random(7)
    subject = Subject({"segment.bytes": "20000", "index.interval.bytes": "300"})
    for number in range(700):
        rows = [
            Record(dice.randbytes(dice.randrange(60)), timestamp_ms=NOW - 5_000 + number * 5 + dice.randrange(-40, 40))
            for _ in range(dice.randint(1, 6))
        ]
        subject.partition.append(encode_batch(rows), durable=False)
    subject.kill()
    assert subject.partition.end_offset > 2_000
    assert len(subject.partition.segments) > 5
    answers_like_a_scan(subject)


TIMES = (10, 11, 5, 30, 20, 40, 59, 50, 51, 57, 52, 53, 54, 55)


def checkpointed() -> Subject:
    """One active segment whose newest record lies far before its end, killed after a checkpoint."""
    subject = Subject({"index.interval.bytes": "100"})
    stored(subject, [([time], 30, "none", True) for time in TIMES])
    subject.partition.checkpoint()
    stored(subject, [([56], 20, "none", True)])
    return subject


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_lost_its_end_is_named_and_costs_no_answer(suffix: str) -> None:
    whole = checkpointed()
    for cut in range(whole.storage.size(whole.path(0, suffix))):
        subject = checkpointed()
        subject.truncate(subject.path(0, suffix), cut)
        assert any(suffix in problem for problem in check_log(subject.storage).partitions[0].index_errors), cut
        subject.kill()
        answers_like_a_scan(subject)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_changed_byte_of_an_index_is_named_and_costs_no_answer(suffix: str) -> None:
    whole = checkpointed()
    for position in range(whole.storage.size(whole.path(0, suffix))):
        for mask in (0x01, 0x04, 0x80):
            subject = checkpointed()
            path = subject.path(0, suffix)
            subject.overwrite(path, position, bytes([subject.bytes_of(path)[position] ^ mask]))
            assert any(suffix in problem for problem in check_log(subject.storage).partitions[0].index_errors), position
            subject.kill()
            answers_like_a_scan(subject)

"""Opening after a stop that was not clean: acknowledged records stay, others may go, and none is delivered twice."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import DamagedRange
from headwater.log.batch_format import assign_offsets
from headwater.log.checkpoint import read_checkpoint
from headwater.log.manifest import Manifest
from headwater.log.quarantine import read_quarantine
from headwater.log.segment import Damage
from headwater.log.segment_swap import begin_swap, finish_swap
from headwater.log.storage.storage import read_whole
from headwater.testing import Fault, ManualClock, MemoryStorage, SimulatedDisk
from tests.log.subjects import FOLDER, Subject, batch, headers_in

TINY_SEGMENTS = {"segment.bytes": "400", "index.interval.bytes": "100"}


def ten_segments() -> Subject:
    """Twenty records, two a segment."""
    subject = Subject(TINY_SEGMENTS)
    for number in range(20):
        subject.put(b"%02d" % number + b"." * 110)
    assert [segment.base_offset for segment in subject.partition.segments] == list(range(0, 20, 2))
    return subject


def flip(subject: Subject, path: str, position: int) -> None:
    subject.overwrite(path, position, bytes([subject.bytes_of(path)[position] ^ 0x08]))


def append_to_file(subject: Subject, path: str, data: bytes) -> None:
    subject.overwrite(path, subject.storage.size(path), data)


# The end that was never acknowledged


def test_a_torn_end_is_cut_off_wherever_it_was_torn() -> None:
    whole = Subject()
    whole.fill(5)
    promised = whole.storage.size(whole.path(0))
    whole.partition.append(batch(b"not promised"), durable=True)
    size = whole.storage.size(whole.path(0))
    for cut in range(promised, size):
        subject = Subject()
        subject.fill(5)
        subject.partition.append(batch(b"not promised"), durable=True)
        subject.truncate(subject.path(0), cut)
        subject.kill()
        assert subject.offsets() == [0, 1, 2, 3, 4]
        assert subject.storage.size(subject.path(0)) == promised
        assert len(subject.partition.recovery_report) == (cut > promised)
        assert subject.put(b"next").base_offset == 5
    whole.kill()
    assert whole.offsets() == [0, 1, 2, 3, 4, 5], "a whole batch may stay, promised or not"


@pytest.mark.parametrize("garbage", [bytes(1), bytes(5000), b"\xff" * 100, b"\x02" * 700, Random(1).randbytes(3000)])
def test_zeros_and_garbage_at_the_end_are_cut_off(garbage: bytes) -> None:
    subject = Subject()
    subject.fill(5)
    append_to_file(subject, subject.path(0), garbage)
    subject.kill()
    assert subject.offsets() == [0, 1, 2, 3, 4]
    (sentence,) = subject.partition.recovery_report
    assert sentence == f"{len(garbage)} bytes after offset 5, never acknowledged, were truncated"
    assert subject.put(b"next").base_offset == 5
    subject.kill()
    assert subject.offsets() == [0, 1, 2, 3, 4, 5]
    assert subject.partition.recovery_report == []


def test_whole_batches_after_a_torn_one_are_cut_off_but_kept_beside_the_log() -> None:
    subject = Subject()
    subject.fill(3)
    promised = subject.storage.size(subject.path(0))
    for value in (b"torn", b"whole"):
        subject.partition.append(batch(value), durable=True)
    tail = bytes(subject.bytes_of(subject.path(0))[promised:])
    flip(subject, subject.path(0), promised + 70)
    subject.kill()
    assert subject.offsets() == [0, 1, 2]
    (cut,) = subject.names(".cut")
    kept = subject.bytes_of(f"{FOLDER}/{cut}")
    assert len(kept) == len(tail)
    assert kept.endswith(tail[-60:])


def test_a_batch_at_the_wrong_offset_is_not_taken_for_the_next_one() -> None:
    subject = Subject()
    subject.fill(3)
    for offset in (2, 5):
        stale = batch(b"from an earlier life of this sector")
        assign_offsets(stale, base_offset=offset, leader_epoch=0)
        append_to_file(subject, subject.path(0), bytes(stale))
        subject.kill()
        assert subject.partition.end_offset == 3


def test_segments_after_a_torn_one_are_set_aside() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(2)
    for number in range(8):
        subject.partition.append(batch(b"%d" % number + b"." * 110), durable=True)
    bases = [segment.base_offset for segment in subject.partition.segments]
    torn = subject.path(2)
    subject.truncate(torn, subject.storage.size(torn) - 1)
    subject.kill()
    assert subject.partition.end_offset == bases[3] - 1
    assert subject.offsets() == list(range(bases[3] - 1))
    assert subject.names(".log.cut") == [f"{base:020d}.log.cut" for base in bases[3:]]
    assert subject.put(b"next").base_offset == bases[3] - 1
    subject.kill()
    assert subject.partition.recovery_report == []


def test_a_segment_that_never_reached_the_disk_ends_the_log_there() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(2)
    for number in range(6):
        subject.partition.append(batch(b"%d" % number + b"." * 110), durable=True)
    short = subject.path(1)
    subject.truncate(short, headers_in(subject.bytes_of(short))[1][0])
    subject.kill()
    base = subject.partition.segments[1].base_offset
    assert subject.offsets() == list(range(base + 1))


def test_an_empty_segment_begun_last_is_begun_again() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(3)
    subject.partition.roll()
    subject.kill()
    assert subject.offsets() == [0, 1, 2]
    assert subject.put(b"next").base_offset == 3


# Damage to what was promised


def test_a_damaged_batch_in_segment_three_of_ten_hides_nothing_else() -> None:
    subject = ten_segments()
    before = subject.records()
    flip(subject, subject.path(2), 100)
    subject.lose("checkpoint")  # or it would trust what it had read before
    subject.kill()
    assert subject.partition.recovery_report == ["offsets 4 to 4 are damaged and quarantined"]
    assert subject.records() == [record for record in before if record.offset != 4]
    assert [damage[2:] for damage in read_quarantine(subject.storage, FOLDER)[4]] == [(4, 5)]
    assert len(subject.names(".log")) == 10


@pytest.mark.parametrize("number", range(20))
def test_wherever_the_damage_is_all_else_stays_and_appending_continues(number: int) -> None:
    subject = ten_segments()
    path = subject.path(number // 2)
    flip(subject, path, headers_in(subject.bytes_of(path))[number % 2][0] + 80)
    subject.delete("index")
    subject.kill()
    others = [offset for offset in range(20) if offset != number]
    assert subject.offsets() == others
    for _ in range(3):
        subject.put(b"more")
    assert subject.offsets() == [*others, 20, 21, 22]
    subject.restart()
    assert subject.offsets() == [*others, 20, 21, 22]
    subject.kill()
    assert subject.offsets() == [*others, 20, 21, 22]
    assert len(read_quarantine(subject.storage, FOLDER)) == 1


def test_known_damage_stays_known_and_is_reported_once() -> None:
    subject = ten_segments()
    flip(subject, subject.path(9), 90)
    subject.kill()
    assert len(subject.partition.recovery_report) == 1
    damage = read_quarantine(subject.storage, FOLDER)
    for again in (Subject.kill, Subject.restart, Subject.kill):
        again(subject)
        assert subject.partition.recovery_report == []
        assert read_quarantine(subject.storage, FOLDER) == damage
        assert subject.offsets() == [*range(18), 19]


def test_several_damaged_ranges_in_one_segment_are_each_skipped() -> None:
    subject = Subject({"index.interval.bytes": "100"})
    subject.fill(12)
    path = subject.path(0)
    positions = [position for position, _ in headers_in(subject.bytes_of(path))]
    for number in (0, 3, 4, 9, 11):
        flip(subject, path, positions[number] + 75)
    subject.lose("checkpoint")
    subject.kill()
    assert subject.offsets() == [1, 2, 5, 6, 7, 8, 10]
    assert [damage[2:] for damage in read_quarantine(subject.storage, FOLDER)[0]] == [(0, 1), (3, 5), (9, 10), (11, 12)]
    assert subject.put(b"next").base_offset == 12
    subject.kill()
    assert subject.offsets() == [1, 2, 5, 6, 7, 8, 10, 12]


def test_zeroed_sectors_in_the_middle_hide_only_what_lay_there() -> None:
    subject = Subject()
    subject.fill(40)
    path = subject.path(0)
    subject.overwrite(path, 1024, bytes(512))
    hurt = [h.base_offset for p, h in headers_in(read_whole(subject.storage, path)[:1024])][-1]
    subject.lose("checkpoint")
    subject.kill()
    missing = sorted(set(range(40)) - set(subject.offsets()))
    assert missing[0] in (hurt, hurt + 1)
    assert 3 <= len(missing) <= 5
    assert missing == list(range(missing[0], missing[-1] + 1))


def test_damage_is_reported_to_the_reader_who_meets_it_first() -> None:
    subject = ten_segments()
    subject.restart()
    flip(subject, subject.path(2), 100)
    with pytest.raises(DamagedRange) as error:
        subject.records()
    assert (error.value.first, error.value.end) == (4, 5)
    assert subject.offsets() == [offset for offset in range(20) if offset != 4]


# Lost files


@pytest.mark.parametrize("what", ["missing", "empty", "cut", "flipped", "nonsense"])
@pytest.mark.parametrize("name", ["checkpoint", "durable"])
def test_without_its_notes_the_log_is_read_again_and_is_the_same(name: str, what: str) -> None:
    subject = ten_segments()
    subject.put(b"idempotent", producer_id=5, producer_epoch=0, base_sequence=0)
    subject.partition.checkpoint()
    subject.put(b"idempotent", producer_id=5, producer_epoch=0, base_sequence=1)
    before = subject.records()
    path = f"{FOLDER}/{name}"
    match what:
        case "missing":
            subject.storage.delete(path)
        case "empty":
            subject.truncate(path, 0)
        case "cut":
            subject.truncate(path, subject.storage.size(path) // 2)
        case "flipped":
            flip(subject, path, 3)
        case "nonsense":
            subject.overwrite(path, 0, b"00000000\n[]\n")
    subject.kill()
    assert subject.records() == before
    assert [f"{FOLDER}/checkpoint" in said for said in subject.partition.recovery_report] == [True] * (
        name != "durable"
    )
    assert subject.put(b"idempotent", producer_id=5, producer_epoch=0, base_sequence=1).duplicate
    assert subject.put(b"next").base_offset == 22


def test_an_offset_is_never_assigned_twice_even_if_the_records_are_lost() -> None:
    subject = ten_segments()
    subject.storage.delete(subject.path(9))
    subject.kill()
    assert subject.partition.recovery_report == ["offsets 18 to 19 were stored and are missing"]
    assert subject.put(b"next").base_offset == 20
    assert subject.offsets() == [*range(18), 20]
    subject.kill()
    assert subject.offsets() == [*range(18), 20]
    subject.put(b"more")
    subject.kill()
    assert subject.offsets() == [*range(18), 20, 21]


def test_an_acknowledged_end_that_is_missing_is_reported_and_not_reused() -> None:
    subject = Subject()
    subject.fill(6)
    subject.truncate(subject.path(0), headers_in(subject.bytes_of(subject.path(0)))[4][0])
    subject.kill()
    assert subject.partition.recovery_report == ["offsets 4 to 5 were stored and are missing"]
    assert subject.put(b"next").base_offset == 6
    for _ in range(2):
        subject.kill()
        assert subject.offsets() == [0, 1, 2, 3, 6]


def test_all_segments_deleted_leaves_an_empty_log_that_continues_counting() -> None:
    subject = ten_segments()
    subject.delete(".log")
    subject.kill()
    assert subject.records() == []
    assert subject.put(b"next").base_offset == 20
    subject.kill()
    assert subject.offsets() == [20]


def test_a_missing_segment_in_the_middle_hides_only_its_records() -> None:
    subject = ten_segments()
    subject.storage.delete(subject.path(4))
    subject.kill()
    assert subject.offsets() == [offset for offset in range(20) if offset not in (8, 9)]


def test_leftovers_of_unfinished_work_are_cleared_away() -> None:
    subject = ten_segments()
    for name in ("checkpoint.new", "00000000000000000004.log.cleaned", "00000000000000000099.index"):
        subject.storage.open(f"{FOLDER}/{name}", create=True).write_at(0, [b"half"])
    subject.kill()
    assert [name for name in subject.names() if name.endswith((".new", ".cleaned")) or "99" in name] == []
    assert len(subject.records()) == 20


def test_an_unreadable_quarantine_list_is_taken_for_an_empty_one() -> None:
    storage = MemoryStorage()
    storage.make_directory(FOLDER)
    assert read_quarantine(storage, FOLDER) == {}
    for content in (b"", b"[1]", b"{", b'{"x": [[1]]}', b'{"0": 5}'):
        storage.open(f"{FOLDER}/quarantine.json", create=True).write_at(0, [content])
        assert read_quarantine(storage, FOLDER) == {}
        storage.delete(f"{FOLDER}/quarantine.json")
    storage.open(f"{FOLDER}/quarantine.json", create=True).write_at(0, [json.dumps({"0": [[1, 2, 3, 4]]}).encode()])
    assert read_quarantine(storage, FOLDER) == {0: [Damage(1, 2, 3, 4)]}


# How much is read


def test_a_clean_stop_leaves_nothing_to_read_and_says_so() -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject(TINY_SEGMENTS, storage=disk)
    subject.fill(200)
    subject.log.close()
    assert disk.exists("clean-stop")
    read: list[int] = []
    disk.on_call = lambda call: (
        read.append(call.length) if call.operation == "read" and call.path.endswith(".log") else None
    )
    subject.open()
    assert subject.log.clean_start
    assert not disk.exists("clean-stop")
    assert len(read) <= 3
    subject.kill()
    assert not subject.log.clean_start


def test_after_a_kill_only_what_is_after_the_checkpoint_is_read() -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject({"segment.bytes": "2000", "index.interval.bytes": "200"}, storage=disk)
    subject.fill(100)
    subject.partition.checkpoint()
    checkpointed = len(subject.partition.segments)
    subject.fill(20)
    paths: list[str] = []
    disk = disk.kill()
    disk.on_call = lambda call: (
        paths.append(call.path) if call.operation == "read" and call.path.endswith(".log") else None
    )
    subject.storage = disk
    subject.open()
    assert set(paths) == {subject.path(number) for number in range(checkpointed - 1, len(subject.names(".log")))}
    assert len(subject.records()) == 120


def test_a_start_after_a_start_reads_the_end_no_more() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(30)
    subject.kill()
    noted = read_checkpoint(subject.storage, FOLDER)
    assert noted is not None
    assert noted.recovery_offset == 30


# Crashes, again and again


def crash_round(subject: Subject, dice: Random, promised: dict[int, bytes], seen: dict[int, bytes]) -> None:
    """Write, some of it promised, see it, and lose the power at any call to the disk."""
    disk = subject.storage
    assert isinstance(disk, SimulatedDisk)
    crashed: list[SimulatedDisk] = []
    moment = disk.calls + dice.randint(1, 120)
    acknowledged = dict(promised)

    def maybe_crash(call: object) -> None:
        if not crashed and disk.calls >= moment:
            crashed.append(disk.crash(Random(dice.random())))
            promised.clear()
            promised.update(acknowledged)

    disk.on_call = maybe_crash
    for _ in range(dice.randint(1, 25)):
        value = dice.randbytes(dice.randrange(200))
        appended = subject.partition.append(batch(value), durable=True)
        if dice.random() < 0.7:
            subject.partition.make_durable(appended.last_offset + 1)
            acknowledged |= {record.offset: record.value or b"" for record in subject.records(appended.last_offset)}
            acknowledged[appended.last_offset] = value
        if dice.random() < 0.1:
            subject.partition.checkpoint()
    disk.on_call = None
    if not crashed:
        crashed.append(disk.crash(Random(dice.random())))
        promised.update(acknowledged)
    subject.storage = crashed[0]
    subject.open()
    found = {record.offset: record.value for record in subject.records()}
    assert {offset: value for offset, value in promised.items() if found.get(offset) != value} == {}
    assert sorted(found) == list(range(len(found))), "no gaps"
    assert {offset: value for offset, value in seen.items() if found.get(offset, value) != value} == {}
    promised.update({offset: value or b"" for offset, value in found.items()})  # it is synced, so it stays
    seen.update(promised)


@pytest.mark.parametrize("seed", range(12))
def test_power_cut_after_power_cut_loses_nothing_that_was_promised(seed: int) -> None:
    dice = Random(seed)
    configs = {"segment.bytes": str(dice.choice((300, 700, 5000))), "index.interval.bytes": "150"}
    subject = Subject(configs, storage=SimulatedDisk(ManualClock(), seed=seed))
    promised: dict[int, bytes] = {}
    seen: dict[int, bytes] = {}
    for _ in range(15):
        crash_round(subject, dice, promised, seen)


def test_a_crash_at_any_moment_of_the_recovery_itself_loses_nothing() -> None:
    torn = SimulatedDisk(ManualClock(), seed=3)
    subject = Subject(TINY_SEGMENTS, storage=torn)
    subject.fill(9)
    subject.partition.checkpoint()
    subject.fill(5)
    for _ in range(5):
        subject.partition.append(batch(b"x" * 150), durable=True)
    promised = {record.offset: record.value for record in subject.records()}
    assert len(promised) == 14
    for seed in range(4):
        cut = torn.crash(Random(seed))
        images: list[SimulatedDisk] = []
        dice = Random(seed)
        cut.on_call = lambda call, cut=cut, images=images, dice=dice: (
            images.append(cut.crash(Random(dice.random()))) if call.changing else None
        )
        Subject(storage=cut)
        assert len(images) > 5
        for image in images:
            again = Subject(storage=image)
            found = {record.offset: record.value for record in again.records()}
            assert {offset for offset, value in promised.items() if found.get(offset) != value} == set()
            assert again.put(b"next").base_offset == len(found)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), nth=st.integers(1, 40))
def test_an_opening_that_fails_half_way_can_be_tried_again(seed: int, nth: int) -> None:
    disk = SimulatedDisk(ManualClock(), seed=seed)
    subject = Subject(TINY_SEGMENTS, storage=disk)
    subject.fill(10)
    for _ in range(3):
        subject.partition.append(batch(b"x" * 150), durable=True)
    promised = subject.values()
    crashed = disk.crash(Random(seed))
    crashed.fail(Fault(("create", "write", "truncate", "sync", "sync_directory", "rename", "delete"), nth=nth))
    subject.storage = crashed
    try:
        subject.open()
    except OSError:
        pass
    crashed.heal()
    subject.kill()
    assert subject.values()[:10] == promised


# Replacing segments


def test_a_promised_swap_is_finished_from_wherever_it_stopped() -> None:
    disk = SimulatedDisk(ManualClock(), seed=1)
    disk.make_directory(FOLDER)
    names = ("00000000000000000000", "00000000000000000005")
    for name in names:
        for suffix in (".log", ".index", ".timeindex"):
            disk.open(f"{FOLDER}/{name}{suffix}", create=True).write_at(0, [b"old"])
    for suffix in (".log", ".index", ".timeindex"):
        file = disk.open(f"{FOLDER}/{names[0]}{suffix}.cleaned", create=True)
        file.write_at(0, [b"new"])
        file.sync()
    disk.sync_directory("")
    disk.sync_directory(FOLDER)
    begin_swap(disk, FOLDER, replaced=[0, 5], replacement=0)
    images = [disk.crash(Random(0))]
    disk.on_call = lambda call: images.append(disk.crash(Random(call.number))) if call.changing else None
    finish_swap(disk, FOLDER, Manifest(disk, FOLDER))
    disk.on_call = None
    for image in [*images, disk]:
        finish_swap(image, FOLDER, Manifest(image, FOLDER))
        finish_swap(image, FOLDER, Manifest(image, FOLDER))
        assert image.list(FOLDER) == [f"{names[0]}{suffix}" for suffix in (".index", ".log", ".timeindex")]
        assert {read_whole(image, f"{FOLDER}/{name}") for name in image.list(FOLDER)} == {b"new"}

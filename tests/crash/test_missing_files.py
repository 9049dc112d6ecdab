"""Files that are deleted, cut, emptied or exchanged under a log: noticed, named, and no trouble of other topics."""

from collections.abc import Callable

import pytest

from headwater.clock import ManualClock
from headwater.errors import PartitionOffline, TopicOffline, UnavailableError
from headwater.log import Log
from headwater.log.check import Report, check_log
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.storage import read_small_file, write_small_file
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.log.storage.storage import read_whole
from headwater.record import Record, TopicPartition
from headwater.settings import LogSettings
from headwater.small_file import copy_path
from tests.log.subjects import headers_in

SETTINGS = LogSettings(topic_defaults=(("segment.bytes", "1000"),))
COUNT = 60
DAMAGE = ("deleted", "empty", "cut", "flipped", "exchanged")


class Victim:
    """Two topics of many segments on one disk: one that is damaged, and one that must not notice."""

    def __init__(self, *, cleanly: bool) -> None:
        self.disk = SimulatedDisk(ManualClock())
        log = self.open()
        for topic in ("orders", "others"):
            log.create_topic(topic)
            for number in range(COUNT):
                log.append(topic, Record(b"%d" % number * 20, key=b"k"))
            log.partition(topic, 0).checkpoint()
            log.append(topic, Record(b"after the checkpoint"))
        self.close(log, cleanly=cleanly)

    def open(self) -> Log:
        return Log.open("simulated", storage=self.disk, clock=self.disk.clock, settings=SETTINGS)

    def close(self, log: Log, *, cleanly: bool) -> None:
        if cleanly:
            log.close()
        self.disk = self.disk.kill()

    def logs(self) -> list[str]:
        return [path for path in self.disk.files() if path.startswith("orders-0/") and path.endswith(".log")]

    def check(self) -> Report:
        return check_log(self.disk)

    def overwrite(self, path: str, data: bytes) -> None:
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.write_at(0, [data])
        file.sync()


@pytest.fixture(params=[True, False], ids=["after a clean stop", "after kill -9"])
def victim(request: pytest.FixtureRequest) -> Victim:
    return Victim(cleanly=request.param)


def offsets(log: Log, topic: str) -> list[int]:
    return [record.offset for record in log.read(topic)]


def offsets_in(disk: MemoryStorage, path: str) -> set[int]:
    found = headers_in(read_whole(disk, path))
    return {offset for _, header in found for offset in range(header.base_offset, header.next_offset)}


def test_a_sound_log_is_not_complained_about(victim: Victim) -> None:
    assert victim.check().sound
    log = victim.open()
    assert log.partition("orders", 0).unreadable == []
    assert log.problems == []


@pytest.mark.parametrize("number", [0, 3, -2])
def test_a_deleted_sealed_segment_is_named_and_all_else_is_served(victim: Victim, number: int) -> None:
    path = victim.logs()[number]
    lost = offsets_in(victim.disk, path)
    victim.disk.delete(path)
    report = victim.check()
    assert not report.sound
    assert path in str(report.partitions[0].gaps[0])
    for start in range(2):
        log = victim.open()
        assert any(path in said for said in log.partition("orders", 0).recovery_report)
        assert [(gap.first_offset, gap.end_offset) for gap in log.partition("orders", 0).unreadable] == [
            (min(lost), max(lost) + 1)
        ]
        assert offsets(log, "orders") == [offset for offset in range(COUNT + 1 + start) if offset not in lost]
        assert offsets(log, "others") == list(range(COUNT + 1))
        assert log.partition("orders", 0).start_offset == 0
        assert log.append("orders", Record(b"next")).offset == COUNT + 1 + start
        victim.disk = victim.disk.kill()


@pytest.mark.parametrize("cleanly", [False, True])
@pytest.mark.parametrize("folder_left", [False, True], ids=["the folder is gone", "the folder is empty"])
def test_a_partition_of_which_nothing_is_left_takes_its_topic_offline_and_gives_out_no_offset_again(
    victim: Victim, folder_left: bool, cleanly: bool
) -> None:
    log = victim.open()
    log.maintain()
    victim.close(log, cleanly=cleanly)
    for path in [path for path in victim.disk.files() if path.startswith("orders-0/")]:
        victim.disk.delete(path)
    if not folder_left:
        victim.disk.remove_directory("orders-0")
    for _ in range(2):
        assert any("orders-0" in line for line in victim.check().problems)
        log = victim.open()
        assert "orders-0" in log.offline_topics()["orders"]
        with pytest.raises(TopicOffline, match="orders-0"):
            log.append("orders", Record(b"at offset 0 again"))
        assert offsets(log, "others") == list(range(COUNT + 1))
        victim.close(log, cleanly=True)


def test_topics_of_an_earlier_release_note_their_partitions_at_the_next_start(victim: Victim) -> None:
    said = dict(read_small_file(victim.disk, "topics/orders.json").content)
    said.pop("made", None)
    write_small_file(victim.disk, "topics/orders.json", said)
    victim.close(victim.open(), cleanly=True)
    assert read_small_file(victim.disk, "topics/orders.json").content["made"] == 1


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("torn", [0, 7])
def test_a_sealed_segment_that_was_cut_is_named_and_all_else_is_served(victim: Victim, kept: int, torn: int) -> None:
    path = victim.logs()[2]
    batches = headers_in(read_whole(victim.disk, path))
    lost = {header.base_offset for _, header in batches[kept:]}
    victim.overwrite(path, read_whole(victim.disk, path)[: batches[kept][0] + torn])
    (found, _) = victim.check().partitions
    assert {offset for one in found.damage for offset in range(one.first_offset, one.end_offset)} == lost
    for _ in range(2):
        log = victim.open()
        gaps = log.partition("orders", 0).unreadable
        assert {offset for gap in gaps for offset in range(gap.first_offset, gap.end_offset)} == lost
        assert offsets(log, "orders") == [offset for offset in range(COUNT + 1) if offset not in lost]
        assert offsets(log, "others") == list(range(COUNT + 1))
        victim.close(log, cleanly=True)
    assert victim.check().partitions[0].quarantined != []


def test_a_segment_that_comes_back_is_read_again(victim: Victim) -> None:
    path = victim.logs()[1]
    whole = read_whole(victim.disk, path)
    victim.disk.delete(path)
    victim.close(victim.open(), cleanly=True)
    victim.overwrite(path, whole)
    log = victim.open()
    assert log.partition("orders", 0).unreadable == []
    assert offsets(log, "orders") == list(range(COUNT + 1))


def test_a_gap_is_forgotten_once_its_offsets_are_given_up(victim: Victim) -> None:
    path = victim.logs()[0]
    victim.disk.delete(path)
    log = victim.open()
    log.partition("orders", 0).delete_records(40)
    assert log.partition("orders", 0).unreadable == []
    victim.close(log, cleanly=True)
    assert victim.check().sound


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["deleted", "cut"])
def test_a_lost_or_cut_index_is_named_and_made_again(victim: Victim, suffix: str, damage: str) -> None:
    path = victim.logs()[1].removesuffix(".log") + suffix
    whole = read_whole(victim.disk, path)
    if damage == "deleted":
        victim.disk.delete(path)
    else:
        victim.overwrite(path, whole[: len(whole) // 2 // 4 * 4])
    victim.check()
    log = victim.open()
    named = [said for said in log.partition("orders", 0).recovery_report if path in said]
    assert bool(named) == (damage == "deleted" or bool(whole))
    assert offsets(log, "orders") == list(range(COUNT + 1))
    assert read_whole(victim.disk, path) == whole


def test_a_running_log_notices_by_itself(victim: Victim) -> None:
    log = victim.open()
    deleted, cut = victim.logs()[1], victim.logs()[3]
    lost = offsets_in(victim.disk, deleted) | offsets_in(victim.disk, cut)
    log.maintain()
    log.storage.delete(deleted)
    log.storage.open(cut).truncate(0)
    log.maintain()
    gaps = log.partition("orders", 0).unreadable
    assert {offset for gap in gaps for offset in range(gap.first_offset, gap.end_offset)} == lost
    assert offsets(log, "orders") == [offset for offset in range(COUNT + 1) if offset not in lost]
    victim.close(log, cleanly=True)
    assert offsets(victim.open(), "orders") == [offset for offset in range(COUNT + 1) if offset not in lost]


@pytest.mark.parametrize("cut_to", [None, 0, 20], ids=["gone", "emptied", "cut"])
def test_a_running_log_acknowledges_nothing_more_if_the_file_it_writes_to_is_gone(
    victim: Victim, cut_to: int | None
) -> None:
    log = victim.open()
    log.append("orders", Record(b"there is something to be cut"))
    log.maintain()
    assert not log.partition("orders", 0).offline
    active = log.partition("orders", 0).segments[-1].log_path
    if cut_to is None:
        log.storage.delete(active)
    else:
        log.storage.open(active).truncate(cut_to)
    log.maintain()
    assert active in log.partition("orders", 0).why_offline
    with pytest.raises(PartitionOffline, match=active):
        log.append("orders", Record(b"would be lost"))
    log.append("others", Record(b"is not concerned"))
    victim.close(log, cleanly=True)
    again = victim.open()
    assert again.partition("orders", 0).unreadable != []
    assert again.append("orders", Record(b"next")).offset == COUNT + 2


def test_checksums_of_sealed_segments_find_what_no_batch_covers(victim: Victim) -> None:
    log = victim.open()
    log.maintain()
    victim.close(log, cleanly=True)
    assert victim.check().sound
    path = victim.logs()[2]
    data = bytearray(read_whole(victim.disk, path))
    data[13] ^= 1  # leader epoch of the first batch: its checksum does not cover it
    victim.overwrite(path, bytes(data))
    assert any(path in problem for problem in victim.check().partitions[0].problems)


NEEDED = ("topics/orders.json", "orders-0/archive.json", "orders-0/swap.json")
SMALL = ("identity.json", "topics/orders.json", "orders-0/checkpoint", "orders-0/manifest.json")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", ["file", "copy"])
@pytest.mark.parametrize("path", SMALL)
def test_damage_to_one_small_file_costs_nothing_and_is_named(
    victim: Victim, path: str, which: str, damage: str
) -> None:
    log = victim.open()
    cluster = log.cluster_id
    log.alter_topic("orders", {"retention.ms": "7777777"})
    older = read_whole(victim.disk, "orders-0/checkpoint")
    for _ in range(3):
        log.append("orders", Record(b"v" * 900))
        log.append("orders", Record(b"v" * 900))
        log.maintain()
    victim.close(log, cleanly=True)
    target = path if which == "file" else copy_path(path)
    _damage(victim, target, damage, older if path.endswith("checkpoint") else None)
    named = any(target in line for line in _lines(victim.check()))
    assert named or damage == "exchanged"
    log = victim.open()
    assert (log.cluster_id, log.offline_topics()) == (cluster, {})
    assert log.topic("orders").configs == {"retention.ms": "7777777"}
    assert offsets(log, "orders") == list(range(COUNT + 7))
    victim.close(log, cleanly=True)
    assert victim.check().sound, "the start has written both again"


def _damage(victim: Victim, path: str, damage: str, older: bytes | None) -> None:
    whole = read_whole(victim.disk, path)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 4
    damages: dict[str, Callable[[], None]] = {
        "deleted": lambda: victim.disk.delete(path),
        "empty": lambda: victim.overwrite(path, b""),
        "cut": lambda: victim.overwrite(path, whole[: len(whole) // 2]),
        "flipped": lambda: victim.overwrite(path, bytes(changed)),
        "exchanged": lambda: victim.overwrite(path, older or whole),
    }
    damages[damage]()


def _lines(report: Report) -> list[str]:
    return [*report.problems, *(line for partition in report.partitions for line in partition.problems)]


@pytest.mark.parametrize(
    ("path", "damage"),
    [
        ("topics/orders.json", "deleted"),
        *((path, damage) for path in NEEDED for damage in ("empty", "cut")),
    ],
)
def test_a_small_file_without_which_a_topic_cannot_be_read_takes_that_topic_offline(
    victim: Victim, path: str, damage: str
) -> None:
    for name in (path, copy_path(path)):
        if damage == "deleted":
            victim.disk.delete(name)
        else:
            victim.overwrite(name, b"" if damage == "empty" else b'{"repl')
    assert any(path in line for line in _lines(victim.check()))
    log = victim.open()
    assert path in log.offline_topics()["orders"]
    assert [topic.name for topic in log.topics()] == ["others"]
    for use in (lambda: offsets(log, "orders"), lambda: log.create_topic("orders")):
        with pytest.raises(TopicOffline, match=path):
            use()
    assert offsets(log, "others") == list(range(COUNT + 1))
    log.append("others", Record(b"more"))
    victim.close(log, cleanly=True)
    assert victim.logs(), "nothing of it was touched"


def test_committed_offsets_of_a_topic_that_is_offline_are_kept(victim: Victim) -> None:
    log = victim.open()
    log.group_offsets.commit("readers", {TopicPartition("orders", 0): CommittedOffset(7)})
    victim.close(log, cleanly=True)
    kept = {name: read_whole(victim.disk, name) for name in ("topics/orders.json", "topics/orders.copy")}
    for name in kept:
        victim.overwrite(name, b"")
    log = victim.open()
    assert log.group_offsets.fetch("readers")[TopicPartition("orders", 0)].offset == 7
    victim.close(log, cleanly=True)
    for name, content in kept.items():
        victim.overwrite(name, content)
    assert victim.open().group_offsets.fetch("readers")[TopicPartition("orders", 0)].offset == 7


def test_groups_of_a_log_whose_offsets_topic_is_offline_are_refused_and_not_reset(victim: Victim) -> None:
    log = victim.open()
    assert log.group_offsets.fetch("readers") == {}
    log.group_offsets.commit("readers", {TopicPartition("orders", 0): CommittedOffset(7)})
    victim.close(log, cleanly=True)
    for name in ("topics/__consumer_offsets.json", "topics/__consumer_offsets.copy"):
        victim.overwrite(name, b"")
    log = victim.open()
    with pytest.raises(UnavailableError, match=r"__consumer_offsets.* is offline"):
        log.group_offsets.fetch("readers")
    assert offsets(log, "orders") == list(range(COUNT + 1))

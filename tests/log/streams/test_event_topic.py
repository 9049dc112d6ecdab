"""The embedded log as a storage of events: on a disk, in memory, with several partitions, open to plain producers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.errors import ConditionalAppendsOnly, UsageError, WrongVersion
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.log.streams.condition import Append, Match, StreamWrite, Unless
from headwater.log.streams.event_topic import EventTopic
from headwater.record import Record, TopicPartition
from tests.contracts.event_storage import EventStorageContract, append, event, types


class TestOnADisk(EventStorageContract):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        with Log.open(tmp_path) as log:
            yield log

    @pytest.fixture
    def events(self, log: Log) -> EventTopic:
        return EventTopic.open(log, "seats")

    @pytest.fixture(params=["saved", "read again"])
    def again(
        self, request: pytest.FixtureRequest, tmp_path: Path, log: Log, events: EventTopic
    ) -> Iterator[Callable[[], EventTopic]]:
        reopened: list[Log] = []

        def restart() -> EventTopic:
            if request.param == "saved":
                events.close()
            log.close()
            reopened.append(Log.open(tmp_path))
            return EventTopic.open(reopened[0], "seats")

        yield restart
        for one in reopened:
            one.close()


class TestInMemory(EventStorageContract):
    @pytest.fixture
    def storage(self) -> MemoryStorage:
        return MemoryStorage()

    @pytest.fixture
    def log(self, storage: MemoryStorage) -> Log:
        return Log.open("data", storage=storage)

    @pytest.fixture
    def events(self, log: Log) -> EventTopic:
        return EventTopic.open(log, "seats")

    @pytest.fixture
    def again(self, storage: MemoryStorage, log: Log) -> Callable[[], EventTopic]:
        def restart() -> EventTopic:
            log.close()
            return EventTopic.open(Log.open("data", storage=storage), "seats")

        return restart


class TestTwiceOnOneLog(TestInMemory):
    """Two that do not know of each other: what one stores, the other counts before it checks."""

    @pytest.fixture
    def events(self, log: Log) -> EventTopic:
        return Alternating(log)


class Alternating(EventTopic):
    def __init__(self, log: Log) -> None:
        self._both = [EventTopic.open(log, "seats"), EventTopic.open(log, "seats")]
        self._turns = 0

    def __getattribute__(self, name: str) -> object:
        if name.startswith("_"):
            return super().__getattribute__(name)
        self._turns += 1
        return getattr(self._both[self._turns % 2], name)


@pytest.fixture
def log() -> Iterator[Log]:
    with Log.open("data", storage=MemoryStorage()) as log:
        yield log


def test_a_plain_producer_is_kept_off(log: Log) -> None:
    events = EventTopic.open(log, "seats")
    with pytest.raises(ConditionalAppendsOnly):
        log.append("seats", Record(b"{}", key=b"s"))
    assert append(events, "s", "A", expected="none").version("s") == 1


def test_events_of_a_plain_producer_count_where_it_may_write(log: Log) -> None:
    log.create_topic("seats")
    events = EventTopic.open(log, "seats")
    append(events, "s", "A", expected="none")
    log.append("seats", Record(b"{}", key=b"s"))
    with pytest.raises(WrongVersion):
        append(events, "s", "B", expected=1)
    append(events, "s", "B", expected=2)
    assert [(one.type, one.version) for one in events.read("s")] == [("A", 1), ("", 2), ("B", 3)]


def test_a_request_that_is_still_waiting_for_the_disk_is_found_when_it_is_there(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = EventTopic.open(log, "seats")
    with monkeypatch.context() as waiting:
        waiting.setattr(log.partition("seats", 0), "make_durable", lambda end: None)
        append(events, "s", "A", request="r")
    assert log.partition("seats", 0).high_watermark == 0
    found = events.find_request("s", "r")
    assert found is not None
    assert [one.type for one in found.events] == ["A"]


def test_a_refusal_rests_on_what_is_durable(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    events = EventTopic.open(log, "seats")
    with monkeypatch.context() as waiting:
        waiting.setattr(log.partition("seats", 0), "make_durable", lambda end: None)
        append(events, "s", "A")
    with pytest.raises(WrongVersion):
        append(events, "s", "B", expected="none")
    assert log.partition("seats", 0).durable_end_offset == 1


def test_a_compacted_topic_is_no_topic_of_events(log: Log) -> None:
    log.create_topic("seats", configs={"cleanup.policy": "compact"})
    with pytest.raises(UsageError, match="compacted"):
        EventTopic.open(log, "seats")


def test_a_condition_on_all_streams_needs_one_partition(log: Log) -> None:
    events = EventTopic.open(log, "seats", partitions=2)
    with pytest.raises(UsageError, match="one partition"):
        append(events, "s", "A", unless=Unless((Match(),)))


# Several partitions: "s" and "v" are in different ones


@pytest.fixture
def spread(log: Log) -> EventTopic:
    return EventTopic.open(log, "seats", partitions=2)


def test_streams_in_several_partitions_are_written_together(spread: EventTopic) -> None:
    writes = tuple(StreamWrite(f"s{number}", [event("A"), event("B")], "none") for number in range(8))
    stored = spread.append(Append(writes))
    assert {one.position.partition for one in stored.events} == {0, 1}
    assert [types(spread, f"s{number}") for number in range(8)] == [["A", "B"]] * 8
    assert [spread.version(f"s{number}") for number in range(8)] == [2] * 8


def test_nothing_is_seen_of_an_append_that_one_partition_refuses(spread: EventTopic) -> None:
    for number in range(8):
        append(spread, f"t{number}", "X")
        writes = tuple(StreamWrite(f"s{row}", [event("A")], "none") for row in range(8))
        with pytest.raises(WrongVersion):
            spread.append(Append((*writes, StreamWrite(f"t{number}", [event("A")], "none"))))
    assert [types(spread, f"s{number}") for number in range(8)] == [[]] * 8
    assert len(spread.page().events) == 8


def test_a_request_over_partitions_is_stored_once(spread: EventTopic) -> None:
    writes = tuple(StreamWrite(f"s{number}", [event("A")]) for number in range(8))
    first = spread.append(Append(writes, "r"))
    again = spread.append(Append(writes, "r"))
    assert again.repeated
    assert set(again.events) == set(first.events)
    assert len(spread.page().events) == 8


def test_an_open_transaction_holds_its_streams_and_no_others(log: Log, spread: EventTopic) -> None:
    place = spread._of("s").partition.topic_partition
    other = next(name for name in "abcdefgh" if spread._of(name) is spread._of("s"))
    with log.transaction("elsewhere") as transaction:
        end = log.partition(*place).end_offset
        transaction.append_at(place, [Record(b"{}", b"s", timestamp_ms=1)], at=end)
        assert append(spread, other, "A").version(other) == 1
        assert spread._of("s").undecided
        assert spread.page().events == (), "what is undecided comes before it"
    assert append(spread, "s", "B", expected=1).version("s") == 2
    assert [one.stream for one in spread.page().events] == ["s", other, "s"]


def test_events_of_an_aborted_transaction_do_not_count(log: Log, spread: EventTopic) -> None:
    place = TopicPartition("seats", spread._of("s").partition.number)

    class Stop(Exception):
        pass

    def begin_and_stop() -> None:
        with log.transaction("elsewhere") as transaction:
            transaction.append_at(place, [Record(b"{}", b"s", timestamp_ms=1)], at=log.partition(*place).end_offset)
            raise Stop

    with pytest.raises(Stop):
        begin_and_stop()
    assert append(spread, "s", "B", expected="none").version("s") == 1

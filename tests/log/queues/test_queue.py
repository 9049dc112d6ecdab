"""Queues in the process that owns the log, from the first message to the restart."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from headwater.clock import ManualClock
from headwater.errors import InvalidSetting, NotAcquired, UnknownTopic
from headwater.log.log import Log
from headwater.log.queues.consumer import Message, QueueConsumer
from headwater.log.queues.journal import TOPIC
from headwater.log.queues.queue_partition import Description
from headwater.log.queues.records import SLOTS
from headwater.log.storage import MemoryStorage, Storage
from headwater.record import Record
from headwater.settings import LogSettings

LOCK_MS = 30_000


def opened(storage: Storage, clock: ManualClock) -> Log:
    return Log.open("data", storage=storage, clock=clock, settings=LogSettings(queues_partitions=1))


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(storage: MemoryStorage, clock: ManualClock) -> Log:
    log = opened(storage, clock)
    log.create_topic("mail")
    return log


def write(log: Log, count: int, *, first: int = 0, **fields: object) -> None:
    log.append("mail", [Record(b"m%d" % number, **fields) for number in range(first, first + count)], partition=0)  # type: ignore[arg-type]


def values(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.value for message in messages]


def described(log: Log, queue: str = "mail") -> Description:
    return log.queues.get(queue).describe()[0]


def abort_in_transaction(log: Log) -> None:
    with suppress(ZeroDivisionError), log.transaction("t") as transaction:
        transaction.append("mail", Record(b"aborted"))
        1 / 0  # noqa: B018


def drained(queue: QueueConsumer) -> list[bytes | None]:
    found = []
    for message in queue.messages(timeout=0):
        found.append(message.value)
        message.ack()
    return found


def test_each_message_is_delivered_once_to_one_of_the_consumers(log: Log) -> None:
    write(log, 6)
    with log.queue("mail") as one, log.queue("mail") as other:
        assert values(one.take(4)) == [b"m0", b"m1", b"m2", b"m3"]
        assert values(other.take(4)) == [b"m4", b"m5"]


def test_what_a_consumer_held_is_given_to_others_when_it_goes_with_the_error_that_ended_it(log: Log) -> None:
    write(log, 1)
    with suppress(ZeroDivisionError), log.queue("mail", attempts=2) as queue:
        for _ in queue:
            1 / 0  # noqa: B018
    with log.queue("mail") as queue:
        again = queue.take()[0]
        assert again.deliveries == 2
        again.release(error="still no")
        assert queue.take() == []
    headers = dict(next(iter(log.read("mail.dead"))).headers)
    assert headers["headwater.queue.first.error"] == b"ZeroDivisionError: division by zero"
    assert headers["headwater.queue.last.error"] == b"still no"
    assert headers["headwater.queue.deliveries"] == b"2"


def test_a_message_whose_lock_ended_can_no_longer_be_acknowledged(log: Log, clock: ManualClock) -> None:
    write(log, 1)
    with log.queue("mail", lock="30 s") as slow, log.queue("mail") as other:
        message = slow.take()[0]
        clock.advance(LOCK_MS)
        assert values(other.take()) == [b"m0"]
        with pytest.raises(NotAcquired):
            message.ack()


def test_a_renewed_message_stays_with_its_consumer(log: Log, clock: ManualClock) -> None:
    write(log, 1)
    with log.queue("mail", lock="30 s") as queue:
        message = queue.take()[0]
        for _ in range(3):
            clock.advance(LOCK_MS - 1)
            message.renew()
        message.ack()
    assert described(log).totals.acknowledged == 1


def test_a_restart_gives_back_what_was_not_acknowledged_and_nothing_else(
    log: Log, storage: MemoryStorage, clock: ManualClock
) -> None:
    write(log, 5)
    queue = log.queue("mail")
    messages = queue.take(4)
    queue.ack([messages[0], messages[2]])
    log.close()
    again = opened(storage, clock)
    with again.queue("mail") as queue:
        found = queue.take(10)
        assert [(one.value, one.deliveries) for one in found] == [(b"m1", 2), (b"m3", 2), (b"m4", 1)]


def test_a_message_that_kills_its_process_each_time_is_put_aside_in_the_end(clock: ManualClock) -> None:
    storage = MemoryStorage()
    log = opened(storage, clock)
    log.create_topic("mail")
    write(log, 2)
    for _ in range(3):
        assert log.queue("mail", attempts=3).take()[0].value == b"m0"
        log.close()
        log = opened(storage, clock)
    with log.queue("mail") as queue:
        assert drained(queue) == [b"m1"]
    assert [record.value for record in log.read("mail.dead")] == [b"m0"]


def test_several_queues_on_one_topic_know_nothing_of_each_other(log: Log) -> None:
    write(log, 2)
    with log.queue("letters", ["mail"]) as letters, log.queue("archive", ["mail"]) as archive:
        assert drained(letters) == [b"m0", b"m1"]
        assert drained(archive) == [b"m0", b"m1"]


def test_a_queue_begins_where_it_is_told(log: Log, clock: ManualClock) -> None:
    write(log, 2)
    clock.advance(7_200_000)
    write(log, 1, first=2)
    latest, earliest = log.queue("new", ["mail"], start="latest"), log.queue("old", ["mail"])
    recent = log.queue("recent", ["mail"], start="by_duration:PT1H")
    write(log, 1, first=3)
    assert drained(latest) == [b"m3"]
    assert drained(earliest) == [b"m0", b"m1", b"m2", b"m3"]
    assert drained(recent) == [b"m2", b"m3"]


def test_messages_of_a_key_come_one_after_the_other_while_others_go_on(log: Log) -> None:
    rows = [Record(value, key) for value, key in ((b"a1", b"a"), (b"a2", b"a"), (b"b1", b"b"), (b"a3", b"a"))]
    log.append("mail", rows)
    with log.queue("mail", order="key") as queue:
        first = queue.take(10)
        assert values(first) == [b"a1", b"b1"]
        first[0].release()
        again = queue.take(10)
        assert values(again) == [b"a1"]
        again[0].ack()
        assert values(queue.take(10)) == [b"a2"]


def test_order_of_keys_outlives_a_restart(log: Log, storage: MemoryStorage, clock: ManualClock) -> None:
    log.append("mail", [Record(b"%d" % number, b"%d" % (number % 2)) for number in range(10)])
    queue = log.queue("mail", order="key")
    queue.ack(queue.take(10))
    assert values(queue.take(10)) == [b"2", b"3"]
    log.close()
    with opened(storage, clock).queue("mail") as queue:
        first = queue.take(10)
        assert values(first) == [b"2", b"3"]
        first[1].ack()
        assert values(queue.take(10)) == [b"5"]


def test_records_of_open_and_aborted_transactions_are_not_delivered(log: Log) -> None:
    with log.transaction("t") as transaction:
        transaction.append("mail", Record(b"committed"))
    abort_in_transaction(log)
    with log.queue("mail") as queue, log.transaction("t") as transaction:
        transaction.append("mail", Record(b"open"))
        write(log, 1)
        assert drained(queue) == [b"committed"]
    with log.queue("mail") as queue:
        assert drained(queue) == [b"open", b"m0"]
    assert described(log).depth == 0


def test_deleted_records_are_stepped_over(log: Log) -> None:
    write(log, 10)
    with log.queue("mail") as queue:
        held = queue.take(2)
        log.partition("mail", 0).delete_records(5)
        held[0].ack()
        assert drained(queue) == [b"m5", b"m6", b"m7", b"m8", b"m9"]
        held[1].release()
        assert drained(queue) == []
    assert described(log).totals.acknowledged == 6


def test_a_topic_that_was_deleted_takes_the_state_of_its_queues_along(log: Log) -> None:
    write(log, 3)
    with log.queue("mail") as queue:
        queue.take(2)
    log.delete_topic("mail")
    log.create_topic("mail")
    write(log, 1)
    with log.queue("mail") as queue:
        assert [(one.value, one.deliveries) for one in queue.take(5)] == [(b"m0", 1)]


def test_compaction_of_the_state_keeps_all_of_it(log: Log, storage: MemoryStorage, clock: ManualClock) -> None:
    write(log, 3 * SLOTS)
    queue = log.queue("mail")
    held = queue.take()
    for message in queue.take(3 * SLOTS - 10):
        message.ack()
    log.partition(TOPIC, 0).roll()
    clock.advance(86_400_000)
    log.maintain()
    log.close()
    again = opened(storage, clock)
    assert again.partition(TOPIC, 0).segments[0].size < 100_000
    with again.queue("mail") as queue:
        left = queue.take(100)
        assert [held[0].value, *(b"m%d" % number for number in range(3 * SLOTS - 9, 3 * SLOTS))] == values(left)
    assert described(again).totals.acknowledged == 3 * SLOTS - 10


def test_a_rejected_message_is_copied_with_all_that_it_had(log: Log) -> None:
    log.append("mail", Record(b"broken", b"ada", (("trace", b"7"),), 1_700_000_000_123))
    with log.queue("mail", dead_letters="broken-mail") as queue:
        queue.take()[0].reject("no such address")
    letter = next(iter(log.read("broken-mail")))
    assert (letter.value, letter.key, letter.timestamp_ms) == (b"broken", b"ada", 1_700_000_000_123)
    assert letter.headers[0] == ("trace", b"7")
    assert dict(letter.headers)["headwater.queue.last.error"] == b"no such address"


def test_without_a_dead_letter_topic_a_rejected_message_is_done(log: Log) -> None:
    write(log, 1)
    with log.queue("mail", dead_letters="") as queue:
        queue.take()[0].reject()
    assert (described(log).depth, described(log).totals.dead) == (0, 1)


def test_a_dead_letter_topic_that_refuses_holds_nobody_up(log: Log) -> None:
    log.create_topic("full", configs={"headwater.full.policy": "reject", "retention.bytes": "1"})
    write(log, 3)
    with log.queue("mail", dead_letters="full") as queue:
        queue.take()[0].reject()
        assert drained(queue) == [b"m1", b"m2"]
        assert described(log).failed == 1
        log.alter_topic("full", {"retention.bytes": "-1"})
        assert queue.take() == []
    assert (described(log).failed, described(log).totals.dead) == (0, 1)


def test_delayed_messages_wait_for_their_time_and_outlived_ones_are_put_aside(log: Log, clock: ManualClock) -> None:
    at = str(clock.now_ms() + 5_000).encode()
    write(log, 1, headers=(("headwater.deliver.at", at),))
    write(log, 1, first=1, headers=(("headwater.expires.at", at),))
    write(log, 1, first=2)
    with log.queue("mail") as queue:
        queue.take(1)
        clock.advance(4_000)
        assert drained(queue) == [b"m2"]
        clock.advance(1_000)
        assert drained(queue) == [b"m0"]
    with log.queue("late", ["mail"], dead_letters="") as queue:
        clock.advance(10_000)
        assert drained(queue) == [b"m0", b"m2"]


def test_messages_that_are_too_old_at_their_first_delivery_are_put_aside(log: Log, clock: ManualClock) -> None:
    write(log, 2)
    clock.advance(60_001)
    write(log, 1, first=2)
    with log.queue("mail", ttl="1 minute") as queue:
        assert drained(queue) == [b"m2"]
    assert described(log).totals.dead == 2


def test_a_single_active_consumer_is_followed_by_the_next(log: Log) -> None:
    write(log, 2)
    configs = {"headwater.queue.single.active.consumer": "true"}
    first, second = log.queue("mail", settings=configs), log.queue("mail")
    assert values(first.take()) == [b"m0"]
    assert second.take() == []
    first.close()
    assert values(second.take(5)) == [b"m0", b"m1"]


def test_what_is_said_again_changes_the_queue_and_the_rest_stays(log: Log) -> None:
    write(log, 1)
    log.queue("mail", lock=timedelta(seconds=5), attempts=2).close()
    log.queue("mail", attempts=7).close()
    settings = log.queues.get("mail").settings
    assert (settings.share_record_lock_duration_ms, settings.share_delivery_count_limit) == (5_000, 7)


def test_a_mistake_in_a_setting_is_named(log: Log) -> None:
    with pytest.raises(InvalidSetting, match="lock cannot be 'soon'"):
        log.queue("mail", lock="soon")
    with pytest.raises(UnknownTopic):
        log.queue("no-such-topic")
    assert log.queues.names() == []


def test_the_books_of_a_queue_say_what_became_of_every_message(log: Log, clock: ManualClock) -> None:
    write(log, 10)
    with log.queue("mail", attempts=2) as queue:
        messages = queue.take(8)
        queue.ack(messages[:5])
        messages[5].release()
        messages[6].reject()
        found = described(log)
        assert (found.depth, found.waiting, found.in_flight) == (4, 3, 1)
        assert list(found.consumers.values()) == [1]
        assert (found.totals.delivered, found.totals.acknowledged, found.totals.dead) == (8, 5, 1)

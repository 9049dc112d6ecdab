"""Deliveries to a target: in order, at least once, under the same id, within bounds."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.alerts import delivery
from headwater.alerts.definition import Definitions, alerts_topic, deliveries_topic
from headwater.alerts.delivery import GIVEN_UP, Deliverer, Delivery, group_of
from headwater.alerts.episodes import Episode, State
from headwater.alerts.journal import Journal, Noted
from headwater.alerts.notify import Webhook, topic, webhook
from headwater.alerts.targets import delivery_to, publisher
from headwater.clock import ManualClock, SystemClock
from headwater.log.log import Log
from headwater.record import Record
from headwater.webhooks.sending import DELIVERED, FAILED, REFUSED, Answer
from tests.alerts.written_views import ALERT, APP
from tests.waiting import LONG, patience
from tests.webhooks.target import WebhookTarget, webhook_target


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path) as log:
        yield log


@pytest.fixture
def journal(log: Log, tmp_path: Path) -> Journal:
    (tmp_path / "alerts" / APP).mkdir(parents=True)
    return Journal(log, APP, Definitions(tmp_path))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "pause_seconds", lambda attempt, random, asked=None: 0.001)


def raised(number: int, alert: str = ALERT, state: State = State.RAISED) -> Noted:
    now_ms = SystemClock().now_ms()
    return Noted(alert, Episode(f"e{number}", {"url": f"/{number}"}, state, now_ms, now_ms, now_ms, 1, {"p99": 2.5}))


def to(target: WebhookTarget, **more: Any) -> Webhook:
    return webhook(target.url, secret="s3cret", allow_private=True, **{"timeout_seconds": 2, **more})


def deliverer(log: Log, target: Any, deliver: Callable[..., Answer] | None = None, clock: Any = None) -> Deliverer:
    clock = clock or SystemClock()
    made = Deliverer(
        Delivery(APP, target, frozenset({ALERT}), deliver or delivery_to(target, publisher(log), clock)), log, clock
    )
    made.begin()
    return made


def outcomes(log: Log) -> list[tuple[str, str, int]]:
    noted = [json.loads(record.value or b"") for record in log.read(deliveries_topic(APP))]
    return [(one["id"], one["outcome"], one["attempt"]) for one in noted]


def test_everything_that_concerns_a_target_comes_in_order(log: Log, journal: Journal) -> None:
    with webhook_target() as target:
        worker = deliverer(log, to(target))
        journal.write([raised(1), raised(2, "another"), raised(3, state=State.PENDING), raised(4)])
        journal.write([raised(1, state=State.RESOLVED)])
        worker.deliver_all()
    assert target.ids() == ["e1-1", "e4-1", "e1-resolved"]
    notified = json.loads(target.taken[0].body)
    assert (notified["text"], notified["key"], notified["row"]) == (
        "too_slow raised: url=/1, p99=2.5",
        {"url": "/1"},
        {"p99": 2.5},
    )


def test_a_target_that_fails_is_notified_again_under_the_same_id(log: Log, journal: Journal) -> None:
    with webhook_target(500, 503, 200) as target:
        worker = deliverer(log, to(target))
        journal.write([raised(1)])
        worker.deliver_all()
    assert target.ids() == ["e1-1"] * 3
    assert outcomes(log) == [("e1-1", FAILED, 1), ("e1-1", FAILED, 2), ("e1-1", DELIVERED, 3)]


def test_a_target_that_hangs_costs_its_timeout_and_is_notified_again(log: Log, journal: Journal) -> None:
    with webhook_target(0, 200) as target:
        worker = deliverer(log, to(target, timeout_seconds=0.3))
        journal.write([raised(1)])
        began = patience()
        worker.deliver_all()
        assert patience() - began < 3
    assert outcomes(log) == [("e1-1", FAILED, 1), ("e1-1", DELIVERED, 2)]


def test_a_target_that_sends_us_inside_is_refused_and_the_next_is_notified(log: Log, journal: Journal) -> None:
    inside = "http://169.254.169.254/latest/meta-data"
    with webhook_target((307, "location", inside), 200) as target:
        worker = deliverer(log, to(target))
        journal.write([raised(1), raised(2)])
        worker.deliver_all()
    assert outcomes(log) == [("e1-1", REFUSED, 1), ("e2-1", DELIVERED, 1)]


def test_a_private_target_is_refused_unless_it_is_allowed(log: Log, journal: Journal) -> None:
    with webhook_target() as target:
        worker = deliverer(log, webhook(target.url))
        journal.write([raised(1)])
        worker.deliver_all()
    assert target.taken == []
    assert outcomes(log) == [("e1-1", REFUSED, 1)]


def test_an_event_that_utf8_cannot_hold_blocks_no_later_one(log: Log, journal: Journal) -> None:
    with webhook_target() as target:
        worker = deliverer(log, to(target))
        journal.write([raised(1)])
        [record] = log.read(alerts_topic(APP))
        odd = (record.value or b"").replace(b'"e1-1"', b'"e1\\ud800\\r\\nx: y"')
        log.append(alerts_topic(APP), Record(odd, b"k"))
        journal.write([raised(2)])
        worker.deliver_all()
    assert target.ids() == ["e1-1", "e1---x--y", "e2-1"]
    assert [outcome for _, outcome, _ in outcomes(log)] == [DELIVERED] * 3


def test_attempts_end_when_the_time_that_a_target_allows_is_over(log: Log, journal: Journal) -> None:
    clock = ManualClock(wall_ms=SystemClock().now_ms())

    def deliver(notification: object) -> Answer:
        clock.advance(30 * 60_000)
        return Answer(FAILED, "down")

    worker = deliverer(log, webhook("https://hooks.example/", retry_hours=2.1), deliver, clock)
    journal.write([raised(1)])
    worker.deliver_all()
    assert [outcome for _, outcome, _ in outcomes(log)] == [FAILED] * 4 + [GIVEN_UP]


def test_a_delivered_notification_is_not_delivered_again_after_a_restart(log: Log, journal: Journal) -> None:
    with webhook_target() as target:
        first = deliverer(log, to(target))
        journal.write([raised(1)])
        first.deliver_all()
        journal.write([raised(2)])
        deliverer(log, to(target)).deliver_all()
    assert target.ids() == ["e1-1", "e2-1"]


def test_attempts_are_counted_on_after_a_restart_and_those_of_another_target_are_not(
    log: Log, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [FAILED, FAILED]

    def deliver(notification: object) -> Answer:
        return Answer(answers.pop() if answers else DELIVERED, "so it is")

    here, other = webhook("https://hooks.example/"), topic("on-call")
    first = deliverer(log, here, deliver)
    beside = deliverer(log, other)
    journal.write([raised(1), raised(2)])
    monkeypatch.setattr(first._stopping, "wait", lambda seconds: first._stopping.set() if not answers else None)
    first.deliver_all()
    deliverer(log, here, deliver).deliver_all()
    beside.deliver_all()
    assert outcomes(log) == [
        ("e1-1", FAILED, 1), ("e1-1", FAILED, 2), ("e1-1", DELIVERED, 3), ("e2-1", DELIVERED, 1),
        ("e1-1", DELIVERED, 1), ("e2-1", DELIVERED, 1),
    ]  # fmt: skip


def test_a_stop_before_the_offset_moves_delivers_once_more_under_the_same_id(log: Log, journal: Journal) -> None:
    with webhook_target() as target:
        worker = deliverer(log, to(target))
        journal.write([raised(1)])
        worker._commit = _killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            worker.deliver_all()
        deliverer(log, to(target)).deliver_all()
    assert target.ids() == ["e1-1", "e1-1"]


def _killed() -> None:
    raise KeyboardInterrupt


def test_a_new_target_is_notified_of_later_events_only(log: Log, journal: Journal) -> None:
    journal.write([raised(1)])
    with webhook_target() as target:
        worker = deliverer(log, to(target))
        journal.write([raised(2)])
        worker.deliver_all()
    assert target.ids() == ["e2-1"]


def test_what_is_waiting_shows_as_the_lag_of_a_group(log: Log, journal: Journal) -> None:
    target = topic("on-call")
    worker = deliverer(log, target)
    journal.write([raised(1), raised(2)])
    [committed] = log.group_offsets.fetch(group_of(APP, target)).values()
    assert committed.offset == 0
    worker.deliver_all()
    [committed] = log.group_offsets.fetch(group_of(APP, target)).values()
    assert committed.offset == 2


def test_a_topic_gets_a_record_with_the_id_as_key(log: Log, journal: Journal) -> None:
    worker = deliverer(log, topic("on-call"))
    journal.write([raised(1)])
    worker.deliver_all()
    [record] = log.read("on-call")
    assert record.key == b"e1-1"
    assert json.loads(record.value or b"")["alert"] == ALERT


def test_what_others_write_into_the_topics_of_alerts_is_passed_over(log: Log, journal: Journal) -> None:
    worker = deliverer(log, topic("on-call"))
    log.append(alerts_topic(APP), [Record(b"hello"), Record(None), Record(b"[1]"), Record(b'{"alert": ["too_slow"]}')])
    log.append(deliveries_topic(APP), [Record(value, b"e1-1") for value in (b"hello", b"[1]", b"{}")])
    said = {"id": "e1-1", "target": "topic on-call", "attempt": "many"}
    log.append(deliveries_topic(APP), Record(json.dumps(said).encode(), b"e1-1"))
    journal.write([raised(1)])
    worker.deliver_all()
    assert worker.is_done
    assert [record.key for record in log.read("on-call")] == [b"e1-1"]


def test_an_unexpected_error_is_an_attempt_that_failed(log: Log, journal: Journal) -> None:
    answers: list[Answer] = [Answer(DELIVERED, "at last")]

    def deliver(notification: object) -> Answer:
        if len(outcomes(log)) < 2:
            raise ZeroDivisionError
        return answers[0]

    worker = deliverer(log, topic("on-call"), deliver)
    journal.write([raised(1)])
    worker.deliver_all()
    assert outcomes(log) == [("e1-1", FAILED, 1), ("e1-1", FAILED, 2), ("e1-1", DELIVERED, 3)]


def test_a_delivery_thread_continues_after_any_error(
    log: Log, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "TROUBLE_SECONDS", 0.001)
    worker, notified, fails = deliverer(log, topic("on-call")), threading.Event(), [True, True]
    deliver_all = worker.deliver_all

    def sometimes() -> None:
        if fails:
            fails.pop()
            raise ZeroDivisionError
        deliver_all()
        notified.set()

    worker.deliver_all = sometimes  # type: ignore[method-assign]
    journal.write([raised(1)])
    worker.start()
    assert notified.wait(LONG)
    worker.ask_to_stop()
    worker.join()
    assert [record.key for record in log.read("on-call")] == [b"e1-1"]


def test_a_target_that_hangs_does_not_hold_up_a_node_that_stops(tmp_path: Path, journal: Journal, log: Log) -> None:
    begun, going = threading.Event(), threading.Event()

    def deliver(notification: object) -> Answer:
        begun.set()
        going.wait(LONG)
        return Answer(DELIVERED, "at last")

    worker = deliverer(log, topic("on-call"), deliver)
    journal.write([raised(1)])
    worker.start()
    assert begun.wait(LONG)
    began = patience()
    worker.ask_to_stop()
    worker.join()
    log.close()
    assert patience() - began < 5
    going.set()
    worker._thread.join(LONG)
    with Log.open(tmp_path) as again:
        [committed] = again.group_offsets.fetch(group_of(APP, topic("on-call"))).values()
        assert committed.offset == 0, "it is delivered again, under the same id"


def test_a_target_that_is_down_is_let_go_when_the_node_stops(log: Log, journal: Journal) -> None:
    begun = threading.Event()

    def deliver(notification: object) -> Answer:
        begun.set()
        return Answer(FAILED, "down")

    worker = deliverer(log, topic("on-call"), deliver)
    journal.write([raised(1)])
    worker.start()
    assert begun.wait(LONG)
    worker.ask_to_stop()
    worker.join()
    [committed] = log.group_offsets.fetch(group_of(APP, topic("on-call"))).values()
    assert committed.offset == 0, "nothing was decided"

"""The state machine of a queue: every message with one consumer at a time, and done with once."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import NotAcquired
from headwater.log.queues.delivery import Acknowledgement, Delivery, Demand, Found, Rules, Span
from headwater.log.queues.key_order import KeyOrder
from headwater.log.queues.ranges import Range
from headwater.log.queues.states import NEXT_STATE, Event, State
from tests.log.queues.model import Model, One

RULES = Rules(lock_ms=100, attempts_max=3)


def started(*, by_key: bool = False) -> Delivery:
    state = Delivery(0)
    state.keys = KeyOrder() if by_key else None
    return state


def take(
    state: Delivery, end: int, count: int, *, holder: str = "a", now_ms: int = 0, rules: Rules = RULES
) -> list[int]:
    offset = state.next_offset(state.start, now_ms)
    rows = state.acquire(Found(offset, [Span(offset, end - 1)], end), Demand(holder, count), now_ms, rules)
    state.put(rows)
    return offsets_of(rows)


def offsets_of(rows: list[Range]) -> list[int]:
    return [offset for row in rows if row.state is State.ACQUIRED for offset in range(row.first, row.last + 1)]


def say(state: Delivery, event: Event, first: int, last: int | None = None, *, now_ms: int = 0) -> None:
    said = Acknowledgement(first, first if last is None else last, event)
    state.put(state.acknowledge("a", [said], now_ms, RULES))


def test_every_state_can_be_reached_and_only_what_is_done_stays_so() -> None:
    assert {State.AVAILABLE, *NEXT_STATE.values()} == set(State)
    assert not any(state.final for state, _ in NEXT_STATE)
    assert {event for _, event in NEXT_STATE} == set(Event)


def test_a_million_messages_that_wait_cost_nothing_and_a_thousand_in_flight_one_row() -> None:
    state = started()
    take(state, 1_000_000, 1000)
    assert len(state.rows) == 1
    assert state.in_flight == 1000


def test_what_was_acknowledged_at_the_beginning_is_forgotten() -> None:
    state = started()
    take(state, 10, 10)
    say(state, Event.ACCEPT, 0, 4)
    assert (state.start, state.totals.acknowledged) == (5, 5)


def test_a_slow_message_holds_no_other_up() -> None:
    state = started()
    take(state, 10, 5)
    say(state, Event.ACCEPT, 1, 4)
    assert take(state, 10, 5, holder="b") == [5, 6, 7, 8, 9]
    assert state.start == 0


def test_a_message_whose_lock_ended_is_delivered_again_with_a_larger_count() -> None:
    state = started()
    take(state, 3, 3)
    state.put(state.expire(100, RULES))
    assert take(state, 3, 3, holder="b", now_ms=100) == [0, 1, 2]
    assert [row.deliveries for row in state.rows] == [2]
    with pytest.raises(NotAcquired):
        say(state, Event.ACCEPT, 0)


def test_a_renewed_lock_ends_later() -> None:
    state = started()
    take(state, 1, 1)
    say(state, Event.RENEW, 0, now_ms=90)
    assert state.expire(150, RULES) == []
    state.put(state.expire(190, RULES))
    assert state.counts[State.AVAILABLE] == 1


def test_one_that_is_not_held_spoils_the_whole_acknowledgement() -> None:
    state = started()
    take(state, 5, 3)
    with pytest.raises(NotAcquired):
        say(state, Event.ACCEPT, 1, 3)
    assert state.in_flight == 3


def test_after_the_last_attempt_a_message_fails_with_its_first_and_last_error() -> None:
    state = started()
    for attempt in ("first", "second", "third"):
        take(state, 2, 1)
        state.put(state.acknowledge("a", [Acknowledgement(0, 0, Event.RELEASE, error=attempt)], 0, RULES))
    assert state.failed()[0].failure == ("first", "third")
    assert take(state, 2, 1) == [1]
    state.put(state.bury(state.failed()))
    assert state.totals.dead == 1


def test_a_message_that_is_given_back_waits_twice_as_long_each_time() -> None:
    rules = Rules(attempts_max=10, backoff_ms=1000, backoff_ms_max=3000)
    assert [rules.delay_ms(deliveries) for deliveries in (1, 2, 3, 4)] == [1000, 2000, 3000, 3000]


def test_a_delayed_message_lets_others_pass_until_its_time_has_come() -> None:
    state = started()
    take(state, 2, 1)
    state.put(state.acknowledge("a", [Acknowledgement(0, 0, Event.RELEASE, 50)], 0, RULES))
    assert take(state, 2, 2, now_ms=49) == [1]
    assert state.wake_ms == 50
    assert take(state, 2, 2, now_ms=50) == [0]


def test_no_more_are_in_flight_than_may_be() -> None:
    state, rules = started(), Rules(in_flight_max=10)
    assert len(take(state, 100, 50, rules=rules)) == 10
    assert take(state, 100, 50, rules=rules) == []


def test_offsets_without_a_message_are_stepped_over() -> None:
    state = started()
    found = Found(0, [Span(2, 3), Span(6, 6)], 10)
    state.put(state.acquire(found, Demand("a", 10), 0, RULES))
    assert [(row.first, row.last) for row in state.held_by("a")] == [(2, 3), (6, 6)]
    say(state, Event.ACCEPT, 2, 3)
    say(state, Event.ACCEPT, 6)
    assert state.start == 10


def test_whole_batches_are_taken_if_asked_for() -> None:
    state = started()
    rows = state.acquire(Found(0, [Span(0, 3), Span(4, 9)], 10), Demand("a", 5, whole_spans=True), 0, RULES)
    assert offsets_of(rows) == list(range(10))


def test_deleted_messages_are_dropped_unless_a_consumer_has_them() -> None:
    state = started()
    take(state, 10, 2)
    state.put(state.drop_below(5))
    say(state, Event.ACCEPT, 0, 1)
    assert (state.start, state.totals.dropped, state.totals.acknowledged) == (5, 0, 2)


def test_one_message_of_a_key_is_in_flight_and_others_go_on() -> None:
    state = started(by_key=True)
    spans = [Span(offset, offset, key=key) for offset, key in enumerate((b"x", b"x", b"y", None, None))]
    state.put(state.acquire(Found(0, spans, 5), Demand("a", 10), 0, RULES))
    assert [row[:2] for row in state.held_by("a")] == [(0, 0), (2, 4)]
    assert state.next_offset(0, 0) == 5
    say(state, Event.ACCEPT, 0)
    assert state.next_offset(0, 0) == 1


def test_a_key_goes_on_behind_a_message_that_failed() -> None:
    state = started(by_key=True)
    spans = [Span(0, 0, key=b"x"), Span(1, 1, key=b"x")]
    state.put(state.acquire(Found(0, spans, 2), Demand("a", 10), 0, RULES))
    say(state, Event.REJECT, 0)
    assert state.next_offset(0, 0) == 1


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), by_key=st.booleans(), backoff_ms=st.sampled_from((0, 30)))
def test_any_life_of_a_queue_is_that_of_its_messages_one_by_one(seed: int, by_key: bool, backoff_ms: int) -> None:
    random = Random(seed)
    rules = Rules(lock_ms=100, attempts_max=3, in_flight_max=8, backoff_ms=backoff_ms)
    Life(random, rules, by_key).run(80)


class Life:
    def __init__(self, random: Random, rules: Rules, by_key: bool) -> None:
        self.random, self.rules, self.now_ms = random, rules, 0
        self.state, self.model = started(by_key=by_key), Model(rules, by_key)
        self.end = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice((self.write, self.take, self.take, self.decide, self.decide, self.leave, self.wait))()
            self.state.put(self.state.bury(self.state.failed()))
            self.model.bury()
            self.compare()

    def write(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            if self.random.random() < 0.8:
                self.model.messages[self.end] = One(self.random.choice((b"x", b"y", b"z", None)))
            self.end += 1

    def take(self) -> None:
        holder, count = self.random.choice("abc"), self.random.randint(1, 5)
        count = min(count, self.rules.in_flight_max - self.state.in_flight)
        expected = self.model.deliverable(self.now_ms)[:count]
        taken: list[int] = []
        offset = self.state.next_offset(self.state.start, self.now_ms)
        while offset < self.end and len(taken) < count:
            end = min(offset + self.random.randint(1, 6), self.end)
            spans = [
                Span(one, one, key=self.model.messages[one].key)
                for one in range(offset, end) if one in self.model.messages
            ]  # fmt: skip
            demand = Demand(holder, count - len(taken))
            rows = self.state.acquire(Found(offset, spans, end), demand, self.now_ms, self.rules)
            self.state.put(rows)
            taken += offsets_of(rows)
            offset = self.state.next_offset(end, self.now_ms)
        self.model.take(expected, holder, self.now_ms)
        assert taken == expected

    def decide(self) -> None:
        holder = self.random.choice("abc")
        held = sorted(self.model.held_by(holder))
        if not held:
            return
        event = self.random.choice((Event.ACCEPT, Event.ACCEPT, Event.RELEASE, Event.REJECT, Event.RENEW))
        delay = self.random.choice((None, 0, 40))
        said = [
            Acknowledgement(one, one, event, delay if event is Event.RELEASE else None)
            for one in sorted(self.random.sample(held, self.random.randint(1, len(held))))
        ]  # fmt: skip
        self.state.put(self.state.acknowledge(holder, said, self.now_ms, self.rules))
        for one in said:
            self.model.acknowledge(one, self.now_ms)

    def leave(self) -> None:
        holder = self.random.choice("abc")
        self.state.put(self.state.release(holder, self.now_ms, self.rules))
        self.model.release(holder, self.now_ms)

    def wait(self) -> None:
        self.now_ms += self.random.choice((1, 30, 100))
        self.state.put(self.state.expire(self.now_ms, self.rules))
        self.model.expire(self.now_ms)

    def compare(self) -> None:
        state = self.state
        known: dict[int, Range] = {}
        for row in state.rows:
            known |= dict.fromkeys(range(row.first, row.last + 1), row)
        assert sorted(known) == list(range(state.start, state.end))
        for offset, one in self.model.messages.items():
            if offset < state.start:
                assert one.state.final
            elif offset < state.end:
                found = known[offset]
                assert (found.state, found.deliveries) == (one.state, one.deliveries)
                assert found.holder == one.holder or found.state is not State.ACQUIRED
            else:
                assert (one.state, one.deliveries) == (State.AVAILABLE, 0)
        assert +state.counts == Counter(row.state for row in known.values() if not row.state.final)
        done = Counter(one.state for one in self.model.messages.values())
        assert state.totals.acknowledged == done[State.ACKNOWLEDGED]
        assert state.totals.dead == done[State.ARCHIVED]
        assert state.totals.delivered == sum(one.deliveries for one in self.model.messages.values())

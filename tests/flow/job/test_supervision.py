"""What state a job is in, as a table and step by step."""

from dataclasses import replace

import pytest

from headwater.flow.declare.retries import Retries
from headwater.flow.run.supervision import NEXT, Event, Failure, Health, State, Warned, condition

DOWN = Failure("StoreUnavailable", "the database does not answer")
CHANGED = Failure("JobRefused", "view revenue has changed")
RETRIES = Retries(limit=None, first_ms=100, longest_ms=400)
RUNNING = Health().begun()


def test_every_state_can_be_reached_and_left() -> None:
    assert {State.STOPPED, *NEXT.values()} == set(State)
    assert {state for state, _ in NEXT} == set(State)
    assert {event for _, event in NEXT} == set(Event)


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_paused_and_stopped(state: State) -> None:
    assert NEXT[state, Event.PAUSED] == State.PAUSED
    assert (state, Event.STOPPED) in NEXT


def test_pauses_grow_up_to_a_cap_and_failures_are_counted_from_the_first() -> None:
    health, pauses = RUNNING, []
    for now_ms in (1000, 2000, 3000, 4000):
        health = health.failed(DOWN, RETRIES, now_ms)
        assert health.next_ms is not None
        pauses.append(health.next_ms - now_ms)
    assert pauses == [100, 200, 400, 400]
    assert health.state == State.RETRYING
    assert health.trouble is not None
    assert (health.trouble.first_ms, health.trouble.last_ms, health.trouble.count) == (1000, 4000, 4)


def test_a_batch_that_succeeds_heals_and_the_reason_is_kept() -> None:
    healed = RUNNING.failed(DOWN, RETRIES, 1000).failed(DOWN, RETRIES, 2000).healed(3000)
    assert (healed.state, healed.attempts, healed.failures) == (State.RUNNING, 0, 2)
    assert healed.trouble is not None
    assert (healed.trouble.reason, healed.trouble.healed_ms) == (DOWN.reason, 3000)
    again = healed.failed(DOWN, RETRIES, 9000)
    assert again.trouble is not None
    assert (again.trouble.first_ms, again.trouble.count, again.failures) == (9000, 1, 3)


def test_a_failure_that_would_come_again_is_not_tried_again() -> None:
    health = RUNNING.failed(CHANGED, RETRIES, 1000)
    assert (health.state, health.next_ms) == (State.FAILED, None)
    assert health.resumed().state == State.RETRYING


def test_when_no_attempt_is_left_the_job_has_failed() -> None:
    few = replace(RETRIES, limit=2)
    states, health = [], RUNNING
    for now_ms in range(3):
        health = health.failed(DOWN, few, now_ms)
        states.append(health.state)
    assert states == [State.RETRYING, State.RETRYING, State.FAILED]


def test_another_run_has_all_attempts_again_and_the_trouble_lasts_until_a_batch_succeeds() -> None:
    stopped = RUNNING.failed(DOWN, replace(RETRIES, limit=0), 1000).after(Event.STOPPED)
    assert stopped.state == State.FAILED
    begun = stopped.begun()
    assert (begun.state, begun.attempts) == (State.RETRYING, 0)
    assert begun.trouble == stopped.trouble


def test_a_paused_job_has_not_failed_and_goes_on_as_what_it_was() -> None:
    paused = RUNNING.failed(DOWN, RETRIES, 1000).after(Event.PAUSED)
    assert condition(paused, alive=True, paused=True).troubled is False
    assert paused.resumed().state == State.RETRYING
    assert RUNNING.after(Event.PAUSED).resumed().state == State.RUNNING


@pytest.mark.parametrize(
    ("health", "alive", "shown"),
    [
        (None, True, State.RUNNING),
        (None, False, State.STOPPED),
        (RUNNING, True, State.RUNNING),
        (RUNNING, False, State.FAILED),
        (RUNNING.after(Event.STOPPED), False, State.STOPPED),
        (RUNNING.failed(DOWN, RETRIES, 1), True, State.RETRYING),
        (RUNNING.failed(DOWN, RETRIES, 1), False, State.FAILED),
        (RUNNING.failed(DOWN, RETRIES, 1).after(Event.STOPPED), False, State.STOPPED),
        (RUNNING.failed(CHANGED, RETRIES, 1).after(Event.STOPPED), False, State.FAILED),
    ],
)
def test_what_is_shown_depends_on_the_file_and_on_whether_a_process_is_behind_it(
    health: Health | None, alive: bool, shown: State
) -> None:
    assert condition(health, alive=alive, paused=False).state == shown


def test_a_process_that_was_killed_is_named_with_what_failed_before() -> None:
    failing = replace(RUNNING.failed(DOWN, RETRIES, 1), process=4711)
    reason = condition(failing, alive=False, paused=False).reason
    assert "process 4711" in reason
    assert DOWN.reason in reason


def test_a_warning_is_told_once_and_taken_back() -> None:
    warned = RUNNING.warned(Warned("topic", "made", 1)).warned(Warned("topic", "made", 2))
    assert [one.at_ms for one in warned.warnings] == [2]
    assert warned.without_warning("topic").warnings == ()
    assert warned.after(Event.STOPPED).begun().warnings == ()

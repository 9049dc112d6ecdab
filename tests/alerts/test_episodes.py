"""What becomes of a key that meets the condition of an alert."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.alerts.episodes import BRIEF, NEXT, NOTIFIED, OVER, Episode, Held, Rule, State, step

S = 1000


class Keys:
    """Looks at the same keys again and again, and remembers every step."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.known, self.events, self.looks = rule, dict[str, Episode](), list[Episode](), 0

    def look(self, now_ms: int, *keys: str, passed: str = "") -> list[str]:
        """`passed`: letters of keys whose condition has ended since the last look."""
        self.looks += 1
        holding = {key: Held({"k": key}, {"n": self.looks}) for key in keys}
        deleted = {key: {"k": key} for key in passed}
        steps = step(self.rule, self.known, holding, now_ms=now_ms, seen=str(self.looks), passed=deleted)
        for one in steps:
            self.known.pop(one.key["k"], None)
            if one.state not in OVER:
                self.known[one.key["k"]] = one
        self.events += steps
        return [str(one.state) for one in steps]


def test_without_a_time_to_hold_it_is_raised_at_once() -> None:
    keys = Keys(Rule())
    assert keys.look(0, "a") == ["raised"]
    assert keys.look(1, "a") == []
    assert keys.look(2) == ["resolved"]
    assert keys.look(3) == []


def test_it_is_raised_when_it_has_held_for_long_enough_and_not_before() -> None:
    keys = Keys(Rule(hold_ms=120 * S))
    assert keys.look(0, "a") == ["pending"]
    assert keys.look(119_999, "a") == []
    assert keys.look(120_000, "a") == ["raised"]


def test_what_ends_before_it_was_raised_is_not_notified() -> None:
    keys = Keys(Rule(hold_ms=120 * S))
    keys.look(0, "a")
    assert keys.look(60 * S) == ["cleared"]
    assert not {one.state for one in keys.events} & set(NOTIFIED)


def test_holding_starts_over_after_an_end() -> None:
    keys = Keys(Rule(hold_ms=10 * S))
    keys.look(0, "a")
    keys.look(9 * S)
    assert keys.look(11 * S, "a") == ["pending"]
    assert keys.look(20 * S, "a") == []
    assert keys.look(21 * S, "a") == ["raised"]


def test_it_is_repeated_every_so_often_and_once_however_long_no_evaluation_ran() -> None:
    keys = Keys(Rule(repeat_ms=3600 * S))
    assert keys.look(0, "a") == ["raised"]
    assert keys.look(3599 * S, "a") == []
    assert keys.look(3600 * S, "a") == ["repeated"]
    assert keys.look(100_000 * S, "a") == ["repeated"]
    assert keys.look(100_001 * S, "a") == []
    assert [one.number for one in keys.events] == [1, 2, 3]


def test_what_came_and_went_between_two_looks_is_notified_once_however_often_it_did() -> None:
    keys = Keys(Rule())
    assert keys.look(0, passed="aa") == ["raised", "resolved"]
    assert {one.why for one in keys.events} == {BRIEF}
    assert len({one.id for one in keys.events}) == 1
    assert keys.look(1) == []


def test_a_moment_is_too_short_for_an_alert_that_takes_its_time() -> None:
    keys = Keys(Rule(hold_ms=10 * S))
    assert keys.look(0, passed="a") == ["pending", "cleared"]


def test_what_went_and_came_back_between_two_looks_is_another_episode() -> None:
    keys = Keys(Rule(hold_ms=10 * S))
    keys.look(0, "a")
    assert keys.look(9 * S, "a", passed="a") == ["cleared", "pending"]
    assert keys.look(11 * S, "a") == []
    assert keys.look(19 * S, "a") == ["raised"]
    assert len({one.id for one in keys.events}) == 2


def test_what_came_went_and_came_back_holds_and_what_went_is_resolved_once() -> None:
    keys = Keys(Rule())
    assert keys.look(0, "a", passed="a") == ["raised"]
    assert keys.look(1, passed="a") == ["resolved"]
    assert keys.events[-1].why == ""


def test_a_key_does_not_wait_for_another() -> None:
    keys = Keys(Rule(hold_ms=10 * S))
    keys.look(0, "a")
    keys.look(5 * S, "a", "b")
    assert keys.look(10 * S, "a", "b") == ["raised"]
    assert keys.look(15 * S, "b") == ["raised", "resolved"]


def test_a_notification_has_the_current_row() -> None:
    keys = Keys(Rule(hold_ms=1))
    keys.look(0, "a")
    keys.look(5, "a")
    assert keys.events[-1].row == {"n": 2}


def test_every_state_can_be_reached_and_left_or_is_an_end() -> None:
    assert {*NEXT.values()} == {*State}
    assert {state for state, _ in NEXT} == {None, *State} - {*OVER}


LOOKS = st.lists(st.tuples(st.integers(0, 20), st.frozensets(st.sampled_from("abc"))), max_size=30)


@given(LOOKS, st.integers(0, 30), st.none() | st.integers(1, 30))
def test_however_conditions_come_and_go_each_episode_is_notified_in_order(
    looks: list[tuple[int, frozenset[str]]], hold: int, repeat: int | None
) -> None:
    keys, now = Keys(Rule(hold, repeat)), 0
    for pause, holding in looks:
        now += pause
        keys.look(now, *sorted(holding))
    for states in _episodes(keys.events):
        words = "".join(state[:3] for state in states)
        assert _fits(words), words
    ids = [one.notification for one in keys.events]
    assert len(ids) == len(set(ids)), "two notifications have one id"
    raised = [one for one in keys.events if one.state == State.RAISED]
    assert all(one.at_ms - one.since_ms >= hold for one in raised)


def _episodes(events: list[Episode]) -> Iterator[list[str]]:
    for id in dict.fromkeys(one.id for one in events):
        yield [str(one.state) for one in events if one.id == id]


def _fits(words: str) -> bool:
    import re

    return re.fullmatch(r"(pen)?(rai(rep)*(res)?)?|pencle", words) is not None


@pytest.mark.parametrize("state", [*State])
def test_the_id_of_a_notification_is_made_from_its_episode(state: State) -> None:
    episode: Any = Episode("e", {}, state, 0, 0, number=2)
    assert episode.notification.startswith("e-")

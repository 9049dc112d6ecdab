from headwater.log.groups.group_state import NEXT_STATE, Event, State


def test_every_state_can_be_reached() -> None:
    assert {State.EMPTY, *NEXT_STATE.values()} == set(State)


def test_every_event_moves_some_state() -> None:
    assert {event for _, event in NEXT_STATE} == set(Event)


def test_nothing_moves_a_dead_group() -> None:
    assert [event for state, event in NEXT_STATE if state is State.DEAD] == []


def test_only_an_empty_group_dies() -> None:
    assert [key for key, state in NEXT_STATE.items() if state is State.DEAD] == [(State.EMPTY, Event.REMOVED)]


def test_a_group_becomes_stable_only_after_it_was_shared_out() -> None:
    assert [key for key, state in NEXT_STATE.items() if state is State.STABLE] == [(State.COMPLETING, Event.SHARED_OUT)]


def test_states_have_the_names_kafka_gives_them() -> None:
    assert list(State) == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]

"""The checker is trusted because each anomaly was fed to it, and because it keeps silent when all is well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.record import TopicPartition
from tests.crash.checker import check
from tests.crash.history import FINAL, Commit, Fetched, History, Poll, Send, history_of

ORDERS = TopicPartition("orders", 0)


def sent(value: str, offset: int, *, producer: str = "p", key: str | None = None) -> Send:
    return Send(producer, ORDERS, value, "ok", offset, key)


def polled(consumer: str, *records: tuple[int, str], session: int = 0) -> Poll:
    return Poll(consumer, ORDERS, records, session)


def kinds(history: History) -> list[str]:
    return [anomaly.kind for anomaly in check(history)]


def test_nothing_is_wrong_with_a_history_that_keeps_its_promises() -> None:
    found = [(0, "a"), (1, "b"), (2, "unknown")]
    history = History(
        sends=[sent("a", 0), sent("b", 1), Send("p", ORDERS, "unknown"), Send("p", ORDERS, "failed", "fail")],
        polls=[polled("c", *found[:1]), polled("c", *found[1:]), polled(FINAL, *found)],
        commits=[Commit("g", ORDERS, 1), Fetched("g", ORDERS, 1)],
    )
    assert check(history) == []


def test_an_empty_history_is_fine() -> None:
    assert check(History()) == []


def test_an_acknowledged_write_below_what_was_read_is_lost() -> None:
    assert kinds(History(sends=[sent("a", 0), sent("b", 1)], polls=[polled(FINAL, (1, "b"))])) == ["lost-write"]


def test_an_acknowledged_write_no_reader_reached_is_unseen() -> None:
    assert kinds(History(sends=[sent("a", 0), sent("b", 1)], polls=[polled(FINAL, (0, "a"))])) == ["unseen"]
    assert kinds(History(sends=[sent("a", 0)])) == ["unseen"]


def test_a_record_that_was_read_and_is_missing_at_the_end_has_vanished() -> None:
    history = History(polls=[polled("c", (0, "a"), (1, "b")), polled(FINAL, (0, "a"))])
    assert kinds(history) == ["vanished"]


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    assert kinds(History(polls=[polled(FINAL, (0, "a"), (1, "a"))])) == ["duplicate"]


def test_a_value_read_elsewhere_than_acknowledged_is_a_duplicate() -> None:
    assert kinds(History(sends=[sent("a", 0)], polls=[polled(FINAL, (5, "a"))])) == ["duplicate"]


def test_two_values_at_one_offset_are_inconsistent() -> None:
    history = History(polls=[polled("c", (0, "a")), polled("d", (0, "b"))])
    assert kinds(history) == ["inconsistent-offsets"]


def test_an_offset_acknowledged_for_one_value_and_read_as_another_is_inconsistent() -> None:
    history = History(sends=[sent("a", 0)], polls=[polled(FINAL, (0, "b"), (1, "a"))])
    assert "inconsistent-offsets" in kinds(history)


def test_a_failed_send_must_not_be_read() -> None:
    history = History(sends=[Send("p", ORDERS, "a", "fail")], polls=[polled(FINAL, (0, "a"))])
    assert kinds(history) == ["failed-read"]


def test_an_unknown_send_may_be_read_or_not() -> None:
    sends = [Send("p", ORDERS, "a"), Send("p", ORDERS, "b")]
    assert kinds(History(sends=sends, polls=[polled(FINAL, (0, "a"))])) == []


def test_later_sends_of_one_producer_get_later_offsets() -> None:
    polls = [polled(FINAL, (0, "b"), (1, "a"))]
    assert kinds(History(sends=[sent("a", 1), sent("b", 0)], polls=polls)) == ["nonmonotonic-send"]
    assert kinds(History(sends=[sent("a", 1), sent("b", 0, producer="other")], polls=polls)) == []


def test_a_consumer_never_goes_back_within_a_session() -> None:
    polls = [polled("c", (0, "a"), (1, "b")), polled("c", (0, "a"))]
    assert kinds(History(polls=polls)) == ["nonmonotonic-poll"]
    elsewhere = [polled("c", (0, "a"), (1, "b")), polled("c", (0, "a"), session=1)]
    assert kinds(History(polls=elsewhere)) == []


@pytest.mark.parametrize("second_poll", [True, False], ids=["between polls", "within a poll"])
def test_a_consumer_is_never_led_past_a_record(second_poll: bool) -> None:
    skipping = [polled("c", (0, "a")), polled("c", (2, "c"))] if second_poll else [polled("c", (0, "a"), (2, "c"))]
    everything = polled(FINAL, (0, "a"), (1, "b"), (2, "c"))
    assert kinds(History(polls=[*skipping, everything])) == ["poll-skip"]


def test_a_gap_that_no_reader_saw_filled_is_no_skip() -> None:
    assert kinds(History(polls=[polled("c", (0, "a"), (2, "c"))])) == []


def test_a_group_never_gets_an_older_offset_than_it_committed() -> None:
    back: list[Commit | Fetched] = [Commit("g", ORDERS, 5), Commit("g", ORDERS, 9, "info"), Fetched("g", ORDERS, 4)]
    assert kinds(History(commits=back)) == ["commit-went-back"]
    assert kinds(History(commits=[*back[:2], Fetched("g", ORDERS, 9)])) == []
    assert kinds(History(commits=[*back[:2], Fetched("other", ORDERS, 0)])) == []


# Retention and compaction


def test_what_retention_removed_is_not_missed() -> None:
    sends = [sent("a", 0), sent("b", 1), sent("c", 2)]
    polls = [polled("c", (0, "a"), (2, "c")), polled(FINAL, (2, "c"))]
    assert kinds(History(sends=sends, polls=polls, start_offsets={ORDERS: 2})) == []
    assert kinds(History(sends=sends, polls=polls, start_offsets={ORDERS: 1})) == ["lost-write", "poll-skip"]


def test_what_compaction_may_remove_is_not_missed() -> None:
    sends = [sent("a1", 0, key="a"), sent("b1", 1, key="b"), sent("a2", 2, key="a")]
    history = History(sends=sends, polls=[polled(FINAL, (1, "b1"), (2, "a2"))], compacted={"orders"})
    assert kinds(history) == []


def test_compaction_must_keep_the_newest_of_each_key() -> None:
    sends = [sent("a1", 0, key="a"), sent("b1", 1, key="b"), sent("a2", 2, key="a")]
    history = History(sends=sends, polls=[polled(FINAL, (0, "a1"), (2, "a2"))], compacted={"orders"})
    assert kinds(history) == ["lost-write", "poll-skip"]
    history = History(sends=sends, polls=[polled(FINAL, (0, "a1"), (1, "b1"))], compacted={"orders"})
    assert kinds(history) == ["unseen"]


# Reading the file


def test_a_send_without_an_end_is_unknown() -> None:
    invoke = {"kind": "invoke", "what": "send", "process": "p", "partition": ["orders", 0]}
    events = [
        {**invoke, "id": 1, "value": "a", "key": "k"},
        {**invoke, "id": 2, "value": "b"},
        {"kind": "ok", "what": "send", "process": "p", "id": 1, "offset": 7},
    ]
    assert history_of(events).sends == [Send("p", ORDERS, "a", "ok", 7, "k"), Send("p", ORDERS, "b")]


# Anything may be lost, doubled or moved: the checker always sees it


@given(st.data())
def test_any_single_damage_to_a_log_is_seen(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 12))
    values = [f"v{number}" for number in range(size)]
    found = list(enumerate(values))
    victim = data.draw(st.integers(0, size - 1))
    match data.draw(st.sampled_from(["drop", "double", "replace", "shift"])):
        case "drop":
            del found[victim]
        case "double":
            found.append((size, values[victim]))
        case "replace":
            found[victim] = (victim, "stranger")
        case "shift":
            found = [(offset + (offset >= victim), value) for offset, value in found]
    history = History(sends=[sent(value, offset) for offset, value in enumerate(values)], polls=[polled(FINAL, *found)])
    assert check(history) != []

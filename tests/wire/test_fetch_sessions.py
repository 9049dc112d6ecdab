from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.fetch_sessions import EPOCH_MAX, EVICTABLE_AFTER_MS, Answered, FetchSessions, Plan
from headwater.wire.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionAnswer


def request(
    session: tuple[int, int], *offsets: int, topic: str = "orders", forget: tuple[int, ...] = ()
) -> FetchRequest:
    """Ask for partitions 0, 1, ... of a topic at these offsets."""
    partitions = [FetchPartition(number, -1, offset, 1000) for number, offset in enumerate(offsets)]
    topics = [FetchTopic(topic, partitions)] if partitions else []
    forgotten = [ForgottenTopic(topic, list(forget))] if forget else []
    return FetchRequest(-1, 0, 1, 1000, False, *session, topics, forgotten)


def answer(number: int, *, end: int = 10, size: int = 0, error: int = 0) -> Answered:
    records = [b"x" * size] if size else []
    watermark = -1 if error else end
    return Answered("orders", PartitionAnswer(number, error, watermark, 0, records, size))


def plan(sessions: FetchSessions, asked: FetchRequest, *, now_ms: int = 0, uses_ids: bool = False) -> Plan:
    found = sessions.plan(asked, uses_ids=uses_ids, now_ms=now_ms)
    assert isinstance(found, Plan), found
    return found


def opened(sessions: FetchSessions, *offsets: int, now_ms: int = 0) -> int:
    asked = plan(sessions, request((0, 0), *offsets), now_ms=now_ms)
    return asked.finish([answer(number) for number in range(len(offsets))])[0]


def wanted(asked: Plan) -> list[tuple[int, int]]:
    return [(one.partition.number, one.partition.offset) for one in asked.wanted]


def partitions_sent(found: tuple[int, list[Answered]]) -> list[int]:
    return [one.answer.number for one in found[1]]


def test_without_a_session_everything_is_answered_and_nothing_kept() -> None:
    sessions = FetchSessions()
    asked = plan(sessions, request((0, -1), 5, 6))
    assert wanted(asked) == [(0, 5), (1, 6)]
    assert asked.finish([answer(0), answer(1)]) == (0, [answer(0), answer(1)])
    assert len(sessions) == 0


def test_a_new_session_gets_an_id_and_a_full_answer() -> None:
    sessions = FetchSessions()
    session_id, answers = plan(sessions, request((0, 0), 5, 6)).finish([answer(0), answer(1)])
    assert session_id > 0
    assert len(answers) == 2


def test_the_next_fetch_names_only_what_changed() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5, 6)
    asked = plan(sessions, request((session_id, 1), 7))
    assert wanted(asked) == [(0, 7), (1, 6)]


def test_partitions_without_news_are_left_out() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5, 6, 7)
    asked = plan(sessions, request((session_id, 1)))
    assert partitions_sent(asked.finish([answer(0), answer(1, end=11), answer(2)])) == [1]


def test_records_errors_and_the_end_of_an_error_are_news() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5, 6)
    assert partitions_sent(
        plan(sessions, request((session_id, 1))).finish([answer(0, size=5), answer(1, error=3)])
    ) == [0, 1]
    assert partitions_sent(plan(sessions, request((session_id, 2))).finish([answer(1, error=3), answer(0)])) == [1]
    assert partitions_sent(plan(sessions, request((session_id, 3))).finish([answer(1), answer(0)])) == [1]
    assert partitions_sent(plan(sessions, request((session_id, 4))).finish([answer(1), answer(0)])) == []


def test_partitions_that_were_served_move_to_the_end() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5, 6, 7)
    plan(sessions, request((session_id, 1))).finish([answer(0, size=9), answer(1), answer(2)])
    assert [number for number, _ in wanted(plan(sessions, request((session_id, 2))))] == [1, 2, 0]


def test_forgotten_partitions_are_read_no_more() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5, 6)
    assert wanted(plan(sessions, request((session_id, 1), forget=(0,)))) == [(1, 6)]


def test_a_session_that_is_not_there_is_an_error() -> None:
    assert FetchSessions().plan(request((77, 1)), uses_ids=False, now_ms=0) is ErrorCode.fetch_session_id_not_found


def test_a_fetch_out_of_turn_is_an_error() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5)
    assert sessions.plan(request((session_id, 2)), uses_ids=False, now_ms=0) is ErrorCode.invalid_fetch_session_epoch


def test_names_and_ids_are_not_mixed_in_a_session() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5)
    assert sessions.plan(request((session_id, 1)), uses_ids=True, now_ms=0) is ErrorCode.fetch_session_topic_id_error


def test_a_session_is_closed_on_request() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5)
    assert plan(sessions, request((session_id, -1), 5)).finish([answer(0)])[0] == 0
    assert len(sessions) == 0


def test_a_session_can_be_replaced_by_a_new_one() -> None:
    sessions = FetchSessions()
    old = opened(sessions, 5)
    fresh, _ = plan(sessions, request((old, 0), 5)).finish([answer(0)])
    assert fresh not in (0, old)
    assert len(sessions) == 1


def test_when_there_is_no_room_the_client_continues_without_a_session() -> None:
    sessions = FetchSessions(sessions_max=2)
    opened(sessions, 5)
    opened(sessions, 5)
    assert opened(sessions, 5) == 0


def test_a_session_unused_for_long_makes_room() -> None:
    sessions = FetchSessions(sessions_max=2)
    first, second = opened(sessions, 5), opened(sessions, 5)
    plan(sessions, request((first, 1)), now_ms=EVICTABLE_AFTER_MS)
    third = opened(sessions, 5, now_ms=EVICTABLE_AFTER_MS)
    assert third > 0
    assert sessions.plan(request((second, 1)), uses_ids=False, now_ms=0) is ErrorCode.fetch_session_id_not_found


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    sessions = FetchSessions(partitions_max=3)
    session_id = opened(sessions, 5, 5)
    assert opened(sessions, 5, 5) == 0
    grown = sessions.plan(request((session_id, 1), 1, 2, 3, 4), uses_ids=False, now_ms=0)
    assert grown is ErrorCode.fetch_session_id_not_found
    assert opened(sessions, 5, 5, 5) > 0


def test_numbers_begin_again_after_the_last() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, 5)
    session: Any = sessions._sessions[session_id]
    session.epoch = EPOCH_MAX
    plan(sessions, request((session_id, EPOCH_MAX)))
    plan(sessions, request((session_id, 1)))


def test_ids_cannot_be_guessed_from_one_another() -> None:
    first, second = FetchSessions(), FetchSessions()
    assert opened(first, 5) != opened(second, 5)

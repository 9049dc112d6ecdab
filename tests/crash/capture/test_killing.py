"""The short form of `make torture`: captures, their node and their database killed, and every change once in order."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from headwater.log.commit_points import TOPIC, CommitPoint
from headwater.log.log import Log
from headwater.record import Record, TopicPartition
from tests.crash.capture.killing import Killing, Round, rounds
from tests.crash.capture.node_process import NODE
from tests.crash.capture.oracle import Event, boundaries, compare, cut_by_commit_points, differences

ROUNDS = 6


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_change_is_emitted_once_and_in_order_whichever_process_is_killed(tmp_path: Path) -> None:
    outcome = Killing(tmp_path, seed=1).run(islice(rounds(1), ROUNDS))
    assert outcome.anomalies == []
    assert outcome.rounds == ROUNDS
    assert sum(outcome.kills.values()) >= ROUNDS - 1
    assert outcome.changes > 500


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_node_that_is_killed_between_records_and_their_commit_point_writes_it_when_it_is_back(tmp_path: Path) -> None:
    strikes = [Round(NODE, "before commit point", nth) for nth in (1, 2, 5)]
    outcome = Killing(tmp_path, seed=2).run(iter(strikes))
    assert outcome.anomalies == []
    assert outcome.kills == {"node, before commit point": 3}


# -- the oracle itself: what it must not overlook
# -----------------------------------------------------------------------

EVENTS = [Event("c", 1, 10), Event("u", 1, 11), Event("c", 2, 12), Event("d", 1)]


@pytest.mark.parametrize(
    "events",
    [
        [*EVENTS[:2], EVENTS[1], *EVENTS[2:]],
        [EVENTS[0], *EVENTS[2:]],
        EVENTS[:-1],
        [EVENTS[1], EVENTS[0], *EVENTS[2:]],
        [*EVENTS[:2], Event("r", 1, 10), *EVENTS[2:]],
        [*EVENTS, Event("c", 3, 13)],
    ],
    ids=["twice", "missing", "missing-at-the-end", "out-of-order", "an-old-row-read", "made-up"],
)
def test_the_oracle_sees_a_change_that_is(events: list[Event]) -> None:
    assert len(differences("users", EVENTS, events)) == 1


def test_the_oracle_accepts_what_is_right() -> None:
    assert differences("users", EVENTS, [Event("r", 7, 1), *EVENTS[:2], Event("r", 1, 11), *EVENTS[2:]]) == []


def test_the_oracle_demands_the_end_of_every_row_of_a_truncated_table() -> None:
    expected = [Event("c", 1, 10), Event("c", 2, 11), Event("t"), Event("c", 3, 12)]
    events = [*expected[:2], Event("d", 2), Event("d", 1), expected[3]]
    assert differences("users", expected, events) == []
    assert len(differences("users", expected, [*expected[:2], Event("d", 2), expected[3]])) == 1


def test_the_oracle_compares_rows_by_what_the_table_has_now() -> None:
    table: dict[str, dict[str, Any]] = {"1": {"id": 1, "added": None}, "2": {"id": 2, "added": 5}}
    assert compare("users", table, {"1": {"id": 1, "dropped": 3}, "2": {"id": 2, "added": 5}}) == []
    assert len(compare("users", table, {"1": {"id": 1}, "2": {"id": 2}, "3": {"id": 3}})) == 2


def test_the_oracle_demands_that_transactions_begin_and_end_once() -> None:
    def records_of(*written: tuple[str, str]) -> list[Record]:
        return [Record(json.dumps({"status": status, "id": id}).encode()) for status, id in written]

    begin, end, other = ("BEGIN", "1:1"), ("END", "1:1"), ("BEGIN", "2:2")
    assert boundaries("t", records_of(begin, end, other, ("END", "2:2"))) == []
    for broken in ([begin], [begin, begin, end], [begin, other], [end], [begin, end, begin, end]):
        assert len(boundaries("t", records_of(*broken))) == 1


@pytest.mark.parametrize(
    "ends, complaints", [([2, 1], 0), ([2, 0], 2), ([1, 1], 2), ([0, 0], 1)],
    ids=["whole", "another-partition", "one-partition", "not-at-the-end"],
)  # fmt: skip
def test_the_oracle_sees_a_commit_point_that_cuts_a_transaction(
    ends: list[int], complaints: int, tmp_path: Path
) -> None:
    with Log.open(tmp_path) as log:
        log.create_topic("users", partitions=2)
        log.create_topic(TOPIC)
        for partition, number in ((0, 1), (0, 2), (1, 3)):
            log.append("users", [Record(b"{}", headers=(("position", b"5/4/%d" % number),))], partition=partition)
        point = CommitPoint(1, {TopicPartition("users", number): end for number, end in enumerate(ends)})
        log.append(TOPIC, [Record(point.to_value(), b"shop")])
        assert len(cut_by_commit_points(log)) == complaints

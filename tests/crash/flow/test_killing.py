"""The short form of `make torture`, for jobs: each of the six moments, every kind of process."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.crash.flow import shop
from tests.crash.flow.bounds import LOWERED, SMALL_BLOCKS, SPLIT
from tests.crash.flow.killing import ENDS, Killing
from tests.crash.flow.moments import POINTS, TABLES
from tests.crash.flow.round_schedule import Round, Strike, scheduled_rounds

ROWS_PER_ROUND = 50
PROVED = (shop.NAMED, "revenue")
ROUNDS = (
    Round([Strike("preparing, worker"), Strike("state published", 2)], [SMALL_BLOCKS, SPLIT]),
    # Among them are batches that come again, in another way; and without Spark, which starts more slowly than all that
    # these rounds are about.
    Round(
        [Strike("joining events, worker"), Strike("pairing a slice, worker"), Strike("all sinks written, jvm")], [SPLIT]
    ),
    Round([Strike("topic written")], without_spark=True),
    Round([Strike("planned")], without_spark=True),
    Round([Strike("settled, node")], without_spark=True),
    Round([Strike("state moved")], without_spark=True),
    Round([Strike("topic written")], app=TABLES, without_spark=True),
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_that_is_killed_again_and_again_writes_each_row_once(tmp_path: Path, postgres_url: str) -> None:
    killing = Killing(tmp_path, seed=1, store=postgres_url, rows=ROWS_PER_ROUND, proved=PROVED)
    outcome = killing.run(ROUNDS)
    assert outcome.anomalies == []
    assert outcome.missed == {}
    assert sorted(outcome.kills.elements()) == sorted(strike.name for one in ROUNDS for strike in one.strikes)


def test_the_short_form_kills_at_each_of_the_named_points_and_every_kind_of_process() -> None:
    points = [POINTS[strike.name] for one in ROUNDS for strike in one.strikes]
    assert {point.named for point in points} == {point.named for point in POINTS.values()}
    assert {point.victim for point in points} == set(ENDS)


def test_rounds_go_the_ways_of_many_rows_by_turns_and_where_a_point_lies_in_one() -> None:
    rounds = list(islice(scheduled_rounds(Random(1), Counter()), 60))
    for name in LOWERED:
        assert 15 < sum(name in one.lowered for one in rounds) < 45
    for one in rounds:
        assert {POINTS[strike.name].lowered for strike in one.strikes} <= {None, *one.lowered}
        assert not {way for strike in one.strikes for way in POINTS[strike.name].spoiled_by} & {*one.lowered}


def test_every_point_has_had_its_turn_before_one_comes_again() -> None:
    kills = Counter[str]()
    rounds = 0
    for one in scheduled_rounds(Random(1), kills):
        kills.update(strike.name for strike in one.strikes)
        rounds += 1
        if len(kills) == len(POINTS):
            break
    assert set(kills.values()) == {1}
    assert rounds <= len(POINTS)


def test_a_point_that_was_missed_has_another_turn_at_its_first_moment() -> None:
    kills = Counter[str]()
    rounds = scheduled_rounds(Random(1), kills)
    missed = next(rounds).strikes
    rest = [strike for _ in range(len(POINTS)) for strike in _struck(next(rounds), kills)]
    assert Strike(missed[0].name) in rest


def _struck(now: Round, kills: Counter[str]) -> Sequence[Strike]:
    kills.update(strike.name for strike in now.strikes)
    return now.strikes

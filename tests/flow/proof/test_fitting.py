"""A proof of few rows, or a replay of few, does not start two hundred tasks for each shuffle."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.flow.commit.batch_evaluation import SHUFFLE_PARTITIONS
from headwater.flow.commit.job_context import Environment
from headwater.flow.late import late_replay
from headwater.flow.proof.verification import ROWS_PER_PARTITION, fit_shuffle

CORES = 4


def partitions(rows: int, chosen: dict[str, str] | None = None) -> str:
    """That a session has after a proof over as many rows was begun."""
    conf = {SHUFFLE_PARTITIONS: "200", **(chosen or {})}
    context = SimpleNamespace(
        getConf=lambda: SimpleNamespace(contains=(chosen or {}).__contains__), defaultParallelism=CORES
    )
    session: Any = SimpleNamespace(
        sparkContext=context,
        conf=SimpleNamespace(get=conf.get, set=lambda name, value: conf.update({name: str(value)})),
    )
    fit_shuffle(session, {"orders": {0: rows - 1}})
    return conf[SHUFFLE_PARTITIONS]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, CORES), (CORES * ROWS_PER_PARTITION, CORES), (20 * ROWS_PER_PARTITION + 1, 21), (10**9, 200)],
)
def test_shuffles_have_as_many_partitions_as_rows_need_and_one_for_each_core(rows: int, expected: int) -> None:
    assert partitions(rows) == str(expected)


def test_a_number_that_the_user_has_set_stays() -> None:
    assert partitions(1, {SHUFFLE_PARTITIONS: "64"}) == "64"


def test_late_rows_to_be_replayed_are_counted_in_a_session_that_fits_their_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted: list[tuple[object, Any]] = []
    client: Any = SimpleNamespace(
        partitions=lambda topics: dict.fromkeys(topics, 1), offsets=lambda times: dict.fromkeys(times, 7)
    )
    counts = SimpleNamespace(collect=lambda: [{"operator": "minutes", "count": 3}])
    late = SimpleNamespace(groupBy=lambda name: SimpleNamespace(count=lambda: counts))
    monkeypatch.setattr(late_replay, "cloned", lambda session: f"a session like {session}")
    monkeypatch.setattr(late_replay, "late_rows", lambda own, *given: late)
    monkeypatch.setattr(late_replay, "fit_shuffle", lambda session, position: fitted.append((session, position)))
    node: Any = object()
    job = SimpleNamespace(name="orders", operators={node: "minutes"})
    context: Any = SimpleNamespace(job=job, app="shop", folder=None)
    session: Any = "the job's"
    replay = late_replay.LateReplay(context, Environment(session, client, {}))
    assert replay.outstanding(4) == {node: 3}
    assert fitted == [("a session like the job's", {"shop.orders.late": {0: 7}})]

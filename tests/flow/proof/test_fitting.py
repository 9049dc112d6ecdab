"""A proof of few rows does not start two hundred tasks for each shuffle."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.flow.commit.batch_evaluation import SHUFFLE_PARTITIONS
from headwater.flow.proof.verification import ROWS_PER_PARTITION, _fit_shuffle

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
    _fit_shuffle(session, {"orders": {0: rows - 1}})
    return conf[SHUFFLE_PARTITIONS]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, CORES), (CORES * ROWS_PER_PARTITION, CORES), (20 * ROWS_PER_PARTITION + 1, 21), (10**9, 200)],
)
def test_shuffles_have_as_many_partitions_as_rows_need_and_one_for_each_core(rows: int, expected: int) -> None:
    assert partitions(rows) == str(expected)


def test_a_number_that_the_user_has_set_stays() -> None:
    assert partitions(1, {SHUFFLE_PARTITIONS: "64"}) == "64"

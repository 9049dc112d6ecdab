"""Executors that cannot do the work of flows are refused before the first batch, in one sentence."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from headwater.errors import FlowError
from headwater.flow.executors import readiness
from headwater.flow.executors.readiness import (
    Answer,
    ReadinessTask,
    own_python,
    own_versions,
    refuse_unfit,
    wait_for_executors,
)

FIT = Answer("w1", own_python(), own_versions(), shared=True)
FOLDER = Path("/data/flows")


def test_executors_like_the_driver_are_taken() -> None:
    refuse_unfit([FIT, replace(FIT, host="w2")], FOLDER)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (replace(FIT, host="w2", python="3.9"), "executors on w2 run Python 3.9, and the driver runs 3"),
        (
            replace(FIT, host="w2", versions={**own_versions(), "pyarrow": "1.0"}),
            "executors on w2 have .*pyarrow 1.0, and the driver has ",
        ),
        (
            replace(FIT, host="w2", versions={**own_versions(), "numba": "missing"}),
            "executors on w2 have numba missing, .*headwater itself is sent along",
        ),
        (replace(FIT, host="w2", shared=False), "executors on w2 do not see /data/flows as the driver does"),
    ],
)
def test_one_that_differs_is_named(wrong: Answer, sentence: str) -> None:
    with pytest.raises(FlowError, match=sentence):
        refuse_unfit([FIT, wrong], FOLDER)


def test_a_folder_is_shared_where_a_task_reads_what_the_driver_wrote(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("as it is")
    assert ReadinessTask(str(tmp_path / "token"), "as it is").answer().shared
    assert not ReadinessTask(str(tmp_path / "token"), "of another run").answer().shared
    assert not ReadinessTask(str(tmp_path / "elsewhere" / "token"), "as it is").answer().shared
    assert [one.name for one in tmp_path.iterdir()] == ["token"]


class Passing:
    """A clock on which a second passes whenever it is looked at."""

    def __init__(self) -> None:
        self._ms = 0

    def now_ms(self) -> int:
        return self.elapsed_ms()

    def elapsed_ms(self) -> int:
        self._ms += 1_000
        return self._ms


def session_with(executors: Iterator[int]) -> Any:
    """A session that has so many executors each time it is asked, of two cores each; the driver counts as one too."""
    context = MagicMock(master="spark://m:7077", defaultParallelism=0)

    def asked() -> int:
        count = next(executors)
        context.defaultParallelism = 2 * count
        return 1 + count

    context._jsc.sc().getExecutorMemoryStatus().size.side_effect = asked
    return MagicMock(sparkContext=context)


def test_work_begins_when_no_more_executors_come() -> None:
    counts = [0, 0, 1, 2, 2, 3]
    left = chain(counts, repeat(3))
    session = session_with(left)
    wait_for_executors(session, Passing())
    assert session.sparkContext.defaultParallelism == 6


def test_a_cluster_without_free_executors_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "LOOK_SECONDS", 0)
    with pytest.raises(
        FlowError, match=r"no executor has come from spark://m:7077 within 300 s\. .*spark\.driver\.host"
    ):
        wait_for_executors(session_with(repeat(0)), Passing())

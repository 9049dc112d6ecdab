"""Rows that tasks stage: a job that crashes while it publishes them has each once, also if the batch comes again in
another way; and bugs in that are found."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.flow.commit import stage_task
from headwater.flow.sinks.parquet import ParquetSink
from headwater.testing import running_node
from tests.crash.flow import crashing
from tests.crash.flow.crashing import Crash, Life
from tests.crash.flow.moments import RENAME, TOPIC_SEND, Moment
from tests.crash.planting import plant
from tests.flow.engines import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MOMENTS = {
    "all is staged": (Moment("headwater.flow.operate.job_operators:Operators.commit"), 1),
    "a file is renamed": (Moment(RENAME, after=True), 1),
    "records are sent": (Moment(TOPIC_SEND, after=True), 2),
}
MANY = 5_000


@pytest.fixture
def life(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """Batches are staged; one that comes again after a crash is given to the driver, and the next is staged again."""

    def crash_and_go_another_way() -> None:
        monkeypatch.setattr(stage_task, "FEW_ROWS", MANY)
        raise Crash

    monkeypatch.setattr(stage_task, "FEW_ROWS", 0)
    monkeypatch.setattr(crashing, "crash", crash_and_go_another_way)
    with running_node(tmp_path / "data") as node:
        yield Life(engine, node)


def crashed(life: Life, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """What is wrong after batches that crashed at some moments."""
    life.step()
    for moment, nth in (MOMENTS[name] for name in names):
        life.step(crash_at=moment, nth=nth)
        monkeypatch.setattr(stage_task, "FEW_ROWS", 0)
    life.step()
    return life.differences()


def test_a_job_that_crashes_while_it_publishes_what_tasks_staged_has_each_row_once(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert crashed(life, monkeypatch, "a file is renamed") == []


@pytest.mark.torture
@pytest.mark.parametrize("name", MOMENTS)
def test_at_each_of_the_moments(life: Life, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert crashed(life, monkeypatch, name) == []


@pytest.mark.torture
def test_files_of_a_batch_that_comes_again_with_other_names(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ParquetSink, "publish", 'stored.get("unfinished", ())', "()")
    assert any(sentence.startswith("files ") for sentence in crashed(life, monkeypatch, "a file is renamed"))

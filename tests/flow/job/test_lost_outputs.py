"""An output that does not know of the last finished batch has lost what it held."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.errors import JobRefused
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.job_context import JobContext
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.deploy.deployment import refuse_foreign_outputs


class Held:
    def __init__(self, batch: int | None, *, exactly_once: bool = True) -> None:
        self.batch, self.exactly_once = batch, exactly_once

    def committed(self, job: str) -> int | None:
        return self.batch


def started(tmp_path: Path, sink: Held, *, of_batch: str = "totals") -> None:
    folder = JobFolder(tmp_path)
    mine = identify(folder, app="shop", job="orders", cluster="one", shards=1)
    folder.finish(BatchRecord(3, {}, {"orders": {0: 10}}, {of_batch: Account()}))
    planned = SimpleNamespace(name="totals", output=SimpleNamespace(kind="topic"), node=SimpleNamespace(keyed=False))
    job: Any = SimpleNamespace(outputs=[planned])
    sinks: Any = {"totals": sink}
    refuse_foreign_outputs(JobContext("shop", job, {}, mine, folder), sinks)


def test_one_that_was_part_of_the_last_batch_and_holds_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match="holds nothing of this job, which has finished batch 3"):
        started(tmp_path, Held(None))


@pytest.mark.parametrize("sink", [Held(3), Held(4), Held(None, exactly_once=False)])
def test_one_that_knows_of_it_or_keeps_no_count_is_not(tmp_path: Path, sink: Held) -> None:
    started(tmp_path, sink)


def test_one_that_is_new_has_lost_nothing(tmp_path: Path) -> None:
    started(tmp_path, Held(None), of_batch="another")

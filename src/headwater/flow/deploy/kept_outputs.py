"""Which outputs the jobs of an app have kept up to date, as their folders say. Needs neither Spark nor a node.

Each job notes in plan.json what its outputs were made from when it last ran (code_changes.py reads it). An output that
is noted there is written again by the next run, unless the code has changed.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from headwater.errors import JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import SINK, TOPIC, VIEW
from headwater.flow.deploy.inventory import KeptJob, jobs_in
from headwater.views.locations import ViewLocation

PLAN, REPLACED = "plan.json", "replaced"
SEARCH = ".search"
"""Behind the name of a view: the output that indexes its words."""


class Left(NamedTuple):
    """An output that an app no longer declares, and that is still there."""

    kind: str
    name: str
    app: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} is no longer declared; {self.way_out}"

    @property
    def way_out(self) -> str:
        if self.kind == VIEW:
            return f'it stays as it is until "headwater view drop {self.app}.{self.name}"'
        if self.kind == TOPIC:
            return f'it stays as it is until "headwater topic delete {self.name}"'
        return "what it has written stays as it is"


def outputs_of(job: KeptJob) -> dict[str, str]:
    """Name → kind, as of the last run."""
    return {name: str(said.get("kind", SINK)) for name, said in _plan(job.folder)["outputs"].items()}


def writer_of(data: Path, app: str, output: str) -> KeptJob | None:
    """The job that writes an output; None if no job did when it last ran."""
    return next((job for job in jobs_in(data) if job.app == app and output in outputs_of(job)), None)


@contextmanager
def at_rest(job: KeptJob) -> Iterator[JobFolder]:
    """The folder of a job that does not run while we change it, nor has begun a batch that it has not finished."""
    folder = job.folder
    folder.lock()
    try:
        folder.take()
        last = folder.last_finished()
        begun = last.batch + 1 if last else 0
        if folder.planned_or_none(begun) is not None:
            raise JobRefused(
                f"job {job} has begun batch {begun} and not finished it", "Run the app once more with --once, then ask."
            )
        yield folder
    finally:
        folder.unlock()


def forget_output(folder: JobFolder, name: str) -> None:
    """To the next run it is new."""
    plan = _plan(folder)
    kept = {one: said for one, said in plan["outputs"].items() if one not in (name, name + SEARCH)}
    folder.write(PLAN, {**plan, "outputs": kept})
    shutil.rmtree(folder.path / REPLACED / name, ignore_errors=True)


def rename_output(folder: JobFolder, name: str, new: str) -> None:
    """To the next run, the output of the new name is what the old one was."""
    plan = _plan(folder)
    names = {name: new, name + SEARCH: new + SEARCH}
    folder.write(PLAN, {**plan, "outputs": {names.get(one, one): said for one, said in plan["outputs"].items()}})


def left_over(data: Path, app: str, declared: Collection[str], places: Collection[ViewLocation]) -> list[Left]:
    """What jobs of the app have written, and `places` still hold, that is not among what is declared."""
    found: dict[str, Left] = {}
    for job in (job for job in jobs_in(data) if job.app == app):
        for name, kind in outputs_of(job).items():
            found[name] = Left(kind, name, app)
    for place in places:
        store = place.open()
        try:
            found |= {name: Left(VIEW, name, app) for name in store.views()}
        finally:
            store.close()
    return sorted(one for name, one in found.items() if name not in declared and not name.endswith(SEARCH))


def _plan(folder: JobFolder) -> dict[str, Any]:
    return folder.read(PLAN) or {"outputs": {}, "operators": {}}

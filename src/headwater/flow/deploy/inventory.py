"""Which jobs a data directory holds, and what their operators keep. Reads files; needs neither Spark nor a node."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headwater.errors import FlowError, StateMissing
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.commit.job_identity import FILE
from headwater.flow.state.inspecting import VersionSummary, describe
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.store import StateStore, read_manifest, versions_of
from headwater.small_file import small_files

FLOWS = "flows"
ATTEMPTS = 3


@dataclass(frozen=True)
class LastBatch:
    record: BatchRecord
    seconds: float
    """From when it was planned to when all its outputs held it."""
    finished_ms: int


@dataclass(frozen=True)
class KeptJob:
    app: str
    name: str
    path: Path

    def __str__(self) -> str:
        return f"{self.app}.{self.name}"

    @property
    def folder(self) -> JobFolder:
        return JobFolder(self.path)

    def last_batch(self) -> LastBatch | None:
        folder = self.folder
        record = folder.last_finished()
        if record is None:
            return None
        finished_ms = folder.finished_ms(record.batch)
        try:
            planned_ms = folder.planned(record.batch).time_ms
        except FileNotFoundError:  # Spark keeps fewer batches than we do
            planned_ms = finished_ms
        return LastBatch(record, (finished_ms - planned_ms) / 1000, finished_ms)

    def operators(self) -> "list[KeptOperator]":
        folder = self.folder
        return [KeptOperator(self, name, folder) for name in folder.operators()]


@dataclass(frozen=True)
class KeptOperator:
    """The state of one operator."""

    job: KeptJob
    name: str
    folder: JobFolder

    def __str__(self) -> str:
        return f"{self.job}.{self.name}"

    @property
    def where(self) -> str:
        return self.folder.state_files(self.name).url

    @property
    def store(self) -> StateStore:
        """To look into; what its versions hold they say themselves."""
        nothing = StateSchema(pa.schema([]), pa.schema([]))
        return StateStore(self.folder.state_files(self.name), nothing, shards=1)

    def versions(self) -> list[VersionSummary]:
        """From the oldest to the newest; a running job takes old ones away while we look."""
        for _ in range(ATTEMPTS - 1):
            try:
                return describe(self.store.files)
            except StateMissing:
                continue
        return describe(self.store.files)

    def newest(self) -> VersionSummary | None:
        found = self.versions()
        return found[-1] if found else None

    def key(self) -> list[str]:
        files = self.store.files
        versions = versions_of(files)
        if not versions:
            raise FlowError(f"{self} has no state yet", "Run the app first.")
        return list(read_manifest(files, versions[-1]).schema.key.names)

    def check(self) -> list[str]:
        """A sentence for each file that is damaged or missing. One that a running job has just removed is no damage."""
        problems = self._problems()
        if not problems:
            return []
        still = self._problems()
        return [problem for problem in problems if problem in still]

    def _problems(self) -> list[str]:
        for _ in range(ATTEMPTS - 1):
            try:
                return self.store.check()
            except StateMissing:
                continue
        return self.store.check()


def jobs_in(data: Path) -> list[KeptJob]:
    """Every job that has a checkpoint here, by name."""
    found = (place.parent for place in small_files(data / FLOWS, f"*/*/{FILE}"))
    return [KeptJob(path.parent.name, path.name, path) for path in sorted(found)]


def checkpoint_of(data: Path, app: str, job: str) -> JobFolder | None:
    """The folder of a job that has run; None if it never did."""
    path = data / FLOWS / app / job
    return JobFolder(path) if small_files(path, FILE) else None


def chosen(data: Path, name: str) -> tuple[list[KeptJob], list[KeptOperator]]:
    """The jobs and operators that APP, APP.JOB or APP.JOB.OPERATOR names; all of them for "".

    Names may have dots in them, so that each is compared as a whole.
    """
    jobs = jobs_in(data)
    operators = [operator for job in jobs for operator in job.operators()]
    if name:
        asked = [operator for operator in operators if name in (operator.job.app, str(operator.job), str(operator))]
        named = [job for job in jobs if name in (job.app, str(job)) or any(one.job == job for one in asked)]
        if not named:
            known = ", ".join(sorted({*map(str, jobs), *map(str, operators)})) or "none"
            raise FlowError(f"there is no app, job or operator {name} in {data}", f"There are: {known}.")
        return named, asked
    return jobs, operators

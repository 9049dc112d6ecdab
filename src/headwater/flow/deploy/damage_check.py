"""What is damaged of the folders of jobs, for `headwater log check`. Reads files, without Spark; changes nothing."""

from collections.abc import Iterator
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.flow.commit import job_identity as identity
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.declare.topology.naming import accounts_topic
from headwater.flow.deploy import kept_outputs
from headwater.flow.deploy.inventory import FLOWS, KeptJob
from headwater.flow.run import health
from headwater.flow.state.manifest import path_of_version
from headwater.log.storage import LocalStorage, problems_of, read_small_file
from headwater.small_file import small_files
from headwater.views.locations import known_apps
from headwater.views.own_postgres import kept_in_postgres, runs
from headwater.views.store import open_store

SMALL_FILES = ("*.json", "batches/*.json", "sinks/*.json", "rebuild/*.json", "rebuild/*/*.json", "stage/wish.json")
OF_A_JOB = ("batches", "identity.json", "identity.copy", "planned.json", "planned.copy")
"""By any of which the folder of a job is known, whichever others are missing."""


def problems(data: Path) -> list[str]:
    """One sentence for each damaged or missing file; it names the file."""
    folders = {path.parent for name in OF_A_JOB for path in (data / FLOWS).glob(f"*/*/{name}")}
    return [problem for folder in sorted(folders) for problem in _JobCheck(data, folder).problems()]


class _JobCheck:
    def __init__(self, data: Path, path: Path) -> None:
        self._data, self._path = data, path
        self._job = KeptJob(path.parent.name, path.name, path)

    def problems(self) -> list[str]:
        found = list(self._small_files())
        for part in (self._identity, self._plans, self._state, self._views):
            try:
                found += part()
            except HeadwaterError as error:
                found.append(str(error))
        return list(dict.fromkeys(found))

    @property
    def _folder(self) -> JobFolder:
        return JobFolder(self._path)

    def _last(self) -> BatchRecord | None:
        return self._folder.last_finished()

    def _small_files(self) -> Iterator[str]:
        storage = LocalStorage(self._data)
        for pattern in SMALL_FILES:
            for path in small_files(self._path, pattern):
                yield from problems_of(storage, str(path.relative_to(self._data)))

    def _identity(self) -> Iterator[str]:
        """What a job that has finished batches cannot be without; one of an earlier release kept no health."""
        last = self._last()
        if last is None:
            return
        old = read_small_file(LocalStorage(self._path), f"batches/{last.batch}.json").version == 0
        accounts = f"sinks/{accounts_topic(self._job.app)}.json"
        for name in (identity.FILE, kept_outputs.PLAN, *(() if old else (health.FILE, accounts))):
            if not small_files(self._path, name):
                yield f"{self._path / name} is missing, and job {self._job} has finished batches"

    def _plans(self) -> Iterator[str]:
        self._folder.last_planned()
        yield from ()

    def _state(self) -> Iterator[str]:
        last, described = self._last(), self._folder.read(kept_outputs.PLAN) or {"operators": {}}
        if last is not None and described["operators"] and not (self._folder.kept_at or self._folder.state.is_dir()):
            yield f"{self._folder.state} is missing, and job {self._job} has finished batches"
        for operator in self._job.operators():
            yield from operator.check()
            # An operator that the app no longer has stays at an older version.
            ours = operator.name.split(".")[0] in described["operators"]
            if last is not None and ours and last.batch not in operator.store.versions():
                yield f"{operator.where}/{path_of_version(last.batch)} is missing"

    def _views(self) -> Iterator[str]:
        """A view beside the log holds what its job has finished."""
        last, app = self._last(), known_apps(self._data).get(self._job.app)
        if last is None or app is None:
            return
        if kept_in_postgres(self._data, self._job.app) and not runs(self._data):
            return  # there is nothing to ask: the server runs with the node, and the check runs without one
        store = open_store(self._data, self._job.app, read_only=True)
        try:
            for name in (name for name in app.views if name in last.accounts):
                mark = store.mark(name)
                held = "nothing" if mark is None else f"batch {mark.batch}"
                if mark is None or mark.batch < last.batch:
                    yield f"{store.where} is not of this age: view {name} holds {held}, its job ended {last.batch}"
        finally:
            store.close()

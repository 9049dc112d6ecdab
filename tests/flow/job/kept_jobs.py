"""Folders of jobs as runs leave them behind, made without Spark."""

from pathlib import Path

from headwater.flow.commit.accounts import Account
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.deploy.inventory import KeptJob
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.state import EMPTY
from headwater.flow.state.files import DiskFiles
from tests.flow.state.subjects import Content, content_of, run_batch, store_on

COUNTS: Content = {key: key * 10 for key in range(20)}
NEWEST: Content = {key: key + 7 for key in range(0, 30, 3)}


def kept_job(data: Path, app: str = "shop", job: str = "orders", *, shards: int = 2) -> KeptJob:
    """A job that has finished batches 0 and 1, with two operators."""
    folder = JobFolder(data / "flows" / app / job)
    identity = {"app": app, "job": job, "cluster": "c", "number": "n", "shards": shards, "place": str(folder.path)}
    folder.write("identity.json", identity)
    for operator, content in (("counts", COUNTS), ("newest", NEWEST)):
        store = store_on(DiskFiles.at(str(folder.state / operator)), shards)
        run_batch(store, 0, {**dict.fromkeys(content, 1), 100: 1}, EMPTY)
        run_batch(store, 1, {**content, 100: None})
    for batch in (0, 1):
        finish(folder, batch)
    return KeptJob(app, job, folder.path)


def finish(folder: JobFolder, batch: int) -> None:
    start, end = ({"orders": {0: 10 * number}} for number in (batch, batch + 1))
    folder.plan(PlannedBatch(batch, start, end, time_ms=1_700_000_000_000))
    account = Account(rows_in=10, rows_out=8, filtered=2)
    folder.finish(BatchRecord(batch, {}, end, {"counts": account}))


def contents(job: KeptJob, version: int = 1) -> dict[str, Content]:
    """What each operator holds, read with the job's own number of shards."""
    identity = JobFolder(job.path).read("identity.json")
    assert identity is not None
    stores = {one.name: store_on(DiskFiles.at(one.where), identity["shards"]) for one in job.operators()}
    for store in stores.values():
        store.begin(version)  # refuses another number of shards
    return {name: content_of(store, version) for name, store in stores.items()}


def damage(job: KeptJob, operator: str) -> Path:
    """Change one byte in the newest run of an operator."""
    file = max((job.path / "state" / operator / "runs").glob("*.arrow"), key=lambda file: file.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file

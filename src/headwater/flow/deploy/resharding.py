"""Change the number of shards of a job that does not run: all its operators, then its identity.

    resharding.json   written first: from here on the change is only carried out, never undone
    state/*           each operator at the last finished batch, in the new number of shards (flow/state/resharding.py)
    identity.json     the number that the next batch works with
    resharding.json   removed

A crash leaves resharding.json. Then some operators have the new number and some the old, and no batch may run:
the next start of the job, or the same command again, carries on. Every step may be done twice.
"""

from dataclasses import dataclass

from headwater.errors import InvalidSetting, JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import FILE as IDENTITY
from headwater.flow.deploy.inventory import KeptJob, KeptOperator
from headwater.flow.state.manifest import EMPTY
from headwater.flow.state.resharding import SHARDS_MAX, reshard

NOTE = "resharding.json"


@dataclass(frozen=True)
class Resharded:
    before: int
    after: int
    operators: tuple[str, ...]
    """Whose state was rewritten."""


def reshard_job(job: KeptJob, shards: int) -> Resharded:
    """JobRefused if the job runs, or has a batch under way whose rows may be in outputs already."""
    if shards < 1 or shards > SHARDS_MAX or shards & (shards - 1):
        raise InvalidSetting("shards", shards, f"it must be a power of two: 1, 2, 4 and so on, up to {SHARDS_MAX}")
    folder = job.folder
    folder.lock()
    try:
        folder.take()
        _refuse_unfinished(job, folder)
        folder.write(NOTE, {"shards": shards})
        return _carry_out(job, folder, shards)
    finally:
        folder.unlock()


def finish_resharding(folder: JobFolder) -> None:
    """Carry on with a change that a crash has cut short, if there is one. The caller holds the lock."""
    note = folder.read(NOTE)
    if note is not None:
        _carry_out(KeptJob(folder.path.parent.name, folder.path.name, folder.path), folder, note["shards"])


def _refuse_unfinished(job: KeptJob, folder: JobFolder) -> None:
    batch = _last_batch(folder)
    ahead = [one for one in _operators(job, folder) if any(version > batch for version in one.store.versions())]
    if ahead:
        # Outputs take rows in the order in which shards give them: half a batch must be finished as it was begun.
        raise JobRefused(
            f"batch {batch + 1} of job {job} has begun and is not finished",
            'Finish it with "headwater run APP.py --once", then reshard.',
        )
    if any((folder.path / "rebuild").glob("*")):
        raise JobRefused(
            f"an output of job {job} is being rebuilt", 'Finish that with "headwater run APP.py --once", then reshard.'
        )


def _operators(job: KeptJob, folder: JobFolder) -> list[KeptOperator]:
    """As the driver that has taken the job sees them."""
    return [KeptOperator(job, name, folder) for name in folder.operators()]


def _last_batch(folder: JobFolder) -> int:
    last = folder.last_finished()
    return EMPTY if last is None else last.batch


def _carry_out(job: KeptJob, folder: JobFolder, shards: int) -> Resharded:
    identity = folder.read(IDENTITY)
    if identity is None:
        raise JobRefused(f"{folder.path} has lost its {IDENTITY}", "Restore the file, or remove the folder.")
    batch = _last_batch(folder)
    changed = tuple(one.name for one in _operators(job, folder) if _reshard_operator(one, batch, shards))
    before = identity["shards"]
    folder.write(IDENTITY, {**identity, "shards": shards})
    folder.remove(NOTE)
    return Resharded(before, shards, changed)


def _reshard_operator(operator: KeptOperator, batch: int, shards: int) -> bool:
    """Operators that an app no longer has stay at an older version, and are left as they are."""
    store = operator.store
    if batch not in store.versions() or len(store.manifest(batch).shards) == shards:
        return False
    reshard(store, batch, shards)
    return True

"""Jobs that go from the process that runs them to another, between two batches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

from headwater.errors import JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.deploy.inventory import jobs_in
from headwater.flow.run import control

LOOK_SECONDS, REPORT_EVERY = 0.1, 100


def taken(data: Path, app: str) -> list[JobFolder]:
    """The folders of the jobs of an app that another process runs."""
    return [one.folder for one in jobs_in(data) if one.app == app and _owner(one.folder)]


def hand_over(
    folders: Sequence[JobFolder], data: Path, app: str, report: Callable[[str], None], stopping: Event
) -> None:
    """Ask the process that runs the jobs for them, and return when it has let all of them go, or has ended."""
    if folders:
        control.ask(data, app, "hand over")
    for folder in folders:
        looks = 0
        while (owner := _owner(folder)) and not stopping.wait(LOOK_SECONDS):
            if looks % REPORT_EVERY == 0:
                report(f"job {folder.path.name}: {owner}; it is handed over after its batch")
            looks += 1


def _owner(folder: JobFolder) -> str:
    """Who runs the job, in words; "" if no process does."""
    try:
        folder.lock()
    except JobRefused as refusal:
        return str(refusal.args[0])
    folder.unlock()
    return ""

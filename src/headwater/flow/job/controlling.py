"""What somebody asked of a job while it runs: to pause, to go on, to start anew. Needs no Spark.

<job>/control.json    {"paused": true, "restarts": 3}, written by whoever asks, read by the process that runs the job

It outlives the process: a job that is paused stays so when its app is run again, until somebody lets it go on.
"""

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headwater.errors import UnknownFlow
from headwater.flow.declare.naming import group_of
from headwater.flow.job.inventory import jobs_in
from headwater.log.storage.local import LocalStorage
from headwater.log.storage.storage import replace_durably

FILE = "control.json"


@dataclass(frozen=True)
class Control:
    paused: bool = False
    restarts: int = 0
    """How often somebody asked: the process that sees another number than before starts the job anew."""


CHANGES: dict[str, Callable[[Control], Control]] = {
    "pause": lambda control: replace(control, paused=True),
    "resume": lambda control: replace(control, paused=False),
    "restart": lambda control: Control(paused=False, restarts=control.restarts + 1),
}


def control_of(job: Path) -> Control:
    """What is asked of the job in a folder. A file that cannot be read asks for nothing."""
    try:
        said = json.loads((job / FILE).read_text(encoding="utf-8"))
        return Control(bool(said["paused"]), int(said["restarts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Control()


def ask(data: Path, flow: str, what: str) -> list[str]:
    """Ask it of a flow, APP.JOB, or of all flows of an app; answers their names. UnknownFlow if there is none."""
    jobs = jobs_in(data)
    names = {group_of(job.app, job.name): job for job in jobs}
    found = {name: job for name, job in names.items() if flow in (name, job.app)}
    if not found:
        raise UnknownFlow(flow, sorted(names))
    for job in found.values():
        storage = LocalStorage(job.path)
        try:
            content = json.dumps(asdict(CHANGES[what](control_of(job.path)))).encode()
            # Two who ask at once must not write into one file.
            replace_durably(storage, FILE, content, fresh=f"{FILE}.{secrets.token_hex(4)}")
        finally:
            storage.close()
    return sorted(found)

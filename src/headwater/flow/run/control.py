"""What is asked of a job while it runs: to pause, to resume, to restart, to be handed over. Needs no Spark.

<job>/control.json    {"paused": true, "restarts": 3, "handovers": 0}, read by the process that runs the job

The command writes it, or a run that takes the app over. It outlives the process: a job that is paused stays so when its
app is run again, until it is resumed.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fcntl import LOCK_EX, flock
from pathlib import Path

from headwater.errors import UnknownFlow
from headwater.flow.declare.topology.naming import group_of
from headwater.flow.deploy.inventory import jobs_in
from headwater.small_file import read_newest

_logger = logging.getLogger(__name__)

FILE, LOCK = "control.json", ".control.lock"
WAY_OUT = 'say again what is to be done, with "headwater flow resume APP.JOB" or "headwater flow pause APP.JOB"'


@dataclass(frozen=True)
class Control:
    paused: bool = False
    restarts: int = 0
    """How often a restart was asked for: the process that sees another number than before restarts the job."""
    handovers: int = 0
    """How often another process asked for the job: the one that runs it, and sees another number, lets it go."""


CHANGES: dict[str, Callable[[Control], Control]] = {
    "pause": lambda control: replace(control, paused=True),
    "resume": lambda control: replace(control, paused=False),
    "restart": lambda control: replace(control, paused=False, restarts=control.restarts + 1),
    "hand over": lambda control: replace(control, handovers=control.handovers + 1),
}


def control_of(job: Path) -> Control:
    """What is asked of the job in a folder. If neither the file nor its copy can be read, nothing is."""
    try:
        said = read_newest(str(job / FILE), lambda path: Path(path).read_bytes()).content
        return Control(bool(said["paused"]), int(said["restarts"]), int(said.get("handovers", 0)))
    except FileNotFoundError:
        return Control()
    except (KeyError, TypeError, ValueError) as error:
        _logger.warning("%s is damaged (%s), and asks for nothing; %s", job / FILE, error, WAY_OUT)
        return Control()


def ask(data: Path, flow: str, what: str) -> list[str]:
    """Ask it of a flow, APP.JOB, or of all flows of an app; answers their names. UnknownFlow if there is none."""
    jobs = jobs_in(data)
    names = {group_of(job.app, job.name): job for job in jobs}
    found = {name: job for name, job in names.items() if flow in (name, job.app)}
    if not found:
        raise UnknownFlow(flow, sorted(names))
    for job in found.values():
        with _alone(job.path):
            job.folder.write(FILE, asdict(CHANGES[what](control_of(job.path))))
    return sorted(found)


@contextmanager
def _alone(job: Path) -> Iterator[None]:
    """Two who ask at once must not write into one file."""
    with (job / LOCK).open("ab") as lock:
        flock(lock, LOCK_EX)
        yield

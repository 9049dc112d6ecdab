"""How jobs are, in files that outlive their processes. Needs no Spark.

<job>/health.json    a small file (small_file.py) with its copy, health.copy: a JSON object (supervision.Health) and
                     spaces up to 40 KiB. On a full disk, where no file can be made, the two that are there can still be
                     overwritten with the reason, one after the other: a crash meanwhile tears one of them at most

The process that runs a job writes it whenever something changes, and touches it every few seconds. Whether that process
still lives is known by the lock of the job's folder; where locks cannot be seen, because it runs in another container,
by the touch.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.clock import SystemClock
from headwater.flow.commit.job_folder import LOCK
from headwater.flow.declare.topology.naming import group_of
from headwater.flow.deploy.inventory import KeptJob, jobs_in
from headwater.flow.run.control import control_of
from headwater.flow.run.supervision import Condition, Health, Warned, condition
from headwater.log.locks import locked
from headwater.small_file import copy_path, read_newest, seal, unseal

FILE = "health.json"
ROOM_BYTES = 40 * 1024
DAMAGED = "damaged"
"""The kind of a warning: what the file said of its job is not known."""
TOUCH_MS = 2_000
SILENT_MS = 15_000
"""Who has not touched its file for so long counts as ended, where its lock cannot be seen."""


class HealthFile:
    """Of the process that runs a job."""

    def __init__(self, job: Path) -> None:
        self._path = job / FILE
        self._copy = Path(copy_path(str(self._path)))
        self._touched_ms = 0

    def read(self) -> Health:
        return replace(read_health(self._path.parent) or Health(), process=os.getpid(), namespace=own_namespace())

    def write(self, health: Health) -> str:
        """Answers "", or why it could not be written: a full disk must not end the job that reports it."""
        both = (self._path, self._copy)
        content = seal(health.to_json(), version=max(map(_version_of, both)) + 1, room=ROOM_BYTES)
        try:
            try:
                _replace(both, content)
            except OSError:
                for path in both:
                    _overwrite(path, content)
        except OSError as error:
            return f"{self._path} cannot be written: {error.strerror}"
        return ""

    def touch(self, elapsed_ms: int) -> None:
        """Say that this process lives, every so often."""
        if elapsed_ms - self._touched_ms < TOUCH_MS:
            return
        self._touched_ms = elapsed_ms
        for path in (self._path, self._copy):
            try:
                os.utime(path)
            except OSError:
                continue  # removed, or a disk that takes nothing: the lock still says it


def read_health(job: Path) -> Health | None:
    """None if it was never written, or neither the file nor its copy can be believed."""
    try:
        return _read(job)
    except ValueError:
        return None


def condition_of(job: Path) -> Condition:
    """How the job in a folder is. If what is kept of it is damaged, a warning says so."""
    why = ""
    try:
        health = _read(job)
    except ValueError as error:
        health, why = None, str(error)
    now = condition(health, alive=_alive(job, health), paused=control_of(job).paused)
    if not why:
        return now
    text = f"{job / FILE} is damaged: {why}; how the job was before is not known, and its next run writes it"
    return replace(now, health=Health().warned(Warned(DAMAGED, text, SystemClock().now_ms())))


def problems_in(data: Path, app: str = "") -> list[dict[str, Any]]:
    """Flows that fail and warnings of those that run, of one app or all: what a person should look at."""
    found = []
    for job in jobs_in(data):
        if app in ("", job.app):
            found += _problems(job)
    return found


def _problems(job: KeptJob) -> list[dict[str, Any]]:
    now, flow = condition_of(job.path), group_of(job.app, job.name)
    found: list[dict[str, Any]] = []
    if now.troubled:
        found.append({"flow": flow, "kind": str(now.state), "text": now.reason, **_times(now)})
    runs = now.troubled or now.state == "running"
    return found + [
        {"flow": flow, "kind": "warning", "text": one.text, "since_ms": one.at_ms}
        for one in now.health.warnings
        if runs or one.kind == DAMAGED
    ]


def _times(now: Condition) -> Mapping[str, Any]:
    said = now.to_json()
    return {
        "since_ms": said["failed_first_ms"],
        "last_ms": said["failed_last_ms"],
        "count": said["failed_count"],
        "next_attempt_ms": said["next_attempt_ms"],
    }


def own_namespace() -> str:
    """Where the numbers of processes and the table of locks are shared; "" where the system does not say."""
    try:
        return f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _alive(job: Path, health: Health | None) -> bool:
    if locked(job / LOCK):
        return True
    if health is None or (health.namespace and health.namespace == own_namespace()):
        return False
    touched_ms = max(map(_touched_ms, (job / FILE, Path(copy_path(str(job / FILE))))))
    return SystemClock().now_ms() - touched_ms < SILENT_MS


def _touched_ms(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _read(job: Path) -> Health | None:
    """None if it was never written; ValueError, which says why, if it cannot be believed."""
    try:
        said = read_newest(str(job / FILE), lambda path: Path(path).read_bytes()).content
        return Health.from_json(said)
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not what was written ({error})") from None


def _version_of(path: Path) -> int:
    try:
        return unseal(path.read_bytes())[1]
    except (OSError, ValueError):
        return 0


def _replace(paths: Sequence[Path], content: bytes) -> None:
    """All or none of them: what needs space comes first."""
    fresh = [path.with_name(f"{path.name}.new") for path in paths]
    try:
        for path in fresh:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for old, new in zip(paths, fresh, strict=True):
            new.replace(old)
    except OSError:
        for path in fresh:
            path.unlink(missing_ok=True)
        raise
    directory = os.open(paths[0].parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _overwrite(path: Path, content: bytes) -> None:
    """Into the blocks that the file has already."""
    with path.open("r+b", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())

"""The processes of a driver: its JVM, and the Python workers of that."""

import os
import signal
from pathlib import Path

from tests.crash.flow.moments import DRIVER, JVM


def victims(driver: int, kind: str) -> list[int]:
    """The driver itself, its JVM, or one of the processes that work for that."""
    if kind == DRIVER:
        return [driver]
    below = descendants(driver)
    if kind == JVM:
        return [one for one in below if name_of(one) == "java"]
    workers = [one for one in below if name_of(one).startswith("python") and not descendants(one)]
    return workers[-1:]


def descendants(process: int) -> list[int]:
    """All processes that a process has started, itself or through others."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    found, at = [], 0
    found += parents.get(process, [])
    while at < len(found):
        found += parents.get(found[at], [])
        at += 1
    return found


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return

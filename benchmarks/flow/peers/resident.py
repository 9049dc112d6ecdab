"""How much memory a process and all its children have at most, looked at several times a second."""

import os
from pathlib import Path
from threading import Event, Thread

EVERY_SECONDS = 0.25


class Resident:
    """From `with` to its end. Pages that forked processes share are counted once."""

    def __init__(self, process: int) -> None:
        self._process, self._ending = process, Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> "Resident":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(EVERY_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, family(self._process))))


def family(process: int) -> list[int]:
    """The process and all its descendants that live now."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (parent := _parent(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found


def _parent(process: int) -> int | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:  # it has ended
        return None
    return int(text.rpartition(")")[2].split()[1])


def processor_seconds(process: int) -> float:
    """What the process and all its descendants have used of processors so far, with children that have ended."""
    ticks = 0
    for one in family(process):
        try:
            text = Path(f"/proc/{one}/stat").read_text()
        except OSError:
            continue
        ticks += sum(map(int, text.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def proportional_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)

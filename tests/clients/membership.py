"""Members of a consumer group, each in a process of its own, so that one can be killed.

A member prints a line for everything that happens to it; `Member` reads them in the background:

    assigned 0 3        these partitions came
    revoked 0 3         these partitions went
    read 3 17           the record at offset 17 of partition 3 was read
    committed 3 17      and its offset is committed
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.waiting import LONG, wait_until

REPOSITORY = Path(__file__).parents[2]

# kcat tells of its assignments in words of its own: "% Group g rebalanced (...): assigned: topic [0], topic [1]".
KCAT_REBALANCE = re.compile(r"^% Group .* rebalanced.*?: (?:incremental )?(assign|revo)")
KCAT_PARTITION = re.compile(r"\S+ \[(\d+)\]")


@dataclass(frozen=True)
class Membership:
    """What a member joins, and how. Sessions are short, since a test has to wait for them to end."""

    topic: str
    group: str
    instance_id: str = ""
    cooperative: bool = False
    session_ms: int = 3000
    heartbeat_ms: int = 300
    protocol: str = "classic"
    """Of the group: with "consumer" the coordinator assigns, and it decides the times, too."""

    def arguments(self) -> list[str]:
        given = {
            "--topic": self.topic,
            "--group": self.group,
            "--instance-id": self.instance_id,
            "--session-ms": str(self.session_ms),
            "--heartbeat-ms": str(self.heartbeat_ms),
            "--cooperative": str(int(self.cooperative)),
            "--protocol": self.protocol,
        }
        return [part for name, value in given.items() for part in (name, value)]


class Member:
    """A running member and everything it has reported so far."""

    def __init__(self, command: Sequence[str]) -> None:
        self.events: list[tuple[str, frozenset[int]]] = []
        self.read: set[tuple[int, int]] = set()
        self.committed: list[tuple[int, int]] = []
        self.complaints: list[str] = []
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = (self._process.stdout, self._process.stderr)
        self._listeners = [threading.Thread(target=self._listen, args=(one,), daemon=True) for one in self._streams]
        for listener in self._listeners:
            listener.start()

    @property
    def partitions(self) -> frozenset[int]:
        owned: frozenset[int] = frozenset()
        for kind, moved in list(self.events):
            owned = owned | moved if kind == "assigned" else owned - moved
        return owned

    def wait_for(self, count: int, *, seconds: float = 25) -> frozenset[int]:
        """Wait until the member owns `count` partitions, and tell which."""
        wait_until(lambda: len(self.partitions) == count, f"{count} partitions; {self.story()}", seconds=seconds)
        return self.partitions

    def kill(self) -> None:
        """End it as a crash would: no leave, no last commit."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(LONG)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end()

    def story(self) -> str:
        return f"reported {[(kind, sorted(moved)) for kind, moved in self.events]}, {self.complaints[-5:]}"

    def _end(self) -> None:
        self._process.wait()
        for listener, stream in zip(self._listeners, self._streams, strict=True):
            listener.join(LONG)
            stream.close()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            # A member that is killed may leave a line behind that it never finished.
            if line.endswith("\n"):
                self._hear(line.rstrip("\n"))

    def _hear(self, line: str) -> None:
        word, *numbers = line.split() or [""]
        if word == "read":
            self.read.add((int(numbers[0]), int(numbers[1])))
        elif word == "committed":
            self.committed.append((int(numbers[0]), int(numbers[1])))
        elif word in ("assigned", "revoked"):
            self.events.append((word, frozenset(map(int, numbers))))
        elif found := KCAT_REBALANCE.match(line):
            kind = "assigned" if found[1] == "assign" else "revoked"
            self.events.append((kind, frozenset(map(int, KCAT_PARTITION.findall(line)))))
        else:
            self.complaints.append(line)

"""Kill a node again and again under load, and see whether it kept its word.

One data directory through all rounds. A round starts the node, lets clients work for a moment, and kills it: at a
random time, or, where strace can be used, at the N-th call of a chosen kind, surely in the middle of something.
The clients never stop. At the end everything is read back, and the history goes to the checker.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient, NewTopic

from headwater.log.check import check_log
from headwater.log.storage.local import LocalStorage
from tests.crash.checker import check
from tests.crash.history import HistoryFile, read_history
from tests.crash.load import COMPACTED, PARTITIONS, TOPICS, Reader, Sender, drain
from tests.waiting import LONG, Alarm, Deadline

START_PATIENCE_S, WORK_PATIENCE_S = 30, 30
ANSWERS_MAX = 400
"""That clients get from a node before it is killed."""
DEADLY_CALLS = ("fdatasync", "fsync", "rename", "unlink", "ftruncate", "pwritev2", "pwrite64", "utimensat")


@dataclass
class Outcome:
    rounds: int = 0
    kills_at_calls: int = 0
    kills_while_starting: int = 0
    sends: int = 0
    acknowledged: int = 0
    anomalies: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Process:
    """The node as a process, possibly under strace, which kills it at a chosen call."""

    def __init__(self, node: str, data: Path, port: int, *, deadly_call: tuple[str, int] | None = None) -> None:
        command = [sys.executable, "-m", node, str(data), str(port)]
        if deadly_call is not None:
            name, nth = deadly_call
            command = [*strace(name, nth), *command]
        self._errors = (data.parent / "node.log").open("ab")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True)

    def ready(self) -> bool:
        """Wait until clients can connect; False if the node died before."""
        assert self._process.stdout is not None
        alarm = Alarm(START_PATIENCE_S, self.kill)
        line = self._process.stdout.readline()
        alarm.cancel()
        return bool(line) and "process" in json.loads(line)

    def alive(self, *, for_seconds: float = 0) -> bool:
        try:
            self._process.wait(for_seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        # The whole session: strace would otherwise let go of the node and leave it running.
        os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(LONG)

    def close(self) -> None:
        self._process.wait(LONG)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


class Killing:
    def __init__(self, folder: Path, seed: int, *, node: str = "tests.crash.node_process") -> None:
        self._node = node
        self._data, self._history_path = folder / "data", folder / "history.jsonl"
        self._random = Random(seed)
        self._port = free_port()
        self._address = f"127.0.0.1:{self._port}"
        self._history = HistoryFile(self._history_path)
        self._can_trace = strace_works()
        self.outcome = Outcome()
        if not self._can_trace:
            self.outcome.notes.append(
                "strace cannot be used here: all kills come at random times, none at chosen calls"
            )

    def run(self, rounds: int, *, progress: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
        self._create_topics()
        senders = [Sender(f"p{number}", self._address, self._history, seed=number) for number in range(2)]
        readers = [Reader("c0", self._address, self._history, PARTITIONS),
                   Reader("c1", self._address, self._history, PARTITIONS[:1])]  # fmt: skip
        workers = [*senders, *readers]
        for worker in workers:
            worker.start()
        try:
            for _ in range(rounds):
                self._round(senders)
                progress(self.outcome)
            # It is back before the clients stop: some of them are waiting for an answer.
            last = Process(self._node, self._data, self._port)
            alive = last.ready()
            if alive:
                self._work(last, senders, answers=ANSWERS_MAX)
        finally:
            for worker in workers:
                worker.stop()
        if alive:
            self._finish(last, senders, readers)
        else:
            self.outcome.anomalies.append("the node does not start any more; see node.log")
        self._check()
        for worker in workers:
            self.outcome.anomalies += worker.failures
        return self.outcome

    def _create_topics(self) -> None:
        process = Process(self._node, self._data, self._port)
        assert process.ready(), "the node does not start"
        admin = AdminClient({"bootstrap.servers": self._address})
        wanted = [NewTopic(name, partitions, 1, config=configs) for name, (partitions, configs) in TOPICS.items()]
        for created in admin.create_topics(wanted).values():
            created.result(LONG)
        process.kill()
        process.close()

    def _round(self, senders: list[Sender]) -> None:
        chosen = self._random.random() < 0.6 and self._can_trace
        call = self._deadly_call() if chosen else None
        process = Process(self._node, self._data, self._port, deadly_call=call)
        ready = process.ready()
        if ready:
            self._work(process, senders, answers=self._random.randint(10, ANSWERS_MAX))
        died = not process.alive()
        if not died:
            process.kill()
        process.close()
        self.outcome.rounds += 1
        self.outcome.kills_at_calls += died
        self.outcome.kills_while_starting += not ready
        if died and call is None:
            self.outcome.anomalies.append(f"round {self.outcome.rounds}: the node died by itself; see node.log")

    def _work(self, process: Process, senders: list[Sender], *, answers: int) -> None:
        """Until clients have so many answers more, or the node has died: a count, since a busy machine is slow."""
        wanted, deadline = answers + sum(sender.answered for sender in senders), Deadline(WORK_PATIENCE_S)
        while process.alive(for_seconds=0.005) and sum(sender.answered for sender in senders) < wanted:
            if deadline.passed:
                return

    def _deadly_call(self) -> tuple[str, int]:
        """Which call kills. Calls are counted per thread: a small number is reached soon, or while it starts."""
        nth = self._random.choice((self._random.randint(1, 6), self._random.randint(1, 40)))
        return self._random.choice(DEADLY_CALLS), nth

    def _finish(self, process: Process, senders: list[Sender], readers: list[Reader]) -> None:
        for sender in senders:
            sender.finish(timeout=LONG)
        for reader in readers:
            reader.ask(timeout=LONG)
            reader.close()
        self.outcome.anomalies += drain(self._address, self._history, patience_s=60)
        code = process.stop()
        process.close()
        if code != 0:
            self.outcome.anomalies.append(f"the node did not stop cleanly: exit code {code}")

    def _check(self) -> None:
        self._history.close()
        history = read_history(self._history_path, compacted=COMPACTED)
        self.outcome.sends = len(history.sends)
        self.outcome.acknowledged = sum(send.outcome == "ok" for send in history.sends)
        self.outcome.anomalies += [str(anomaly) for anomaly in check(history)]
        for report in check_log(LocalStorage(self._data)).partitions:
            if not report.sound or report.quarantined:
                self.outcome.anomalies.append(f"log check: {report}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def strace(call: str, nth: int) -> list[str]:
    return ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}",
            "-e", f"inject={call}:signal=SIGKILL:when={nth}"]  # fmt: skip


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    killed = subprocess.run([*strace("exit_group", 1), "true"], capture_output=True, check=False)
    return killed.returncode == -signal.SIGKILL

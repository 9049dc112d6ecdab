"""Spark's standalone cluster from the installed pyspark: a master and workers, each a process on a host of its own.

Executors run a Python that has the libraries of the tests but not headwater, as on machines where it was never
installed: the package has to reach them by itself.
"""

import os
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from subprocess import Popen
from typing import Any

from headwater.flow.java import find_java
from headwater.flow.jvm import spark_home
from tests.clients.brokers.process import BrokerFailed, free_port, last_lines, launch
from tests.cluster.hosts import Host
from tests.waiting import wait_until

EXECUTOR, READY = "CoarseGrainedExecutorBackend", "Successfully registered with master"
MEMORY = "256m"
CORES, WORKER_MEMORY = 1, "2g"
PORTS = "spark.port.maxRetries=64"


class SparkCluster:
    def __init__(self, folder: Path, master: Host, workers: list[Host]) -> None:
        self._folder, self._master_host, self._hosts = folder, master, workers
        self._port = free_port()
        self.python = executor_python(folder)
        self._master: Popen[bytes] | None = None
        self._workers: dict[int, Popen[bytes]] = {}

    @property
    def master(self) -> str:
        return f"spark://{self._master_host.address}:{self._port}"

    def start(self) -> None:
        self.start_master()
        for number in range(len(self._hosts)):
            self.start_worker(number)

    def start_master(self) -> None:
        words = ["--host", self._master_host.address, "--port", str(self._port), "--webui-port", "0"]
        log = self._folder / "master.log"
        log.unlink(missing_ok=True)
        self._master = self._launch("master", self._master_host, "org.apache.spark.deploy.master.Master", words)
        wait_until(lambda: self._said(log, "I have been elected leader", self._master), "the master leads")

    def start_worker(self, number: int) -> None:
        host, log = self._hosts[number], self._folder / f"worker-{number}.log"
        log.unlink(missing_ok=True)
        words = ["--host", host.address, "--cores", str(CORES), "--memory", WORKER_MEMORY, "--webui-port", "0"]
        words += ["--work-dir", str(self._folder / f"work-{number}"), self.master]
        self._workers[number] = self._launch(f"worker-{number}", host, "org.apache.spark.deploy.worker.Worker", words)
        wait_until(lambda: self._said(log, READY, self._workers[number]), f"worker {number} is known to the master")

    @staticmethod
    def _said(log: Path, text: str, process: "Popen[bytes] | None") -> bool:
        if process is not None and process.poll() is not None:
            raise BrokerFailed(f"Spark ended with {process.returncode}: {last_lines(log)}")
        return text in log.read_text(errors="replace")

    def _launch(self, name: str, host: Host, kind: str, words: list[str]) -> "Popen[bytes]":
        local = self._folder / f"local-{name}"
        local.mkdir(parents=True, exist_ok=True)
        said: dict[str, Any] = {
            "SPARK_HOME": spark_home(), "JAVA_HOME": find_java(), "SPARK_DAEMON_MEMORY": MEMORY,
            "SPARK_LOCAL_DIRS": local, "SPARK_LOCAL_IP": host.address,
            "SPARK_DAEMON_JAVA_OPTS": f"-D{PORTS} -XX:+UseSerialGC",
        }  # fmt: skip
        command = ["env", *(f"{key}={value}" for key, value in said.items()), f"{spark_home()}/bin/spark-class"]
        return launch(host.command([*command, kind, *words]), self._folder / f"{name}.log")

    # -- what happens to them ------------------------------------------------------------------------------------------

    def executors(self, number: int) -> list[int]:
        """Processes of a worker's executors."""
        found = []
        for process in children_of(self._workers[number].pid):
            try:
                line = Path(f"/proc/{process}/cmdline").read_bytes()
            except OSError:
                continue
            if EXECUTOR.encode() in line:
                found.append(process)
        return found

    def kill_executor(self, number: int) -> int:
        """How many were killed."""
        found = self.executors(number)
        for process in found:
            os.kill(process, SIGKILL)
        return len(found)

    def kill_worker(self, number: int) -> None:
        """With its executors, as if its machine were lost."""
        for process in [self._workers[number].pid, *self.executors(number)]:
            os.kill(process, SIGKILL)
        self._workers.pop(number).wait()

    def pause_executor(self, number: int, *, only_python: bool = False) -> list[int]:
        """The processes that were paused. Without its JVM an executor still serves what it has shuffled."""
        found = self.executors(number)
        if only_python:
            found = [process for executor in found for process in descendants_of(executor)]
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, SIGSTOP)
        return found

    @staticmethod
    def resume(processes: list[int]) -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, SIGCONT)

    def kill_master(self) -> None:
        if self._master is not None:
            self._master.kill()
            self._master.wait()

    def stop(self) -> None:
        for number in list(self._workers):
            self.kill_worker(number)
        self.kill_master()


def children_of(process: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def descendants_of(process: int) -> list[int]:
    return [one for child in children_of(process) for one in (child, *descendants_of(child))]


def executor_python(folder: Path) -> Path:
    """A program that is this Python with the installed libraries. Not headwater: files that point to folders count only
    in the environment itself."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    libraries = sysconfig.get_paths()["purelib"]
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {base} "$@"\n')
    program.chmod(0o755)
    return program

"""Hostile clients against both ports of a node, beside a good one whose answers are timed.

python -m tests.wire.fuzz_ports --operations 1000000

A node runs in a process of its own, so do the attackers (fuzz_attacks.py) and the good client, which stores, reads
back, asks for metadata and reads over HTTP, over and over. Exit code 1 if the node ends or writes a traceback, if an
answer of the good client is wrong, if the node's memory grows by more than --memory-mib, or if the 99th percentile of
the good client's answers, of any kind of request, is above --p99-ms (0: not checked, for machines that are busy with
something else).
Everything is on loopback, and bounded by the number of operations and by --seconds-max.
"""

import argparse
import http.client
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.parse import urlsplit

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from headwater.settings import NODE_FILE
from tests.waiting import LONG, Deadline
from tests.wire.fuzz_attacks import VICTIM, Attacker, Target, bombs
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import fetch, produce

MIB = 1024**2
GOOD = "of-the-good-client"
START_SECONDS = 120
STOP_SECONDS = 60
WARM_SECONDS = 2.0
PAUSE_SECONDS = 0.01
SAMPLE_SECONDS = 0.1


@dataclass
class Report:
    operations: int = 0
    seconds: float = 0.0
    attacks: dict[str, int] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    memory_before_mib: float = 0.0
    memory_peak_mib: float = 0.0
    good_answers: int = 0
    good_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def growth_mib(self) -> float:
        return self.memory_peak_mib - self.memory_before_mib


# -- processes -------------------------------------------------------------------------------------------------------


def attack(
    target: Target, seed: int, operations: int, packed: Sequence[bytes], ready: Barrier, stop: Event, results: Any
) -> None:
    attacker = Attacker(target, seed, packed)
    ready.wait()
    try:
        for _ in range(operations):
            if stop.is_set():
                break
            attacker.one()
    finally:
        attacker.close()
        results.put(("attacker", attacker.done, attacker.failed))


def behave_well(target: Target, stop: Event, results: Any) -> None:
    times: dict[str, list[float]] = {"produce": [], "fetch": [], "metadata": [], "http": []}
    problem = ""
    try:
        with RawClient(*target.kafka) as client:
            while not stop.is_set():
                _good_round(client, target, times)
                time.sleep(PAUSE_SECONDS)
    except Exception as error:
        problem = f"the good client failed: {type(error).__name__}: {error}"
    results.put(("good", times, problem))


def _good_round(client: RawClient, target: Target, times: dict[str, list[float]]) -> None:
    value = b"value %d" % len(times["produce"])
    with _timed(times["produce"]):
        stored = client.call(produce(GOOD, batch(value), acks=-1)).responses[0].partition_responses[0]
    assert stored.error_code is ErrorCode.none, stored
    with _timed(times["fetch"]):
        fetched = client.call(fetch(GOOD, {0: stored.base_offset})).responses[0].partitions[0]
    assert value in (fetched.records or b""), "what was stored is not what is read"
    with _timed(times["metadata"]):
        asked = (MetadataRequestTopic(topic_id=None, name=TopicName(GOOD)),)
        found = client.call(MetadataRequest(topics=asked, include_topic_authorized_operations=False))
    assert found.topics[0].error_code is ErrorCode.none, found
    with _timed(times["http"]):
        page = _http_get(target, f"/topics/{GOOD}/records?offset={stored.base_offset}&limit=1")
    assert page["records"][0]["value"]["text"] == value.decode(), page


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    times.append(1000 * (time.perf_counter() - begun))


def _http_get(target: Target, path: str) -> Any:
    connection = http.client.HTTPConnection(*target.http, timeout=LONG)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body[:200])
        return json.loads(body)
    finally:
        connection.close()


# -- the run ---------------------------------------------------------------------------------------------------------


class FuzzRun:
    def __init__(self, folder: Path, *, operations: int, attackers: int, topics: int, seed: int) -> None:
        self._folder, self._operations, self._attackers = folder, operations, attackers
        self._topics, self._seed = topics, seed
        self._errors = folder / "node.stderr"
        self.report = Report()

    def run(self, *, seconds_max: float) -> Report:
        with open(self._errors, "wb") as errors:
            command = [sys.executable, "-m", "headwater", "start", "--data", str(self._folder / "data")]
            command += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
            node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            target = self._ready(node)
            self._prepare(target)
            self._attack(node, target, seconds_max)
        finally:
            self._end(node)
        return self.report

    def _ready(self, node: "subprocess.Popen[bytes]") -> Target:
        file, deadline = self._folder / "data" / NODE_FILE, Deadline(START_SECONDS)
        while not file.exists():
            assert node.poll() is None, f"the node did not start: {self._errors.read_text()[-2000:]}"
            assert not deadline.passed, "the node does not start"
            time.sleep(0.05)
        said = json.loads(file.read_text())
        host, _, port = said["kafka"].rpartition(":")
        url = urlsplit(said["http"])
        return Target((host, int(port)), (str(url.hostname), int(url.port or 0)))

    def _prepare(self, target: Target) -> None:
        """The topics of the run, all there before memory is measured."""
        from kio.schema.create_topics.v5.request import CreatableTopic, CreateTopicsRequest
        from kio.static.primitive import i16, i32

        names = [GOOD, VICTIM, *(f"topic-{number}" for number in range(self._topics))]
        topics = tuple(
            CreatableTopic(
                name=TopicName(name), num_partitions=i32(1), replication_factor=i16(-1), assignments=(), configs=()
            )
            for name in names
        )
        with RawClient(*target.kafka) as client:
            for first in range(0, len(topics), 200):
                request = CreateTopicsRequest(topics=topics[first : first + 200])
                codes = {topic.error_code for topic in client.call(request).topics}
                assert codes == {ErrorCode.none}, codes

    def _attack(self, node: "subprocess.Popen[bytes]", target: Target, seconds_max: float) -> None:
        context = multiprocessing.get_context("spawn")
        results: Any = context.Queue()
        stop = context.Event()
        good_stop = context.Event()
        good = context.Process(target=behave_well, args=(target, good_stop, results), daemon=True)
        good.start()
        time.sleep(WARM_SECONDS)
        self.report.memory_before_mib = self.report.memory_peak_mib = resident_mib(node.pid)
        share, packed, ready = -(-self._operations // self._attackers), bombs(), context.Barrier(self._attackers + 1)
        workers = [
            context.Process(
                target=attack, args=(target, self._seed + which, share, packed, ready, stop, results), daemon=True
            )
            for which in range(self._attackers)
        ]
        for worker in workers:
            worker.start()
        ready.wait()  # what they send is made
        begun = time.monotonic()
        while any(worker.is_alive() for worker in workers):
            self._sample(node)
            if node.poll() is not None or time.monotonic() - begun > seconds_max:
                stop.set()
            self._collect(results, SAMPLE_SECONDS)
        self.report.seconds = time.monotonic() - begun
        good_stop.set()
        while good.is_alive():
            self._collect(results, SAMPLE_SECONDS)
        self._sample(node)
        while self._collect(results, 0.5):
            pass

    def _sample(self, node: "subprocess.Popen[bytes]") -> None:
        self.report.memory_peak_mib = max(self.report.memory_peak_mib, resident_mib(node.pid))
        if node.poll() is not None and not any("the node ended" in one for one in self.report.problems):
            self.report.problems.append(f"the node ended with code {node.returncode}")

    def _collect(self, results: Any, seconds: float) -> bool:
        try:
            kind, first, second = results.get(timeout=seconds)
        except Empty:
            return False
        report = self.report
        if kind == "good":
            report.good_answers = sum(map(len, first.values()))
            report.good_ms = {name: _percentiles(times) for name, times in first.items() if times}
            report.good_ms["all"] = _percentiles([one for times in first.values() for one in times])
            report.problems += [second] if second else []
            return True
        for name, count in first.items():
            report.attacks[name] = report.attacks.get(name, 0) + count
            report.operations += count
        for name, count in second.items():
            report.closed[name] = report.closed.get(name, 0) + count
        return True

    def _end(self, node: "subprocess.Popen[bytes]") -> None:
        if node.poll() is None:
            node.terminate()
            deadline = Deadline(STOP_SECONDS)
            while node.poll() is None and not deadline.passed:
                time.sleep(0.05)
            if node.poll() is None:
                self.report.problems.append("the node does not stop")
                node.kill()
                node.wait()
        said = self._errors.read_text(errors="replace")
        for sign in ("Traceback", "unforeseen", "bug in headwater"):
            if sign in said:
                begin = max(0, said.index(sign) - 300)
                self.report.problems.append(f"the node wrote {sign!r}: {said[begin : begin + 1500]}")


def resident_mib(process: int) -> float:
    """Memory of a process that really is memory; 0 if there is no such process any more."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / MIB


def _percentiles(times: list[float]) -> dict[str, float]:
    ordered = sorted(times) or [0.0]
    return {
        "p50": round(ordered[len(ordered) // 2], 2),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 2),
        "max": round(ordered[-1], 2),
    }


def fuzz(
    *, operations: int, attackers: int = 2, topics: int = 300, seed: int = 1, seconds_max: float = 4 * 3600
) -> Report:
    with tempfile.TemporaryDirectory(prefix="headwater-fuzz-") as folder:
        run = FuzzRun(Path(folder), operations=operations, attackers=attackers, topics=topics, seed=seed)
        return run.run(seconds_max=seconds_max)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.fuzz_ports", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--attackers", type=int, default=2)
    parser.add_argument("--topics", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds-max", type=float, default=4 * 3600)
    parser.add_argument("--memory-mib", type=float, default=256)
    parser.add_argument("--p99-ms", type=float, default=250)
    said = parser.parse_args()
    report = fuzz(
        operations=said.operations, attackers=said.attackers, topics=said.topics, seed=said.seed,
        seconds_max=said.seconds_max,
    )  # fmt: skip
    if report.growth_mib > said.memory_mib:
        report.problems.append(f"memory grew by {report.growth_mib:.0f} MiB; {said.memory_mib:.0f} are allowed")
    slow = {kind: times["p99"] for kind, times in report.good_ms.items() if times["p99"] > said.p99_ms > 0}
    for kind, p99 in slow.items():
        report.problems.append(f"the good client's 99th percentile of {kind} is {p99:.0f} ms, above {said.p99_ms:.0f}")
    if report.operations < said.operations:
        report.problems.append(f"only {report.operations} of {said.operations} operations were made")
    print(json.dumps({**asdict(report), "growth_mib": round(report.growth_mib, 1)}, indent=2))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())

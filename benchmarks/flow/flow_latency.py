"""Latency of a flow: from the call of the producer (acks=all, through the port) to a view that includes the event.

And how long `headwater run` takes from its start to its first finished batch. Node, app, producer and reader are
processes of their own, as they are for a user.
"""

import json
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.flow import orders
from benchmarks.flow.apart import Bench
from benchmarks.flow.names import COUNTED_VIEW, HEADWATER
from benchmarks.process_clock import now_seconds
from benchmarks.results import Case, percentile
from headwater.flow.kafka.client import Client
from headwater.flow.kafka.messages import LATEST
from headwater.record import TopicPartition
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, last_lines

SECTION, START_SECTION = "flow-latency", "flow-start"
APP, VIEW, TOPIC = "bench", "counts", "orders"
APP_FILE = Path(__file__).with_name("counts_app.py")
FIRST_ROWS = 1000
USERS = 20_000
PATIENCE_SECONDS = 240


def measure(bench: Bench) -> None:
    """The last start is the one that goes on to be measured under load."""
    node = start_headwater(bench.folder / "node")
    try:
        orders.fill(node.address, TOPIC, partitions=1, rows=FIRST_ROWS, users=USERS)
        for number in range(bench.plan.starts):
            bench.progress.say(f"flow-latency: start {number + 1} of {bench.plan.starts}")
            with running(node, bench.folder / f"run-{number}.log") as seconds:
                words = "a new app" if number == 0 else "the app again"
                bench.results.add(Case(START_SECTION, (words,)), HEADWATER, seconds=seconds)
                if number == bench.plan.starts - 1:
                    measure_latency(bench, node)
            # The next start shall have a batch to finish.
            orders.add(node.address, TOPIC, rows=FIRST_ROWS, users=USERS)
    finally:
        node.stop()


@contextmanager
def running(node: BrokerProcess, log: Path) -> Iterator[float]:
    """`headwater run` until the block ends; the seconds that passed before its first batch was finished."""
    command = [sys.executable, "-m", "headwater", "run", str(APP_FILE), "--data", str(node.data_path), "--json"]
    errors = log.with_suffix(".errors")
    with log.open("wb") as said, errors.open("wb") as failed:
        begin = now_seconds()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=failed)
    try:
        yield wait_for_line(process, log, errors) - begin
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_line(process: subprocess.Popen[bytes], log: Path, errors: Path) -> float:
    """The moment at which a process has said something."""
    deadline = now_seconds() + PATIENCE_SECONDS
    while now_seconds() < deadline:
        if b"\n" in log.read_bytes():
            return now_seconds()
        if process.poll() is not None:
            raise RuntimeError(f"headwater run ended with {process.returncode}: {last_lines(errors)}")
        time.sleep(0.01)
    raise RuntimeError(f"headwater run finished no batch within {PATIENCE_SECONDS} s: {last_lines(errors)}")


def measure_latency(bench: Bench, node: BrokerProcess) -> None:
    plan = bench.plan
    bench.progress.say(f"flow-latency: {plan.latency_rate:,} events a second for {plan.latency_seconds} s")
    warm_up = plan.latency_rate * plan.latency_warm_up_seconds
    delays = delays_of(node, rate=plan.latency_rate, records=warm_up + plan.latency_rate * plan.latency_seconds)
    milliseconds = [1000 * delay for delay in delays[warm_up:]]
    shown = {"p50": percentile(milliseconds, 0.5), "p99": percentile(milliseconds, 0.99), "most": max(milliseconds)}
    bench.results.add(Case(SECTION, (f"{plan.latency_rate:,}",)), COUNTED_VIEW, **shown)


def delays_of(node: BrokerProcess, *, rate: int, records: int) -> list[float]:
    """Seconds from the sending of each record to the first look at the view that included it."""
    first = end_offset(node.address)
    program = [sys.executable, "-m", "benchmarks.flow.flow_latency_load"]
    options = [f"--address={node.address}", f"--data={node.data_path}", f"--rate={rate}", f"--records={records}"]
    with subprocess.Popen([*program, "watch", *options, f"--first={first}"], stdout=subprocess.PIPE) as watcher:
        sent = subprocess.run([*program, "produce", *options], stdout=subprocess.PIPE, check=True)
        seen, _ = watcher.communicate(timeout=PATIENCE_SECONDS)
    if watcher.returncode != 0:
        raise RuntimeError("the view did not get all records")
    return delays_between(json.loads(sent.stdout), json.loads(seen), first)


def delays_between(sent: Sequence[float], seen: Sequence[tuple[float, int]], first: int) -> list[float]:
    """`seen` are moments and next offsets of the view; record number n has the offset `first` + n.

    >>> delays_between([1.0, 1.5, 2.0], [(3.0, 11), (4.0, 13)], 10)
    [2.0, 2.5, 2.0]
    """
    nexts = [offset for _, offset in seen]
    return [seen[bisect_right(nexts, first + number)][0] - moment for number, moment in enumerate(sent)]


def end_offset(address: str) -> int:
    place = TopicPartition(TOPIC, 0)
    with Client(address) as client:
        return client.offsets({place: LATEST})[place]

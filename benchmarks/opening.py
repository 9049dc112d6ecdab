"""Opening: how long a broker with much data needs to answer, after a clean stop and after kill -9."""

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders import HEADWATER, KAFKA, KAFKA_SETTINGS, Contender
from benchmarks.loading import RAW, Load
from benchmarks.plan import Plan
from benchmarks.process_clock import now_seconds
from benchmarks.progress import Progress
from benchmarks.results import Case, Results
from tests.clients.brokers.apache_kafka import restart_apache_kafka, start_apache_kafka
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, NotAvailable

SECTION = "open"
PARTITIONS = 8
RECORD_BYTES = 1000
KILLED_AFTER_BYTES = 200_000_000
"""Written just before kill -9, so that there is something that no checkpoint knows of."""

Start = Callable[[Path], BrokerProcess]

EMPTY, CLEAN, KILLED = "empty", "after a clean stop", "after kill -9"


def measure(folder: Path, plan: Plan, results: Results, progress: Progress) -> None:
    measure_one(HEADWATER, start_headwater, start_headwater, folder / "open", plan, results, progress)
    try:
        measure_one(KAFKA, fresh_kafka, restart_apache_kafka, folder / "open", plan, results, progress)
    except NotAvailable as reason:
        progress.say(str(reason))


def fresh_kafka(folder: Path) -> BrokerProcess:
    return start_apache_kafka(folder, KAFKA_SETTINGS)


def measure_one(
    name: str, start: Start, again: Start, folder: Path, plan: Plan, results: Results, progress: Progress
) -> None:
    """Start on nothing, fill, and then stop and kill in turn."""
    folder.mkdir()
    start(folder).stop()
    broker = timed(name, EMPTY, again, folder, results)
    try:
        progress.say(f"open: filling {name} with {plan.open_gib} GiB")
        fill(name, broker, int(plan.open_gib * 1024**3), "filled")
        for number in range(plan.open_rounds):
            progress.say(f"open: {name}, round {number + 1} of {plan.open_rounds}")
            broker.stop(patience_seconds=120)
            broker = timed(name, CLEAN, again, folder, results)
            fill(name, broker, KILLED_AFTER_BYTES, f"killed-{number}")
            broker.kill()
            broker = timed(name, KILLED, again, folder, results)
    finally:
        broker.stop(patience_seconds=120)
        shutil.rmtree(folder)


def timed(name: str, how: str, again: Start, folder: Path, results: Results) -> BrokerProcess:
    """Start, and count the seconds from the start of the process to its first answer."""
    begin = now_seconds()
    broker = again(folder)
    results.add(Case(SECTION, (how,)), name, seconds=now_seconds() - begin)
    return broker


def fill(name: str, broker: BrokerProcess, size: int, topic: str) -> None:
    contender = Contender(name, broker)
    contender.create_topic(topic, PARTITIONS)
    Load(RAW, PARTITIONS, RECORD_BYTES, size // RECORD_BYTES).run("produce", contender, topic)

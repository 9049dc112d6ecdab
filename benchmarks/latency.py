"""Latency: from the call of the producer to the hand of the consumer, at a thousand records a second."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.contenders import Contender, Field
from benchmarks.disk import FLUSH, flush_delays
from benchmarks.latency_load import RECORD_BYTES
from benchmarks.loopback import ECHO, echo_delays
from benchmarks.plan import ACKS, Plan, acks_words
from benchmarks.progress import Progress
from benchmarks.results import Case, Results, percentile

SECTION = "latency"
RECORDS_PER_SECOND = 1000
WARM_UP_SECONDS = 1


def measure(field: Field, folder: Path, plan: Plan, results: Results, progress: Progress) -> None:
    floor = {"rate": RECORDS_PER_SECOND, "count": RECORDS_PER_SECOND * plan.latency_seconds, "size": RECORD_BYTES}
    for round_number in range(plan.latency_rounds):
        progress.say(f"latency: round {round_number + 1} of {plan.latency_rounds}, floors")
        add(results, 1, ECHO, echo_delays(**floor))
        add(results, -1, FLUSH, flush_delays(folder, **floor))
        for acks in ACKS:
            for contender in field.for_produce(acks):
                if not contender.keeps_records:
                    continue
                words = f"round {round_number + 1} of {plan.latency_rounds}, {contender.name}, acks={acks_words(acks)}"
                progress.say(f"latency: {words}")
                add(results, acks, contender.name, delays_of(contender, acks=acks, seconds=plan.latency_seconds))


def add(results: Results, acks: int, who: str, delays: list[int]) -> None:
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    shown = {name: percentile(delays, share) / 1000 for name, share in shares.items()}
    results.add(Case(SECTION, (acks_words(acks),)), who, **shown)


def delays_of(contender: Contender, *, acks: int, seconds: int) -> list[int]:
    """Microseconds that each record was under way, without those of the first second."""
    warm_up, records = WARM_UP_SECONDS * RECORDS_PER_SECOND, (seconds + WARM_UP_SECONDS) * RECORDS_PER_SECOND
    with contender.topic(1) as topic:
        options = [
            f"--address={contender.address}",
            f"--topic={topic}",
            f"--rate={RECORDS_PER_SECOND}",
            f"--records={records}",
            f"--acks={acks}",
        ]
        program = [sys.executable, "-m", "benchmarks.latency_load"]
        with subprocess.Popen([*program, "consume", *options], stdout=subprocess.PIPE, text=True) as consumer:
            assert consumer.stdout is not None
            if consumer.stdout.readline() == "ready\n":
                subprocess.run([*program, "produce", *options], check=True)
            report = consumer.stdout.readline()
    if not report:
        raise RuntimeError(f"the consumer of {contender.name} did not get all records")
    delays: list[int] = json.loads(report)
    return delays[warm_up:]

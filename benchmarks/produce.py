"""Produce: how fast records are taken, by record size, partitions and acknowledgement."""

from pathlib import Path

from benchmarks.contenders import Contender, Field
from benchmarks.disk import BLOCKS, disk_name, written_per_second
from benchmarks.loading import LIBRDKAFKA, RAW, Load
from benchmarks.plan import ACKS, SIZES, Plan, acks_words, size_words
from benchmarks.progress import Progress
from benchmarks.results import Case, Results

SECTION, RAW_SECTION, DISK_SECTION = "produce", "produce, raw", "disk"


def measure(field: Field, folder: Path, plan: Plan, results: Results, progress: Progress) -> None:
    for contender in field.for_produce(acks=-1):
        progress.say(f"produce: warming up {contender.name}")
        for program in (LIBRDKAFKA, RAW):
            produced(contender, Load(program, 8, 1000, plan.warm_up_bytes // 1000))
    for round_number in range(plan.rounds):
        for block in BLOCKS:
            progress.say(f"produce: round {round_number + 1} of {plan.rounds}, {disk_name(block)}")
            rate = written_per_second(folder, block, plan.produce_bytes)
            results.add(Case(DISK_SECTION, (block,)), disk_name(block), megabytes=rate / 1e6)
        for load, case in loads(plan):
            for contender in in_turn(field.for_produce(load.acks), round_number):
                progress.say(f"produce: round {round_number + 1} of {plan.rounds}, {contender.name}, {describe(case)}")
                results.add(case, contender.name, **produced(contender, load))


def in_turn(contenders: list[Contender], round_number: int) -> list[Contender]:
    """Another one first in each round: what one leaves behind (memory, dirty pages) meets the next."""
    first = round_number % len(contenders)
    return contenders[first:] + contenders[:first]


def loads(plan: Plan) -> list[tuple[Load, Case]]:
    found = []
    for section, program, size_bytes in (
        (SECTION, LIBRDKAFKA, plan.produce_bytes),
        (RAW_SECTION, RAW, plan.raw_bytes),
    ):
        for size in SIZES:
            for partitions in plan.partitions:
                for acks in ACKS:
                    load = Load(program, partitions, size, size_bytes // size, acks)
                    found.append((load, Case(section, (size_words(size), str(partitions), acks_words(acks)))))
    return found


def produced(contender: Contender, load: Load) -> dict[str, float]:
    with contender.topic(load.partitions) as topic:
        return load.run("produce", contender, topic)


def describe(case: Case) -> str:
    size, partitions, acks = case.words
    return f"{case.section}: {size}, {partitions} partitions, acks={acks}"

"""Fetch: how fast stored records are given back, out of the page cache."""

from contextlib import ExitStack

from benchmarks.contenders import Field
from benchmarks.loading import LIBRDKAFKA, RAW, Load
from benchmarks.loopback import LOOPBACK, streamed_per_second
from benchmarks.plan import SIZES, Plan, size_words
from benchmarks.progress import Progress
from benchmarks.results import Case, Results

SECTION, RAW_SECTION, LOOPBACK_SECTION = "fetch", "fetch, raw", "loopback"


def measure(field: Field, plan: Plan, results: Results, progress: Progress) -> None:
    for size in SIZES:
        for partitions in plan.partitions:
            measure_case(field, plan, results, progress, size=size, partitions=partitions)


def measure_case(field: Field, plan: Plan, results: Results, progress: Progress, *, size: int, partitions: int) -> None:
    """Fill one topic per contender with the same records, then read it in turn with both programs."""
    words = (size_words(size), str(partitions))
    records = plan.raw_bytes // 2 // size
    with ExitStack() as stack:
        topics = {}
        for contender in field.for_fetch():
            progress.say(f"fetch: filling {contender.name} with records of {words[0]}")
            topics[contender.name] = stack.enter_context(contender.topic(partitions))
            Load(RAW, partitions, size, records).run("produce", contender, topics[contender.name])
        for round_number in range(-1, plan.rounds):  # the round before the first warms up
            for section, program in ((SECTION, LIBRDKAFKA), (RAW_SECTION, RAW)):
                for contender in field.for_fetch():
                    progress.say(f"{section}: round {round_number + 1} of {plan.rounds}, {contender.name}, {size} B")
                    rates = Load(program, partitions, size, records).run("fetch", contender, topics[contender.name])
                    if round_number >= 0:
                        results.add(Case(section, words), contender.name, **rates)
            if round_number >= 0:
                rate = streamed_per_second(plan.raw_bytes)
                results.add(Case(LOOPBACK_SECTION), LOOPBACK, megabytes=rate / 1e6)

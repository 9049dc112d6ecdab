"""Count the words of every line that was ever put in, going on where the last run stopped."""

import json
import sys
from collections import Counter
from collections.abc import Iterable

import headwater as hw


def prepare(log: hw.Log) -> None:
    existing = {topic.name for topic in log.topics()}
    if "lines" not in existing:
        log.create_topic("lines")
    if "counts" not in existing:
        # Only the newest record of a key matters, so older ones may go.
        log.create_topic("counts", configs={"cleanup.policy": "compact"})


def last_result(log: hw.Log) -> tuple[Counter[str], int]:
    """The newest counts, and the offset of the first line they do not contain."""
    newest = None
    for record in log.read("counts"):
        newest = record
    if newest is None or newest.value is None:
        return Counter(), 0
    saved = json.loads(newest.value)
    return Counter(saved["counts"]), saved["next_offset"]


def count(log: hw.Log) -> Counter[str]:
    """Bring the counts up to the end of the topic. Counts and offset are one record: both are stored, or neither."""
    counts, offset = last_result(log)
    for record in log.read("lines", offset=offset):
        counts.update((record.value or b"").decode().split())
        offset = record.offset + 1
    result = {"counts": counts, "next_offset": offset}
    log.append("counts", hw.Record(json.dumps(result).encode(), key=b"words"))
    return counts


def run(path: str, lines: Iterable[str]) -> Counter[str]:
    with hw.Log.open(path) as log:
        prepare(log)
        records = [hw.Record(line.encode()) for line in lines]
        if records:
            log.append("lines", records)
        return count(log)


if __name__ == "__main__":
    for word, times in run(sys.argv[1], sys.stdin).most_common(10):
        print(f"{times:6} {word}")

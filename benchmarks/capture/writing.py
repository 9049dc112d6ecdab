"""The program that writes, in a process of its own.

`python -m benchmarks.capture.writing URL blocks LAST COUNT` writes so many transactions as fast as it can, and prints
when it began. `... rows LAST COUNT RATE` writes single rows at a steady rate, and prints when each was committed.
"""

import json
import subprocess
import sys
import time

import psycopg

from benchmarks.capture.workload import write_block, write_one
from benchmarks.process_clock import now_seconds


def blocks(url: str, last: int, count: int) -> list[float]:
    with psycopg.connect(url, autocommit=True) as connection:
        began = now_seconds()
        for _ in range(count):
            last = write_block(connection, last)
    return [began]


def rows(url: str, last: int, count: int, rate: int) -> list[float]:
    committed = []
    with psycopg.connect(url, autocommit=True) as connection:
        start = now_seconds()
        for number in range(count):
            time.sleep(max(0.0, start + number / rate - now_seconds()))
            write_one(connection, last + 1 + number)
            committed.append(now_seconds())
    return committed


def started(url: str, *words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.capture.writing", url, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finished(process: "subprocess.Popen[str]") -> list[float]:
    said, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError("the program that writes has failed")
    found: list[float] = json.loads(said)
    return found


def main(url: str, what: str, *numbers: str) -> None:
    last, count, *rate = map(int, numbers)
    print(json.dumps(blocks(url, last, count) if what == "blocks" else rows(url, last, count, *rate)))


if __name__ == "__main__":
    main(*sys.argv[1:])

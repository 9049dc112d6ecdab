"""A capture of millions of rows, and one that is quiet for minutes: too long for every merge. Anything wrong is exit
code 1.

python -m tests.capture.large [--rows N] [--minutes M] [--json]

rows      a table of so many rows is copied while others write to it; the node is killed half way (copying.py)
minutes   a quiet table is captured for so long beside a busy one: what the database keeps is bounded; then the capture
          is stopped, and what was declared for its limit happens (retaining.py)
"""

import argparse
import json
import sys
import time
from dataclasses import asdict

from tests.capture.large.copying import Copied, copy
from tests.capture.large.retaining import Retained, retain


def main(arguments: list[str] | None = None) -> int:
    wanted = parse(arguments)
    began, anomalies = time.monotonic(), list[str]()
    copied = retained = None
    if wanted.rows:
        copied = copy(wanted.rows)
        anomalies += copied.anomalies
    if wanted.minutes:
        retained = retain(wanted.minutes)
        anomalies += retained.anomalies
    show(copied, retained, time.monotonic() - began, as_json=wanted.json)
    return 1 if anomalies else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.capture.large", description="Captures of much, and of nothing.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table that is copied (default: 10000000)")
    parser.add_argument("--minutes", type=float, default=10, help="for which a table is quiet (default: 10)")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    return parser.parse_args(arguments)


def show(copied: Copied | None, retained: Retained | None, seconds: float, *, as_json: bool) -> None:
    found = {
        "copied": copied and asdict(copied), "retained": retained and asdict(retained), "seconds": round(seconds, 1),
    }  # fmt: skip
    if as_json:
        print(json.dumps(found))
        return
    for part in (copied, retained):
        for name, value in asdict(part).items() if part else ():
            print(f"{name:32} {value}")


if __name__ == "__main__":
    sys.exit(main())

"""Group members to run as processes: `python -m tests.clients.members.<client> --bootstrap ... --group ...`.

Each prints what happens to it in the words of membership.py, and commits what it has printed, in that order: what a
member has read without a commit is read again by the member that takes over.
"""

import argparse
import sys
from collections.abc import Iterable


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--group", "--instance-id"):
        parser.add_argument(name, required=True)
    parser.add_argument("--protocol", default="classic")
    for name in ("--session-ms", "--heartbeat-ms", "--cooperative"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def tell(word: str, numbers: Iterable[int]) -> None:
    print(word, *numbers, flush=True)


def tell_read(records: Iterable[tuple[int, int]]) -> None:
    sys.stdout.write("".join(f"read {partition} {offset}\n" for partition, offset in records))
    sys.stdout.flush()


def tell_committed(records: Iterable[tuple[int, int]]) -> None:
    sys.stdout.write("".join(f"committed {partition} {offset}\n" for partition, offset in records))
    sys.stdout.flush()

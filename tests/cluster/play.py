"""Opens the shop on the host of its customers; `python -m tests.cluster` makes the hosts, and starts this there."""

import argparse
import json
import shutil
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from tests.cluster.chaos import Chaos
from tests.cluster.hosts import Hosts
from tests.cluster.open_shop import SEED, Broken, opened_shop
from tests.cluster.servers import HOST_NAMES


def show(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary), flush=True)
        return
    for name, account in summary["accounts"].items():
        print(f"  {name}: {account}")
    for name, result in summary["views"].items():
        print(f"  view {name}: {result}")
    for sentence in summary["wrong"]:
        print(f"  WRONG: {sentence}")
    verdict = "the books are not in order" if summary["wrong"] else "all accounts balance, every view is proved"
    print(f"{summary['records']:,} records were stored: {verdict}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--loopback", action="store_true")
    parser.add_argument("--for", dest="seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    hosts = Hosts(HOST_NAMES, namespaces=not arguments.loopback, owner=arguments.owner)
    folder = arguments.keep or Path(mkdtemp(prefix="headwater-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with opened_shop(folder, hosts, *arguments.conf) as play:
            print(f"The shop is open for {arguments.seconds:g} seconds.", flush=True)
            if arguments.rounds:
                Chaos(play, Random(arguments.seed)).run(arguments.rounds)
            else:
                play.wait(arguments.seconds)
            play.close()
            summary = play.settle()
    except Broken as error:
        print(f"headwater: {error}", flush=True)
        return 1
    finally:
        if arguments.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    show(summary, as_json=arguments.json)
    return 1 if summary["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

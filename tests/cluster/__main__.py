"""make cluster: the demo's shop, no line changed, on real servers with a host each.

    python -m tests.cluster --for 60s      opens the shop for a minute, then looks at its books
    python -m tests.cluster --rounds 60    kills, cuts off, pauses and slows down what it runs on meanwhile

Exit code 0: all accounts balance, every order came out once, and every view is what the log says.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from headwater.cli.arguments import checked, duration_seconds
from tests.cluster.hosts import made_hosts
from tests.cluster.servers import CLIENT, HOST_NAMES


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", type=checked(duration_seconds), default=60.0,
        help="how long the shop is open (default: 60s)",
    )  # fmt: skip
    parser.add_argument("--rounds", metavar="N", type=int, default=0, help="so many failures, one after the other")
    parser.add_argument("--seed", type=int, default=7, help="of the failures")
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark's")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep what servers say and what they wrote")
    parser.add_argument("--json", action="store_true", help="write the outcome as JSON")
    arguments = parser.parse_args()
    with made_hosts(HOST_NAMES) as hosts:
        where = "each in a network namespace of its own" if hosts.separate else "all on loopback: no namespaces here"
        print(f"Three brokers of Apache Kafka, Spark with two workers, and PostgreSQL, {where}.", flush=True)
        words = [sys.executable, "-m", "tests.cluster.play", "--owner", str(os.getpid())]
        words += ["--for", str(arguments.seconds), "--rounds", str(arguments.rounds), "--seed", str(arguments.seed)]
        words += [word for one in arguments.conf for word in ("--conf", one)]
        words += ["--keep", str(arguments.keep.absolute())] if arguments.keep else []
        words += ["--json"] * arguments.json + ["--loopback"] * (not hosts.separate)
        # Ctrl-C is for the process that has started the servers, and stops them. It would inherit SIG_IGN.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        return subprocess.run(hosts[CLIENT].command(words), check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())

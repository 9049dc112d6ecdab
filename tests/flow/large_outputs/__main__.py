"""A topic copied into another, into PostgreSQL and into Parquet: how fast, with how much memory, and each row once.

python -m tests.flow.large_outputs [--rows N] [--kills N] [--only KIND] [--memory-allowed MIB]

The driver is measured while it copies N rows without being disturbed. Then as many again are copied by drivers of which
each, or its JVM, or a worker, is killed with SIGKILL while tasks stage rows, or while they are published (strikes.py).
Anything wrong is exit code 1; what was measured is printed as JSON.
"""

import argparse
import json
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from headwater.testing import running_node
from tests.flow.large_outputs.copies import Copies
from tests.flow.large_outputs.strikes import KINDS, POSTGRES, VIEW, strikes
from tests.servers.postgres import empty, running_postgres

ROWS, KILLS, MEMORY_MIB = 5_000_000, 6, 100


def main(arguments: list[str] | None = None) -> int:
    wanted = parse(arguments)
    folder = Path(tempfile.mkdtemp(prefix="headwater-large-outputs-"))
    report: dict[str, Any] = {"rows": wanted.rows, "anomalies": []}
    with ExitStack() as open:
        databases = {POSTGRES, VIEW} & {*wanted.only}
        url = open.enter_context(running_postgres(durable=True)) if databases else ""
        for kind in wanted.only:
            with running_node(folder / kind / "data") as node:
                target = empty(url) if kind in (POSTGRES, VIEW) else str(folder / kind / "files")
                copies = Copies(kind, node, target)
                figures = copies.measured(wanted.rows)
                if figures["above idle MiB"] > wanted.memory_allowed:
                    report["anomalies"].append(f"{kind}: the driver grew by {figures['above idle MiB']} MiB")
                if wanted.kills:
                    figures["killed"] = copies.killed(wanted.rows, strikes(kind, wanted.kills, Random(wanted.seed)))
                report["anomalies"] += [f"{kind}: {one}" for one in copies.wrong()]
                report[kind] = figures
    if report["anomalies"]:
        report["kept"] = str(folder)
    else:
        shutil.rmtree(folder)
    print(json.dumps(report))
    return 1 if report["anomalies"] else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.flow.large_outputs", description="Outputs as large as their input.")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which drivers are killed (default: 1)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"that are copied (default: {ROWS})")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"for each sink (default: {KILLS}; 0: none)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="the sinks to copy into (default: all)")
    parser.add_argument(
        "--memory-allowed", type=float, default=MEMORY_MIB, metavar="MIB",
        help=f"that the driver may grow by (default: {MEMORY_MIB})",
    )  # fmt: skip
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

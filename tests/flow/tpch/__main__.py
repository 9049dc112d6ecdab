"""TPC-H's queries at a scale: python -m tests.flow.tpch --scale 0.1 [--positions 10] [--queries q1 q13] [--seed 1]."""

import argparse
import sys
import tempfile
from pathlib import Path

from examples.tpch.main import QUERIES
from tests.flow.tpch.running import compare
from tests.servers.postgres_cluster import running_cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.flow.tpch")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--positions", type=int, default=10)
    parser.add_argument("--queries", nargs="*", default=list(QUERIES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--refresh-only", action="store_true", help="change orders and their lines alone")
    options = parser.parse_args()
    with (
        running_cluster(wal_sender_timeout="0") as cluster,
        tempfile.TemporaryDirectory(prefix="headwater-tpch-") as folder,
    ):
        found = compare(
            options.queries, options.scale, options.positions, cluster.url, Path(folder), seed=options.seed,
            others=not options.refresh_only, say=lambda text: print(text, flush=True),
        )  # fmt: skip
    print(f"rows of all answers: {found.rows}")
    print(f"{found.compared} answers compared, {len(found.different)} different")
    return 1 if found.different or not all(found.rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

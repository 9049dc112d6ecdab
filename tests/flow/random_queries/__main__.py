"""Many random queries: python -m tests.flow.random_queries --queries 1000 [--seed 1]."""

import argparse
import random
import sys
from collections import Counter
from time import process_time

import psycopg

from headwater.testing import running_node
from tests.flow.random_queries.cases import random_case, run_case, script_of, shrunk
from tests.flow.spark_session import shared_session
from tests.servers.postgres import running_postgres

PER_CASE = 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.flow.random_queries")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--per-case", type=int, default=PER_CASE)
    parser.add_argument("--quick", action="store_true", help="print failures as they are, not as small as they can be")
    parser.add_argument("--spark", action="store_true", help="run all jobs on Spark, which takes much longer")
    options = parser.parse_args()
    spark = shared_session() if options.spark else None
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seeds from {seed} on", flush=True)
    compared, wrong, refused, ways = 0, 0, Counter[str](), Counter[str]()
    with (
        running_postgres() as url,
        psycopg.connect(url, autocommit=True, prepare_threshold=None) as database,
        running_node() as node,
    ):
        database.execute("SET timezone TO 'UTC'")
        while compared < options.queries:
            case = random_case(seed, options.per_case)
            outcome = run_case(case, node, database, spark)
            compared += len(outcome.compared)
            ways.update(way for query in outcome.compared for way in query.ways)
            refused.update(why for _, why in outcome.refused)
            for one in outcome.different:
                wrong += 1
                print(f"\n== seed {seed}", flush=True)
                print(script_of(case.of(one.query), one), flush=True)
                if not options.quick:
                    small = shrunk(case, one, node, database)  # in this process, which is quicker
                    for left in run_case(small, node, database).different:
                        print("-- shrunk:", script_of(small, left), sep="\n", flush=True)
            print(
                f"seed {seed}: {compared} compared, {wrong} wrong, {refused.total()} refused, {outcome.rows} rows,"
                f" {process_time():.0f} CPU s", flush=True,
            )  # fmt: skip
            seed += 1
    for why, times in refused.most_common(40):
        print(f"refused {times} times: {why[:300]}")
    print(f"{compared} queries compared, {wrong} wrong; with", dict(ways.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The tables of captures. Pure."""

from benchmarks.capture.names import DEBEZIUM, HEADWATER
from benchmarks.results import Case, Results
from benchmarks.tables import DASH, Table, middle, number, times

CHANGES_GOAL = 50_000

CHANGES_NOTE = (
    "Changes a second from PostgreSQL into something durable, from the first transaction of a thousand changes (600 "
    "rows inserted, 300 updated, 100 deleted) until the last is on disk; one writer writes as fast as it can "
    "meanwhile, on the same cores. Debezium's events go to a file that is synced once a batch; headwater's into a "
    "topic. CPU is "
    "that of the capturing process, for a million changes. Goals: 5 × Debezium, 50,000 changes a second."
)
COPY_NOTE = "Rows a second of a table that is there already, from the first rows to the last; the start is left out."
LATENCY_NOTE = (
    "From the moment a commit of one row has returned to the moment its record can be read, at 1,000 commits a second; "
    "a reader polls every 2 ms. The goal is p99 below 200 ms."
)


def capture_tables(results: Results) -> list[Table]:
    tables = [
        rates(results, "changes", "Capture, changes of PostgreSQL", CHANGES_NOTE, CHANGES_GOAL),
        rates(results, "copy", "Capture, copy of a table", COPY_NOTE, None),
        latency(results),
    ]
    return [table for table in tables if table.rows]


def rates(results: Results, what: str, title: str, note: str, goal: int | None) -> Table:
    case, rows = Case("capture", (what,)), []
    for who in results.contenders(case):
        own = results.median(case, who, "rate")
        ratio = times(results.ratio(case, who, DEBEZIUM, "rate")) if who == HEADWATER else DASH
        of_goal = [] if goal is None else [times(own / goal) if own is not None and who == HEADWATER else DASH]
        used = [number(results.median(case, who, metric)) for metric in ("cpu", "memory")]
        rows.append([who, middle(results, case, who, "rate"), ratio, *of_goal, *used])
    columns = ["who", f"{'rows' if what == 'copy' else what}/s", "of Debezium", "CPU s/million", "MiB"]
    if goal is not None:
        columns.insert(3, "of the goal")
    return Table(title, note, columns, rows)


def latency(results: Results) -> Table:
    case = Case("capture", ("latency",))
    rows = [
        [who, *(number(results.median(case, who, metric)) for metric in ("p50", "p99", "most"))]
        for who in results.contenders(case)
    ]
    return Table("Capture, commit to reader", LATENCY_NOTE, ["who", "p50 ms", "p99 ms", "most ms"], rows)

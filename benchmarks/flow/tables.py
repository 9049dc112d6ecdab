"""The tables of flows. Pure."""

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.flow.names import CONNECTOR, FLINK, HEADWATER, JDBC, MEMORY, POSTGRES, RAW, ROCKS, SQLITE, TRANSFORM
from benchmarks.flow.stage_names import DRIVER, JVM, REST, STAGES, WORKERS
from benchmarks.results import Case, Results
from benchmarks.tables import DASH, Table, middle, number, times

METRICS = ("cold", "warm", "cpu", "memory")
METRIC_NAMES = ("cold events/s", "warm events/s", "CPU s", "MiB")
SOURCE_GOAL_ROWS = 1_500_000

SOURCE_NOTE = (
    "Rows a second out of a topic, typed, into a query that does nothing with them. All read the same node: "
    "headwater's source its files, Spark's Kafka connector its port. The goal is 1.5 million rows a second."
)
KEYED_NOTE = (
    "Rows a second of a count by user. All read the same topic through the headwater source in the same batches, with "
    "as many shuffle partitions as cores; transformWithState reads fewer rows. Spark's own aggregation writes its "
    "counts nowhere, as the first line of headwater does; the second one keeps a view that can be queried."
)
STATE_NOTE = (
    "Milliseconds from the reduced rows of a batch, 10,000 keys, to the durable version of the state that includes "
    "them, by the number of keys in it. The last column is against the line above; the goal from 1 to 10 million keys "
    "is below 1.5."
)
SINK_NOTE = (
    "Rows a second from a topic into a table with a key. The JDBC one is written by hand: a staging table that is not "
    "logged, rewritten batches of 10,000, and INSERT ... ON CONFLICT; it does not remember which batches it took."
)
LATENCY_NOTE = (
    "From the call of the producer, acks=all through the port, to the first look at the view that includes the event; "
    "the view is looked at every 5 ms. The goal is p50 below 500 ms and p99 below 1,000 ms."
)
WINDOWS_NOTE = (
    "Events a second of count and max by key, in windows of ten seconds (session: a gap of ten seconds; sliding: the "
    "ten seconds before each event), each result given once, when its time has passed, and written nowhere. Each "
    "contender is a process that works twice: cold is from its start to the last result, warm the second time in "
    "it, start of the job included. headwater and Spark read a topic with the headwater source, the others the same "
    "events from a file. MiB are all its processes together, at most. Goals, warm: 3 × Flink, 2 × the better Spark; "
    "with `where` and `select` before the windows at most 1.25 × slower."
)
JOINS_NOTE = (
    "Rows a second of both inputs together: interval (events of the right up to ten seconds behind those of the left), "
    "as-of (each event with the version of a row that held at its time) and tables (each row of the left with the one "
    "of the right that has its key). Contenders, cold, warm and MiB are as for windows; results are written nowhere. "
    "Spark has no as-of join, and its join of tables is one of streams that never forgets. Goals, warm: ahead of "
    "Flink, and as-of above 300,000 rows a second."
)
NEXMARK_NOTE = (
    "Events a second of the queries of Nexmark, persons, auctions and bids of all together; a query reads those that "
    "it needs. Contenders, cold, warm and MiB are as for windows; CPU seconds are those of all processes of one "
    "in the warm run. Results are written nowhere, those of q10 into files. headwater keeps its state on the disk with "
    "every batch; Flink has its state in memory, takes no checkpoints, and has the settings that Nexmark gives it. "
    "Flink does not emit q12, windows by processing time, at the end of its files. Goals, warm: 2 × Flink in the "
    "geometric mean, and no query below 0.8 ×."
)
JOINS_STATE_NOTE = (
    "Milliseconds from the rows of a batch of a join of tables, 5,000 new ones on the left and 5,000 changed ones on "
    "the right, to the durable versions of both sides, and what both keep, by the number of keys of each."
)
CHANGES_NOTE = (
    "A batch of 1,000 changed rows of a table, half updates, a quarter new rows and a quarter deletions, from the log "
    "to the view, by the number of rows of the table. CPU ms are those of the whole process; rows are those of the "
    "state that operators read and write, merges of runs included. The last column is the milliseconds against the "
    "line above; the goal from 1 to 10 million rows is below 1.5."
)
START_NOTE = "From the start of the process `headwater run` to its first finished batch. The goal is below 6 s."

STAGES_NOTE = (
    "CPU seconds, warm. Left: with all tasks in one process, by stage: the log's bytes to records; records to columns; "
    "the user's steps and partial aggregation; blocks between tasks; operators; their state, looked up, written and "
    "synced; results to their sink; the rest of the driver. Right: the same flow in Spark, by process."
)
FLOOR_NOTE = (
    "Milliseconds of a batch of ten records, counted by key into a view, from the producer's acknowledgement to the "
    "end of the batch, and what its parts take."
)


def flow_tables(results: Results) -> list[Table]:
    tables = [source(results), keyed(results), state(results), sink(results), latency(results), starts(results)]
    tables += [windows(results), joins(results), joins_state(results), nexmark(results), stages(results)]
    tables += [batch_floor(results), table_changes(results)]
    return [table for table in tables if table.rows]


def source(results: Results) -> Table:
    rows = []
    for case in results.cases("source"):
        for who in results.contenders(case):
            connector = next((name for name in results.contenders(case) if name.startswith(CONNECTOR)), CONNECTOR)
            own = results.median(case, who, "rows")
            of_goal = times(own / SOURCE_GOAL_ROWS if own is not None and who == HEADWATER else None)
            ratios = ratios_of(results, case, who, [HEADWATER], [RAW, connector])
            rows.append([*case.words, who, middle(results, case, who, "rows"), *ratios, of_goal])
    columns = ["partitions", "source", "rows/s", "of raw, from_json", "of Kafka connector", "of the goal"]
    return Table("Source of flows", SOURCE_NOTE, columns, rows)


def keyed(results: Results) -> Table:
    peers = [ROCKS, MEMORY, TRANSFORM]
    rows = [
        [*case.words, who, middle(results, case, who, "rows"), *ratios_of(results, case, who, None, peers)]
        for case in results.cases("keyed")
        for who in results.contenders(case)
    ]
    columns = ["keys", "who", "rows/s", "of RocksDB", "of in memory", "of transformWithState"]
    return Table("Keyed count", KEYED_NOTE, columns, rows)


def state(results: Results) -> Table:
    rows, above = [], Case("state")
    for case in results.cases("state"):
        own, before = (results.median(one, HEADWATER, "milliseconds") for one in (case, above))
        same_shards = above.words[:1] == case.words[:1]
        ratio = own / before if own is not None and before and same_shards else None
        rows.append([*case.words, middle(results, case, HEADWATER, "milliseconds"), times(ratio)])
        above = case
    columns = ["shards", "keys", "ms", "of ten times fewer keys"]
    return Table("State, commit of the same change", STATE_NOTE, columns, rows)


def sink(results: Results) -> Table:
    rows = [
        [
            *case.words,
            who,
            middle(results, case, who, "rows"),
            *ratios_of(results, case, who, [POSTGRES, SQLITE], [JDBC]),
        ]
        for case in results.cases("sink")
        for who in results.contenders(case)
    ]
    return Table("Sinks of flows", SINK_NOTE, ["rows are", "who", "rows/s", "of JDBC"], rows)


def ratios_of(results: Results, case: Case, who: str, own: Sequence[str] | None, peers: Sequence[str]) -> list[str]:
    """How many times each peer it is; only for our `own`, which unless said are all that are no peers."""
    ours = who in own if own is not None else who not in peers
    return [times(results.ratio(case, who, peer, "rows")) if ours else DASH for peer in peers]


def latency(results: Results) -> Table:
    rows = [
        [*case.words, who, *(number(results.median(case, who, metric)) for metric in ("p50", "p99", "most"))]
        for case in results.cases("flow-latency")
        for who in results.contenders(case)
    ]
    return Table("Latency of a flow", LATENCY_NOTE, ["events/s", "into", "p50 ms", "p99 ms", "longest ms"], rows)


def starts(results: Results) -> Table:
    rows = [
        [*case.words, middle(results, case, who, "seconds")]
        for case in results.cases("flow-start")
        for who in results.contenders(case)
    ]
    return Table("Start of a flow", START_NOTE, ["start of", "seconds"], rows)


def windows(results: Results) -> Table:
    rows = []
    for case in results.cases("windows"):
        for who in results.contenders(case):
            ratios = [
                times(results.ratio(case, HEADWATER, who, run) if who != HEADWATER else None)
                for run in ("cold", "warm")
            ]
            own = [middle(results, case, who, metric) for metric in ("cold", "warm", "memory")]
            rows.append([*case.words, who, *own, *ratios])
    columns = ["windows", "keys", "who", "cold events/s", "warm events/s", "MiB", "headwater, cold", "headwater, warm"]
    return Table("Windows", WINDOWS_NOTE, columns, rows)


def joins(results: Results) -> Table:
    rows = []
    for case in results.cases("joins"):
        for who in results.contenders(case):
            ratios = [
                times(results.ratio(case, HEADWATER, who, run) if who != HEADWATER else None)
                for run in ("cold", "warm")
            ]
            own = [middle(results, case, who, metric) for metric in ("cold", "warm", "memory")]
            rows.append([*case.words, who, *own, *ratios])
    columns = ["join", "who", "cold rows/s", "warm rows/s", "MiB", "headwater, cold", "headwater, warm"]
    return Table("Joins", JOINS_NOTE, columns, rows)


def nexmark(results: Results) -> Table:
    rows, ratios = [], {run: list[float]() for run in ("cold", "warm")}
    for case in results.cases("nexmark"):
        own, theirs = ([results.median(case, who, metric) for metric in METRICS] for who in (HEADWATER, FLINK))
        found = {run: results.ratio(case, HEADWATER, FLINK, run) for run in ratios}
        for run, ratio in found.items():
            ratios[run] += [ratio] if ratio is not None else []
        pairs = [number(one) for pair in zip(own, theirs, strict=True) for one in pair]
        rows.append([*case.words, *pairs, *map(times, found.values())])
    if rows:
        means = [times(geometric_mean(values) if values else None) for values in ratios.values()]
        rows.append(["geometric mean", *[DASH] * 2 * len(METRICS), *means])
    pairs = [f"{metric}, {who}" for metric in METRIC_NAMES for who in (HEADWATER, "Flink")]
    return Table("Nexmark", NEXMARK_NOTE, ["query", *pairs, "of Flink, cold", "of Flink, warm"], rows)


def joins_state(results: Results) -> Table:
    rows = [
        [*case.words, *(middle(results, case, HEADWATER, metric) for metric in ("milliseconds", "mebibytes"))]
        for case in results.cases("joins-state")
    ]
    return Table("Join of tables, commit of the same change", JOINS_STATE_NOTE, ["keys", "ms", "MiB"], rows)


def stages(results: Results) -> Table:
    metrics = [*STAGES, REST, DRIVER, WORKERS, JVM]
    rows = [
        [*case.words, *(number(results.median(case, HEADWATER, metric)) for metric in metrics)]
        for case in results.cases("stages")
    ]
    columns = ["flow", "rows", *STAGES, "rest", "in Spark: driver", "Python workers", "JVM"]
    return Table("CPU seconds by stage", STAGES_NOTE, columns, rows)


def batch_floor(results: Results) -> Table:
    rows = [
        [*case.words, *(number(results.median(case, HEADWATER, metric)) for metric in ("p50", "p99"))]
        for case in results.cases("batch-floor")
    ]
    return Table("Where the milliseconds of a small batch go", FLOOR_NOTE, ["part", "p50 ms", "p99 ms"], rows)


def table_changes(results: Results) -> Table:
    rows, above = list[list[str]](), dict[str, float]()
    for case in results.cases("table-changes"):
        own = results.median(case, HEADWATER, "milliseconds")
        before = above.get(case.words[0])
        shown = [middle(results, case, HEADWATER, metric) for metric in ("milliseconds", "cpu", "read", "written")]
        rows.append([*case.words, *shown, times(own / before if own is not None and before else None)])
        if own is not None:
            above[case.words[0]] = own
    columns = ["query", "rows", "ms", "CPU ms", "rows read", "rows written", "of the line above"]
    return Table("Tables, a batch of the same change", CHANGES_NOTE, columns, rows)

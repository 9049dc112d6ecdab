"""The process that computes one query at a time: DuckDB over Arrow tables that it is handed, and nothing else.

A query may try to fill the memory or never end, and DuckDB has no limit that holds for every function. So it runs in a
process of its own, which has no more memory than it needs, cannot write a file, and is killed when its time is up.

    request     4 bytes: length of the JSON, JSON {sql, tables, rows_max, bytes_max}, an Arrow stream for each table
    answer      4 bytes: length of the JSON, JSON {cut} or {kind, message}, an Arrow stream if it is the former

It is started as a file, not as a module of the package, and imports nothing of it.
"""

import json
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

MEMORY_MIB = 512
"""Of DuckDB, for what it computes with."""
SPARE_MIB = 1024
"""What the process may hold beside what it has when it is ready: the tables, what DuckDB computes with, the answer."""
IDLE_SECONDS = 60
ROWS_AT_ONCE = 2048

SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
    "memory_limit": f"{MEMORY_MIB}MiB",
}


def opened() -> Any:
    """A database of its own for every query: nothing is left of the one before."""
    database = duckdb.connect(":memory:", config=dict(SETTINGS))
    database.execute("SET TimeZone='UTC'")
    database.execute("SET default_null_order='nulls_first_on_asc_last_on_desc'")  # as in Spark
    database.execute("SET lock_configuration=true")
    return database


def confine() -> None:
    """From here on: a bounded memory, no file written, and an end after a while without a request."""
    opened().execute("SELECT sum(x) FROM range(10) AS r(x)").fetchall()  # loads what the first query would load
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    for limit, most in (
        (resource.RLIMIT_AS, held + SPARE_MIB * 1024**2),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))


def answer(request: dict[str, Any], tables: dict[str, pa.Table]) -> tuple[dict[str, Any], pa.Table | None]:
    try:
        database = opened()
        for name, table in tables.items():
            database.register(name, table)
        reader = database.sql(request["sql"]).to_arrow_reader(ROWS_AT_ONCE)
        return collected(reader, request["rows_max"], request["bytes_max"])
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError):
        return {"kind": "memory", "message": ""}, None
    except duckdb.Error as error:
        return {"kind": "refused", "message": str(error)}, None


def collected(reader: Any, rows_max: int, bytes_max: int) -> tuple[dict[str, Any], pa.Table]:
    """The first rows of the answer, and whether there are more."""
    batches, rows, size, cut = [], 0, 0, False
    for batch in reader:
        kept = batch.slice(0, rows_max - rows)
        if size + kept.nbytes > bytes_max:
            kept = kept.slice(0, max(0, int(kept.num_rows * (bytes_max - size) / max(1, kept.nbytes))))
        batches.append(kept)
        rows, size = rows + kept.num_rows, size + kept.nbytes
        if kept.num_rows < batch.num_rows:
            cut = True
            break
    return {"cut": cut}, pa.Table.from_batches(batches, reader.schema)


def read_exactly(source: BinaryIO, count: int) -> bytes:
    found = source.read(count)
    if len(found) < count:
        sys.exit(0)  # who asks has ended
    return found


def serve(source: BinaryIO, target: BinaryIO) -> None:
    while True:
        signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS)  # ends the process, which does not handle the signal
        (length,) = struct.unpack("!I", read_exactly(source, 4))
        request = json.loads(read_exactly(source, length))
        # Also in the middle of a function that looks at nothing else; who asks kills it earlier, if it is still there.
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1)
        tables = {name: pa.ipc.open_stream(source).read_all() for name in request["tables"]}
        said, table = answer(request, tables)
        head = json.dumps(said).encode()
        target.write(struct.pack("!I", len(head)) + head)
        if table is not None:
            with pa.ipc.new_stream(target, table.schema) as stream:
                stream.write_table(table)
        target.flush()


if __name__ == "__main__":
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for who asks
    # What a library prints must not be taken for an answer.
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    confine()
    serve(sys.stdin.buffer, answers)

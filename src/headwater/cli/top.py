"""headwater top: topics, groups and flows, live in the terminal."""

import argparse
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime

from rich.console import Group as Stack
from rich.live import Live
from rich.text import Text

from headwater.cli.arguments import add_connection, add_json, checked, duration_seconds
from headwater.cli.connection import reach
from headwater.cli.observer import Frame, Observer
from headwater.cli.output import Cell, ago, console, plain_table, write_json
from headwater.clock import SystemClock
from headwater.flow.plan.timestamps import plain
from headwater.flow.run.figures import HotFigures, JobFigures, OutputFigures

PAUSE_SECONDS = 1.0
HOT_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="show one frame and stop; the default without a terminal")
    parser.add_argument(
        "--every",
        metavar="TIME",
        type=checked(duration_seconds),
        default=PAUSE_SECONDS,
        help="how long a frame stays, such as 500ms or 5s (default: 1s)",
    )
    add_connection(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        local = arguments.kafka is None
        observer = Observer(address, arguments.data, local=local, clock=SystemClock())
        with closing(observer):
            if arguments.json:
                write_json(observer.look().to_json())
            elif arguments.once or not sys.stdout.isatty():
                console(sys.stdout).print(screen(observer.look()))
            else:
                watch(observer, arguments.every)
    return 0


def watch(observer: Observer, seconds: float) -> None:
    """Frame after frame until Ctrl-C."""
    pause = threading.Event()
    with Live(screen(observer.look()), console=console(sys.stdout), screen=True, auto_refresh=False) as live:
        while not pause.wait(seconds):
            live.update(screen(observer.look()), refresh=True)


# -- what it looks like ------------------------------------------------------------------------------------------------


def screen(frame: Frame) -> Stack:
    """Jobs first: where there are many topics, the end of the list may not fit."""
    time = datetime.fromtimestamp(frame.time_ms / 1000, UTC)
    parts: list[object] = [Text(f"headwater at {frame.address}, {time:%Y-%m-%d %H:%M:%S} UTC", style="bold")]
    outputs = [(job, output) for job in frame.jobs for output in job.outputs]
    tables: list[tuple[list[str], list[list[Cell]]]] = [
        (["job", "status", "batch", "rows/s", "lag", "last batch", "state"], [job_row(job) for job in frame.jobs]),
        (["job", "failed", "times", "why"], [trouble_row(job) for job in frame.jobs if job.condition.reason]),
        (["job", "watermark", "behind", "idle"], [time_row(job) for job in frame.jobs if job.watermark_us is not None]),
        (
            ["join", "hot key", "rows", "of its"],
            [hot_row(job, one) for job in frame.jobs for one in job.hot[:HOT_SHOWN]],
        ),
        (
            ["output", "rows in", "out", "filtered", "late", "poisoned", "last in", "last out"],
            [output_row(job, output) for job, output in outputs],
        ),
        (
            ["output", "keys expired", "last expired"],
            [expired_row(job, output) for job, output in outputs if output.total.expired],
        ),
        (
            ["group", "state", "members", "lag"],
            [[group.name, group.state, group.members, group.lag] for group in frame.groups],
        ),
        (
            ["topic", "partitions", "records", "bytes", "records/s"],
            [
                [topic.name, topic.partitions, topic.records, size(topic.bytes), whole(topic.per_second)]
                for topic in frame.topics
            ],
        ),
    ]
    for columns, rows in tables:
        if rows:
            parts += [Text(""), plain_table(columns, rows)]
    if not frame.topics:
        parts += [Text(""), Text('there are no topics yet; make one with "headwater topic create NAME"')]
    return Stack(*parts)  # type: ignore[arg-type]


def job_row(job: JobFigures) -> list[Cell]:
    return [
        job.name,
        str(job.state),
        job.batch,
        whole(job.per_second),
        job.lag,
        None if job.since_ms is None else f"{ago(job.since_ms)} ago",
        size(job.state_bytes),
    ]


def trouble_row(job: JobFigures) -> list[Cell]:
    said = job.condition.to_json()
    first_ms = said["failed_first_ms"]
    since = None if first_ms is None else f"{datetime.fromtimestamp(first_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    return [job.name, since, said["failed_count"], job.condition.reason]


def time_row(job: JobFigures) -> list[Cell]:
    """The watermark of a job, its lag behind the newest event, and its idle partitions."""
    reached, behind = job.watermark_us, job.behind_us
    return [
        job.name,
        None if reached is None else plain(reached),
        None if behind is None else ago(behind // 1000),
        ", ".join(job.idle) or None,
    ]


def hot_row(job: JobFigures, hot: HotFigures) -> list[Cell]:
    """A key of a join that all tasks work on, and which side has its many rows."""
    return [f"{job.name.partition('.')[0]}.{hot.operator}", hot.key, hot.rows, hot.side]


def output_row(job: JobFigures, output: OutputFigures) -> list[Cell]:
    total, last = output.total, output.last
    name = f"{job.name.partition('.')[0]}.{output.name}"
    counts = [total.rows_in, total.rows_out, total.filtered + total.duplicates, total.late, total.poisoned]
    return [name, *counts, last.rows_in, last.rows_out]


def expired_row(job: JobFigures, output: OutputFigures) -> list[Cell]:
    """How many keys have ended (keep=), in all batches and in the last."""
    return [f"{job.name.partition('.')[0]}.{output.name}", output.total.expired, output.last.expired]


def whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def size(count: int | None) -> str | None:
    """
    >>> size(512), size(1_234_567), size(None)
    ('512 B', '1.2 MB', None)
    """
    if count is None or count < 1000:
        return None if count is None else f"{count} B"
    number, units = count / 1000, ["kB", "MB", "GB", "TB", "PB"]
    while number >= 999.95 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:,.1f} {units[0]}"

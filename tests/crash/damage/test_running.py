"""An app that is run again over damage: what it tells is right, or the job says which file keeps it from running."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.node import Node
from headwater.record import Record
from headwater.views.view import View
from tests.crash.damage.building import (
    APP,
    BEGUN_MS,
    KILLED,
    OLDER,
    ORDERS,
    RECORDS,
    TOTALS,
    Images,
    declare,
    node_settings,
)
from tests.crash.damage.damages import DELETED, EMPTY, FLIPPED, TRUNCATED, inflict
from tests.crash.damage.damages import OLDER as OLDER_VERSION
from tests.flow.engines import Engine, session_of

pytestmark = [pytest.mark.torture, pytest.mark.timeout(600)]

MORE = 20
JOB = f"flows/{APP}/{ORDERS}"
RESTORED = [
    (f"{JOB}/planned.json", DELETED),
    (f"{JOB}/planned.json", EMPTY),
    (f"{JOB}/planned.json", FLIPPED),
    (f"{JOB}/planned.json", TRUNCATED),
    (f"{JOB}/planned.json", OLDER_VERSION),
    (f"{JOB}/planned.copy", FLIPPED),
    (f"{JOB}/identity.json", EMPTY),
    (f"{JOB}/plan.json", FLIPPED),
    (f"{JOB}/batches/1.json", DELETED),
    (f"{JOB}/sinks/{TOTALS}.json", OLDER_VERSION),
    (f"{JOB}/sinks/{APP}.accounts.json", TRUNCATED),
    (f"{JOB}/stage/wish.json", FLIPPED),
]
REFUSED = [
    (f"{JOB}/state/spent/versions/000000000001.json", FLIPPED, "versions/000000000001.json"),
    (f"{JOB}/state/spent/versions/000000000001.json", DELETED, "has no version 1"),
    (f"views/{APP}.sqlite", DELETED, "is lost"),
]


def run_again(images: Images, engine: Engine, path: str, damage: str) -> tuple[str, list[str]]:
    """What the app says, and what is wrong afterwards."""
    root = images.root  # a checkpoint does not let itself be moved
    shutil.rmtree(root)
    shutil.copytree(images.of(KILLED), root)
    inflict(damage, root / "data" / path, images.of(OLDER) / "data" / path)
    for journal in (root / "data").glob(f"{path}-*"):
        journal.unlink()
    with Node(root / "data", node_settings(http=False)) as node:
        for number in range(2 * RECORDS, 2 * RECORDS + MORE):
            order = {"id": f"o{number}", "user_id": number % 7, "amount": number % 50, "at": "2026-03-01T00:00:00Z"}
            record = Record(json.dumps(order).encode(), timestamp_ms=BEGUN_MS + 1000 * number)
            node.log.append(ORDERS, record, partition=number % 2)
        session, columns = session_of(engine)
        running = RunningApp(declare(root), session, RunSettings(root / "data", node.kafka_address, once=True))
        said = ""
        try:
            with columns():
                running.start()
                running.wait()
        except HeadwaterError as error:
            said = str(error)
        finally:
            running.stop()
        return said, wrong(node, root / "data") if not said else []


def wrong(node: Node, data: Path) -> list[str]:
    orders = [json.loads(record.value or b"") for number in (0, 1) for record in node.log.read(ORDERS, number)
              if record.value != b"this is no order"]  # fmt: skip
    with View.open(data, APP, "spent") as view:
        spent = {row["user_id"]: (row["orders"], row["amount"]) for row in view.rows()}
    users = {order["user_id"] for order in orders}
    of_user = {user: [one["amount"] for one in orders if one["user_id"] == user] for user in users}
    found = [] if spent == {user: (len(all_), sum(all_)) for user, all_ in of_user.items()} else [f"the view: {spent}"]
    counts = Counter(json.loads(record.value or b"")["id"] for record in node.log.read(TOTALS))
    right = Counter(order["id"] for order in orders if order["amount"] > 10)
    return found + ([] if counts == right else [f"{TOTALS}: {counts - right} too often, {right - counts} missing"])


@pytest.mark.parametrize(("path", "damage"), RESTORED)
def test_a_job_whose_file_can_be_restored_continues_without_loss(
    images: Images,
    engine: Engine,
    path: str,
    damage: str,
) -> None:
    assert run_again(images, engine, path, damage) == ("", [])


@pytest.mark.parametrize(("path", "damage", "named"), REFUSED)
def test_a_job_whose_file_is_lost_says_so(
    images: Images,
    engine: Engine,
    path: str,
    damage: str,
    named: str,
) -> None:
    said, _ = run_again(images, engine, path, damage)
    assert named in said

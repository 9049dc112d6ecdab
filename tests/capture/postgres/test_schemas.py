"""What the records of a captured table look like is registered, with every version of the table."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest

import headwater as hw
from headwater.capture.definition import Definition, Definitions
from headwater.capture.schemas import COLUMN_TYPE, Registration
from headwater.flow.registry.change_types import schema_of_changes
from headwater.registry.registry import Registry
from headwater.registry.words import Compatibility
from headwater.settings import HttpSettings
from tests.capture.kit import PATIENCE_SECONDS, run
from tests.waiting import patience

Connection = psycopg.Connection[Any]

EVERY = {
    "id": ("int", "1"),
    "small": ("smallint", "-7"),
    "large": ("bigint", "9007199254740993"),
    "ratio": ("float8", "'NaN'"),
    "price": ("numeric(20,4)", "1.5"),
    "free": ("numeric", "1.10"),
    "flag": ("boolean", "true"),
    "bits": ("bit(1)", "B'1'"),
    "data": ("bytea", "'\\x00ff'"),
    "day": ("date", "'2026-01-31'"),
    "moment": ("timestamptz", "'2026-01-31 12:00:00+02'"),
    "clock": ("timestamp", "'infinity'"),
    "words": ("text[]", "'{a,NULL}'"),
    "point": ("place", "'(1,\"a, b\")'"),
    "mood": ("mood", "'happy'"),
    "nothing": ("text", "NULL"),
}
COLUMNS = (
    "id int, small smallint, large bigint, ratio double, price decimal(20,4), free string, flag boolean, bits boolean, "
    "data binary, day date, moment timestamp, clock timestamp_ntz, words array<string>, "
    "point struct<x: int, name: string>, mood string, nothing string"
)


@pytest.fixture
def node(tmp_path: Path, url: str, database: Connection) -> Iterator[hw.Node]:
    run(
        database,
        "CREATE TYPE mood AS ENUM ('happy', 'sad')",
        "CREATE TYPE place AS (x int, name text)",
        f"CREATE TABLE every ({', '.join(f'{name} {type}' for name, (type, _) in EVERY.items())}, PRIMARY KEY (id))",
        f"INSERT INTO every VALUES ({', '.join(value for _, value in EVERY.values())})",
    )
    Definitions(tmp_path / "data").add(Definition(name="every", url=url, tables=("public.every",)))
    settings = hw.NodeSettings(wire=hw.WireSettings(port=0), http=HttpSettings(port=0), captures=True)
    with hw.Node(tmp_path / "data", settings) as node:
        yield node


def until(reached: Callable[[], bool]) -> None:
    deadline = patience() + PATIENCE_SECONDS
    while not reached():
        assert patience() < deadline
        time.sleep(0.02)


def versions_of(node: hw.Node) -> int:
    known = {topic.name for topic in node.log.topics()}
    return node.log.partition("every", 0).high_watermark if "every" in known else 0


def registry_of(node: hw.Node) -> Registry:
    assert node._http is not None
    return node._http.registry


def versions(node: hw.Node, subject: str) -> list[dict[str, Any]]:
    registry = registry_of(node)
    return [json.loads(one.schema.text) for one in registry.versions(subject)] if subject in registry.subjects() else []


def test_records_are_what_their_registered_schema_says(node: hw.Node, database: Connection) -> None:
    until(lambda: versions_of(node) == 1)
    run(database, "UPDATE every SET small = 8", "DELETE FROM every")
    until(lambda: versions_of(node) == 4)
    (value,), (key,) = versions(node, "every-value"), versions(node, "every-key")
    records = list(node.log.read("every", 0))
    for record in records:
        jsonschema.validate(json.loads(record.key or b""), key)
        if record.value is not None:
            jsonschema.validate(json.loads(record.value), value)
    assert len(records) == 4
    assert schema_of_changes(json.dumps(value), {}).ddl == COLUMNS


def test_another_version_of_the_table_is_another_version_of_the_schema(node: hw.Node, database: Connection) -> None:
    until(lambda: len(versions(node, "every-value")) == 1)
    run(database, "ALTER TABLE every ADD COLUMN more int", "ALTER TABLE every DROP COLUMN small")
    run(database, "ALTER TABLE every ALTER COLUMN large TYPE text", "UPDATE every SET more = 5")
    until(lambda: len(versions(node, "every-value")) == 2)
    columns = versions(node, "every-value")[-1]["properties"]["after"]["oneOf"][1]["properties"]
    assert (columns["more"]["type"], columns["large"][COLUMN_TYPE]) == (["integer", "null"], "string")
    assert "small" not in columns


def test_a_registry_that_starts_later_gets_all_versions(node: hw.Node, database: Connection) -> None:
    until(lambda: len(versions(node, "every-value")) == 1)
    node.stop()
    without = hw.NodeSettings(wire=hw.WireSettings(port=0), captures=True)
    with hw.Node(node.data, without):
        run(database, "ALTER TABLE every ADD COLUMN more int", "UPDATE every SET more = 5")
        until(lambda: int(str((Definitions(node.data).status("every") or {}).get("counts", {}).get("changes", 0))) > 0)  # type: ignore[attr-defined]
    node.start()
    until(lambda: len(versions(node, "every-value")) == 2)


def test_a_rule_that_was_set_is_kept_and_the_capture_continues(node: hw.Node, database: Connection) -> None:
    until(lambda: len(versions(node, "every-value")) == 1)
    assert node._http is not None
    registry_of(node).set_level("every-value", Compatibility.FULL)
    node._http.register(Registration("every-value", '{"type": "string"}'))
    assert len(versions(node, "every-value")) == 1

"""Views in the PostgreSQL of a node as programs on a JVM read them: through PostgreSQL's JDBC driver."""

import subprocess
import tempfile
from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.node import POSTGRESQL, Node
from headwater.settings import HttpSettings, NodeSettings, WireSettings
from headwater.views.mark import Mark
from headwater.views.postgres_programs import binaries
from headwater.views.store import open_store
from tests.clients.brokers.maven import java_command
from tests.clients.brokers.process import NotAvailable
from tests.servers.postgres_releases import jdbc_driver
from tests.waiting import LONG

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not binaries(), reason="there is no PostgreSQL")]

WITH_POSTGRES = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0), views=POSTGRESQL)
PROGRAM = Path(__file__).parent / "java" / "ViewsByJdbc.java"
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
MANY = 1_000
SCHEMA = pa.schema(
    {
        "id": pa.int64(), "yes": pa.bool_(), "small": pa.int16(), "ratio": pa.float64(), "amount": pa.decimal128(12, 2),
        "name": pa.string(), "blob": pa.binary(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"),
        "wall": pa.timestamp("us"), "tags": pa.list_(pa.string()),
        "place": pa.struct({"city": pa.string(), "zip": pa.int32()}),
    }
)  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "yes": True, "small": -7, "ratio": float("nan"), "amount": Decimal("9999999999.99"), "name": "Åse 💧",
        "blob": b"\x00\xff", "day": date(1969, 12, 31), "at": datetime(2026, 3, 29, 0, 59, 59, 123456, UTC),
        "wall": datetime(2026, 3, 8, 2, 30), "tags": ["a", None, 'b"'], "place": {"city": "Umeå", "zip": None},
    },
    dict.fromkeys(SCHEMA.names) | {"id": 2},
    {
        "id": 3, "yes": False, "small": 32767, "ratio": 1e300, "amount": Decimal("-0.01"), "name": "", "blob": b"",
        "day": date(1, 1, 1), "at": datetime(1, 1, 1, tzinfo=UTC), "wall": datetime(9999, 12, 31, 23, 59, 59, 999999),
        "tags": [], "place": {"city": None, "zip": 1},
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def said() -> dict[str, list[list[str]]]:
    """What the program printed, by the first word of its lines."""
    try:
        java, driver = java_command(), jdbc_driver()
    except NotAvailable as reason:
        pytest.skip(str(reason))
    with tempfile.TemporaryDirectory(prefix="headwater-jdbc-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # for the user that the server runs as
        with Node(folder / "data", WITH_POSTGRES):
            write(folder / "data")
            service = f"-Dorg.postgresql.pgservicefile={folder / 'data' / 'postgresql' / 'pg_service.conf'}"
            command = [
                java,
                *JVM_OPTIONS,
                service,
                "-cp",
                str(driver),
                str(PROGRAM),
                "jdbc:postgresql://?service=views",
            ]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert ran.returncode == 0, ran.stderr
    found = defaultdict[str, list[list[str]]](list)
    for line in ran.stdout.splitlines():
        word, *values = line.split("\t")
        found[word].append(values)
    return found


def write(data: Path) -> None:
    store = open_store(data, "shop")
    many = {"id": [*range(MANY)], "amount": [Decimal(number) / 4 for number in range(MANY)]}
    views = {
        "every_type": pa.Table.from_pylist(ROWS, SCHEMA),
        "many": pa.table(many, pa.schema({"id": pa.int64(), "amount": pa.decimal128(12, 2)})),
    }
    for view, rows in views.items():
        store.prepare(view, rows.schema, ["id"])
        store.write(view, Mark("shop.orders", 0, {"orders": {0: 1}}), rows)
    store.begin_shadow("many", views["many"].schema, ["id"], job="shop.orders/rebuild")
    store.close()


def test_a_tool_finds_the_views_of_an_app_and_knows_headwaters_own_tables(said: dict[str, list[list[str]]]) -> None:
    assert ["PostgreSQL"] in said["product"]
    assert ["shop"] in said["schema"]
    assert [one for one in said["table"] if not one[0].startswith("_")] == [["every_type", "TABLE"], ["many", "TABLE"]]


def test_columns_have_types_sizes_and_a_key(said: dict[str, list[list[str]]]) -> None:
    assert said["unique"] == [["id"]], "a key may be null, so that it is no primary key"
    types = {name: (type, int(size), int(digits)) for name, _, type, size, digits, _ in said["column"]}
    assert types["amount"] == ("numeric", 12, 2)
    assert types["at"][0] == "timestamptz"
    assert types["wall"][0] == "timestamp"
    assert [name for name, *_ in said["column"]] == [*SCHEMA.names, "_change"]
    classes = dict(said["result"])
    assert classes["amount"] == "java.math.BigDecimal"
    assert classes["at"] == classes["wall"] == "java.sql.Timestamp"
    assert classes["id"] == "java.lang.Long"


def test_values_are_what_was_written_in_any_time_zone(said: dict[str, list[list[str]]]) -> None:
    assert said["row"] == [
        ["1", "true", "-7", "NaN", "9999999999.99", "Åse 💧", "00ff"],
        ["2", *["null"] * 6],
        ["3", "false", "32767", "1.0E300", "-0.01", "", ""],
    ]
    assert said["times"] == [
        ["1969-12-31", "1969-12-31", "2026-03-29T00:59:59.123456Z", "2026-03-29T00:59:59.123456Z", "2026-03-08T02:30"],
        ["null"] * 5,
        ["0001-01-01", "0001-01-01", "0001-01-01T00:00Z", said["times"][2][3], "9999-12-31T23:59:59.999999"],
    ]  # java.sql.Timestamp has a calendar of its own before 1582
    assert said["nested"] == [
        ['["a", null, "b\\""]', '{"zip": null, "city": "Umeå"}'],
        ["null", "null"],
        ["[]", '{"zip": 1, "city": null}'],
    ]


def test_parameters_pages_and_refusals(said: dict[str, list[list[str]]]) -> None:
    assert said["found"] == [["1"]] * 7
    assert said["pages"] == [[str(MANY), f"{sum(Decimal(number) / 4 for number in range(MANY)):.2f}"]]
    assert said["refused"] == [["25006"]] * 3
    assert "done" not in said

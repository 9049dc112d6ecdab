"""headwater view: what people see of views, without Spark."""

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.cli.main import main
from headwater.views.mark import Mark
from headwater.views.store import open_store

SCHEMA = pa.schema([("currency", pa.string()), ("orders", pa.int64()), ("revenue", pa.decimal128(12, 2))])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory in which an app named shop keeps a view named revenue."""
    store = open_store(tmp_path, "shop")
    store.prepare("revenue", SCHEMA, ["currency"])
    rows = pa.table(
        {
            "_op": ["c", "c"],
            "currency": ["EUR", "SEK"],
            "orders": [2, 10],
            "revenue": pa.array([Decimal("10.50"), Decimal("9.99")], pa.decimal128(12, 2)),
        }
    )
    store.write("revenue", Mark("shop/orders/1", 0, {"orders": {0: 12}}), rows)
    store.close()
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_list_names_views_with_their_rows_and_position(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "view", "list", "--data", str(data), "--json")
    assert code == 0
    assert json.loads(out) == [
        {"view": "shop.revenue", "rows": 2, "key": "currency", "position": '{"orders": {"0": 12}}'}
    ]


def test_list_says_how_to_get_a_view_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "view", "list", "--data", str(tmp_path))
    assert (code, "headwater run APP.py" in out) == (0, True)


@pytest.mark.parametrize("name", ["revenue", "shop.revenue"])
def test_get_shows_one_row_by_its_key(data: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = answer(capsys, "view", "get", name, "EUR", "--data", str(data), "--json")
    assert (code, json.loads(out)) == (0, [{"currency": "EUR", "orders": 2, "revenue": "10.50"}])


def test_get_filters_and_sorts_numbers_as_numbers(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(
        capsys, "view", "get", "revenue", "--where", "revenue > 9.5", "--order", "revenue desc", "--json",
        "--data", str(data),
    )  # fmt: skip
    assert (code, [row["currency"] for row in json.loads(out)]) == (0, ["EUR", "SEK"])


def test_a_key_that_is_not_there_is_exit_code_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "view", "get", "revenue", "NOK", "--data", str(data), "--json")[:2] == (1, "[]\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["revenu"], "there is no view revenu in"),
        (["revenue", "EUR", "SEK"], "the key of revenue has 1 columns: currency."),
        (["revenue", "--where", "revenue"], "'revenue' is not a condition, such as \"amount > 100\"."),
        (["revenue", "--at-least", "orders"], "'orders' is not TOPIC/PARTITION@OFFSET, such as orders/0@41."),
    ],
)
def test_mistakes_are_one_sentence(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code, out, err = answer(capsys, "view", "get", *arguments, "--data", str(data))
    assert (code, out) == (1, "")
    assert sentence in err
    assert "Traceback" not in err


def test_get_can_wait_for_a_record_that_is_in(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(
        capsys, "view", "get", "revenue", "EUR", "--at-least", "orders/0@11", "--data", str(data), "--json"
    )
    assert (code, len(json.loads(out))) == (0, 1)

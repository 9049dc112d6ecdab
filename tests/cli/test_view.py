"""headwater view: what people see of views, without Spark."""

import json
from argparse import Namespace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.cli import flows
from headwater.cli.main import main
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.deploy.kept_outputs import PLAN, left_over
from headwater.views.locations import view_locations
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


def remember(data: Path, *stores: str) -> None:
    """As `headwater run` does it, for an app that keeps a view in each of the stores."""
    app = hw.App("elsewhere")
    for number, store in enumerate(stores):
        app.view(key="id", store=store, name=f"view{number}")(lambda: app.stream("t", "id long").latest("id"))
    flows.remember(Namespace(data=data, file=Path("elsewhere.py")), app)


def keep(store: str, view: str) -> None:
    kept = open_store(store, "elsewhere")
    kept.prepare(view, pa.schema([("id", pa.int64())]), ["id"])
    kept.write(view, Mark("elsewhere/t/1", 0, {"t": {0: 1}}), pa.table({"_op": ["c"], "id": [7]}))
    kept.close()


def test_views_in_a_database_are_found_without_a_store_option(
    data: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(postgres_url, "view0")
    remember(data, postgres_url)
    code, out, err = answer(capsys, "view", "list", "--data", str(data), "--json")
    assert (code, err) == (0, "")
    assert [(row["view"], row["rows"]) for row in json.loads(out)] == [("shop.revenue", 2), ("elsewhere.view0", 1)]
    assert answer(capsys, "view", "get", "view0", "7", "--data", str(data), "--json")[1] == '[{"id": 7}]\n'


def test_a_password_is_never_written_down(data: Path, tmp_path: Path) -> None:
    remember(data, "postgresql://ada:hidden1@127.0.0.1:1/shop?password=hidden2&connect_timeout=1")
    texts = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(b"hidden" in text for text in texts)
    assert any(b"postgresql://ada@127.0.0.1:1/shop?connect_timeout=1" in text for text in texts)


def test_a_database_that_does_not_answer_is_reported_and_the_other_views_are_shown(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(data, "postgresql://ada:hidden@127.0.0.1:1/shop?connect_timeout=1")
    code, out, err = answer(capsys, "view", "list", "--data", str(data))
    assert code == 1
    assert "shop.revenue" in out
    assert "views of elsewhere: PostgreSQL 127.0.0.1/shop" in err
    assert "PGPASSWORD" in err
    assert "hidden" not in out + err
    assert answer(capsys, "view", "get", "revenue", "EUR", "--data", str(data), "--json")[0] == 0


def kept_by_a_job(data: Path) -> JobFolder:
    """As a run leaves it: the job notes that it writes the view."""
    folder = JobFolder(data / "flows" / "shop" / "orders")
    identify(folder, app="shop", job="orders", cluster="one", shards=2)
    folder.write(PLAN, {"outputs": {"revenue": {"kind": "view"}, "copies": {"kind": "topic"}}, "operators": {}})
    return folder


def outputs_in(folder: JobFolder) -> list[str]:
    return sorted((folder.read(PLAN) or {})["outputs"])


def test_a_view_that_no_app_keeps_any_more_is_dropped(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "view", "drop", "revenue", "--data", str(data)) == (0, "dropped view shop.revenue\n", "")
    assert answer(capsys, "view", "list", "--data", str(data), "--json")[1] == "[]\n"
    code, _, errors = answer(capsys, "view", "drop", "revenue", "--data", str(data))
    assert (code, "there is no view revenue" in errors) == (1, True)


def test_a_view_that_an_app_keeps_is_dropped_by_force_only(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept_by_a_job(data)
    code, _, errors = answer(capsys, "view", "drop", "shop.revenue", "--data", str(data))
    assert code == 1
    assert "is kept up to date by job shop.orders" in errors
    assert "say --force: the next run builds it again" in errors
    code, out, _ = answer(capsys, "view", "drop", "shop.revenue", "--force", "--data", str(data))
    assert (code, "builds it again" in out) == (0, True)
    assert outputs_in(folder) == ["copies"]


def test_a_view_whose_job_runs_is_neither_dropped_nor_renamed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept_by_a_job(data)
    folder.lock()
    try:
        for words in (["drop", "revenue", "--force"], ["rename", "revenue", "income"]):
            code, _, errors = answer(capsys, "view", *words, "--data", str(data))
            assert code == 1
            assert "job orders is being run by process" in errors
    finally:
        folder.unlock()
    assert answer(capsys, "view", "get", "revenue", "EUR", "--data", str(data), "--json")[0] == 0


def test_a_renamed_view_is_that_of_its_job_under_the_new_name(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept_by_a_job(data)
    code, out, _ = answer(capsys, "view", "rename", "revenue", "income", "--data", str(data))
    assert code == 0
    assert out.startswith("view shop.revenue is now shop.income; call it income in the app too")
    assert outputs_in(folder) == ["copies", "income"]
    assert json.loads(answer(capsys, "view", "get", "income", "EUR", "--data", str(data), "--json")[1])


def test_a_rename_that_was_broken_off_is_finished_by_saying_it_again(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kept_by_a_job(data)
    store = open_store(data, "shop")
    store.rename("revenue", "income")  # and here the power went
    store.close()
    assert answer(capsys, "view", "rename", "revenue", "income", "--data", str(data))[0] == 0
    assert outputs_in(folder) == ["copies", "income"]


def test_a_name_that_no_view_can_have_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = answer(capsys, "view", "rename", "revenue", "in come", "--data", str(data))
    assert code == 1
    assert errors == "headwater: 'in come' cannot name a view. Use up to 60 letters, digits and underscores.\n"


def test_what_an_app_has_left_behind_is_known_with_the_way_to_remove_it(data: Path) -> None:
    kept_by_a_job(data)
    left = left_over(data, "shop", {"other"}, view_locations(data))
    assert [str(one) for one in left] == [
        'topic copies is no longer declared; it stays as it is until "headwater topic delete copies"',
        'view revenue is no longer declared; it stays as it is until "headwater view drop shop.revenue"',
    ]
    assert left_over(data, "shop", {"revenue", "copies"}, view_locations(data)) == []

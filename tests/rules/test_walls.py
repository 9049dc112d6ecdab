"""Sizes and names: a wall is a moment to stop and look for the missing noun."""

import ast
from pathlib import Path

from tests.rules.source import PACKAGE, ROOT, modules, name_of, tree_of

FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 600
PARAMETERS_MAX = 6
PUBLIC = {"src/headwater/flow/declare/app.py: App"}
"""Its settings are keywords that users write one by one."""
WIDE = {
    "src/headwater/capture/mariadb_binlog/assembler.py: Assembler",
    "src/headwater/capture/postgresql/rows/run.py: RowRun",
    "src/headwater/capture/runner.py: Runner",
    "src/headwater/log/partition.py: Partition",
}
"""Older than the rule: they lack a value object still."""
NAMES_WITHOUT_MEANING = {"base", "common", "core", "helper", "helpers", "misc", "models", "util", "utils"}


def functions_of(file: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree_of(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_no_function_is_longer_than_the_wall() -> None:
    long = [
        f"{name_of(file)}: {function.name} has {lines_of(function)} lines"
        for file in modules()
        for function in functions_of(file)
        if lines_of(function) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_module_is_longer_than_the_wall() -> None:
    sizes = {name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in modules()}
    assert {file: lines for file, lines in sizes.items() if lines > MODULE_LINES_MAX} == {}


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without `self`."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1


def test_no_constructor_takes_more_parameters_than_a_reader_can_hold() -> None:
    wide = {
        f"{name_of(file)}: {owner.name}"
        for file in modules()
        for owner in ast.walk(tree_of(file))
        if isinstance(owner, ast.ClassDef)
        for member in owner.body
        if isinstance(member, ast.FunctionDef) and member.name == "__init__" and parameters_of(member) > PARAMETERS_MAX
    }
    assert wide - PUBLIC == WIDE, "what belongs together is a value object: one parameter"


def test_no_file_or_folder_has_a_name_without_meaning() -> None:
    locations = [
        path for folder in ("src/headwater", "tests", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*")
    ]
    nameless = [name_of(path) for path in locations if path.name.removesuffix(".py") in NAMES_WITHOUT_MEANING]
    assert nameless == []


def test_no_name_carries_a_version_or_an_age() -> None:
    aged = [name_of(file) for file in PACKAGE.rglob("*") if file.stem.endswith(("_v2", "_old", "_new"))]
    assert aged == [], "version control remembers the old one"

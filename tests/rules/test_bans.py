"""What the package never does."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.rules.source import dotted, imports_of, modules, name_of, part_of, tree_of

# Time is handed in (clock.py), or a test could not hold it still.
CLOCKS = {
    "time.time",
    "time.time_ns",
    "time.sleep",
    "time.localtime",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "date.today",
}

# Bytes from elsewhere must never become code.
MODULES_THAT_RUN_DATA = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}
CALLS_THAT_RUN_DATA = {"eval", "exec", "compile", "yaml.load", "yaml.unsafe_load", "os.system"}


def names_used_in(file: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Attribute | ast.Name):
            yield dotted(node)


def names_called_in(file: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Call):
            yield dotted(node.func)


def test_only_the_clock_asks_for_the_time_or_sleeps() -> None:
    used = [(file, name) for file in modules() if part_of(file) != "clock" for name in names_used_in(file)]
    imported = [(file, name) for file in modules() if part_of(file) != "clock" for name, _ in imports_of(file)]
    assert [f"{name_of(file)}: {name}" for file, name in used + imported if name in CLOCKS] == []


def test_nothing_is_left_to_an_unseeded_dice() -> None:
    imported = [(file, name) for file in modules() for name, _ in imports_of(file)]
    thrown = [
        f"{name_of(file)}: {name}"
        for file, name in imported
        if name != "random.Random" and (name.split(".")[0] == "random" or name.startswith("numpy.random"))
    ]
    unseeded = [
        f"{name_of(file)}:{node.lineno}"
        for file in modules()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and dotted(node.func) == "Random" and not node.args
    ]
    assert thrown + unseeded == [], "take a Random from the caller, or make one from a seed"


def test_data_is_never_run_as_code() -> None:
    imported = [f"{name_of(file)}: {name}" for file in modules() for name, _ in imports_of(file)
                if name.split(".")[0] in MODULES_THAT_RUN_DATA]  # fmt: skip
    called = [f"{name_of(file)}: {name}" for file in modules() for name in names_called_in(file)
              if name in CALLS_THAT_RUN_DATA]  # fmt: skip
    assert imported + called == []


def test_an_error_is_never_swallowed_whole() -> None:
    bare = [
        f"{name_of(file)}:{node.lineno}"
        for file in modules()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == [], "name the error, or let it go up"


def test_no_assert_stands_in_for_a_check() -> None:
    asserted = [
        f"{name_of(file)}:{node.lineno}"
        for file in modules()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant) and not _narrows_a_type(node.test)
    ]
    assert asserted == [], "python -O removes assert: raise an error of the tree instead"


def _narrows_a_type(test: ast.expr) -> bool:
    """assert isinstance(x, T) and assert x is not None speak to the type checker."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance")):
            return True
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.BoolOp(values=values):
            return all(_narrows_a_type(value) for value in values)
    return False

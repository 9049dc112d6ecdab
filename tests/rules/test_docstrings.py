"""A docstring is a contract, and its example is about the thing it documents."""

import ast
import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.rules.source import PACKAGE, modules, name_of, tree_of


def documented(file: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""


def examples_in(text: str) -> str:
    return "\n".join(example.source for example in doctest.DocTestParser().get_examples(text))


def with_examples() -> list[Path]:
    return [file for file in modules() if ">>> " in file.read_text(encoding="utf-8")]


def dotted_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def test_an_example_uses_what_it_documents() -> None:
    strayed = [
        f"{name_of(file)}: the example of {name} does not use it"
        for file in with_examples()
        for name, text in documented(file)
        if ">>> " in text and name not in examples_in(text)
    ]
    assert strayed == []


@pytest.mark.parametrize("file", with_examples(), ids=name_of)
def test_examples_run_and_answer_as_written(file: Path) -> None:
    outcome = doctest.testmod(import_module(dotted_name(file)), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_no_docstring_merely_repeats_the_name() -> None:
    empty = [
        f"{name_of(file)}: {name}"
        for file in modules()
        for name, text in documented(file)
        if text and text.strip(". \n").lower().replace(" ", "").replace("_", "") == name.lower().replace("_", "")
    ]
    assert empty == []

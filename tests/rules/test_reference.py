"""docs/reference is written from the code, and says all of it."""

from dataclasses import fields

import pytest

from headwater.cli import failure
from headwater.cli.main import VERBS
from headwater.log.topic_settings import DEFINITIONS
from headwater.settings import LogSettings, WireSettings
from scripts import reference
from tests.rules.source import ROOT

FOLDER = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_every_page_is_what_the_code_says() -> None:
    assert reference.outdated() == [], 'regenerate docs/reference with "make reference"'


def test_there_is_no_page_that_nothing_writes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(reference.PAGES)


def test_every_verb_is_named() -> None:
    assert [verb.name for verb in VERBS if f"`headwater {verb.name}" not in page("cli.md")] == []


@pytest.mark.parametrize("kind", [LogSettings, WireSettings])
def test_every_setting_is_named(kind: type) -> None:
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in page("settings.md")] == []


def test_every_setting_says_what_it_means() -> None:
    assert [line for line in page("settings.md").splitlines() if line.startswith("| `") and line.endswith("|  |")] == []


def test_every_topic_setting_is_named() -> None:
    assert [name for name in DEFINITIONS if f"`{name}`" not in page("topic-settings.md")] == []


def test_every_error_is_named_and_drawn_in_the_tree() -> None:
    names = [kind.__name__ for kind in reference.leaves()]
    drawing = page("errors.md").split("```")[1]
    assert [name for name in names if f"`{name}`" not in page("errors.md")] == []
    assert [name for name in names if name not in drawing] == []


def test_every_exit_code_is_on_the_page_of_commands() -> None:
    codes = {value for name, value in vars(failure).items() if name.isupper() and isinstance(value, int)}
    said = {int(one) for codes in reference.EXIT_CODES for one in codes.split(", ")}
    assert said == {0, *codes}

"""What the README says about the layout is what is there."""

import re

from tests.rules.source import PACKAGE, ROOT
from tests.rules.test_parts import NOT_BUILT, WORDS

README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows_of_the_part_table() -> dict[str, str]:
    """Part -> what the table says about it."""
    return dict(re.findall(r"^\| \[?`(\w+)`[^|]*\| (.+?) \|$", README, flags=re.M))


PARTS = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - WORDS - {"__pycache__"}
"""A shared word may be a folder, too: it is no part."""


def test_the_part_table_equals_the_folders() -> None:
    assert rows_of_the_part_table().keys() == PARTS | NOT_BUILT


def test_parts_that_do_not_exist_are_said_not_to() -> None:
    rows = rows_of_the_part_table()
    assert {part for part in NOT_BUILT if "not built yet" not in rows[part]} == set()


def test_every_part_explains_itself() -> None:
    assert [part for part in PARTS if part != "cli" and not (PACKAGE / part / "README.md").is_file()] == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md"), *ROOT.glob("tests/**/*.md"),
             *ROOT.glob("examples/**/*.md")]  # fmt: skip
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_verb_of_make_prints_itself() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z]+):", makefile, flags=re.M))
    assert verbs == set(re.findall(r"^([a-z]+):.*## ", makefile, flags=re.M))
    assert verbs >= {"demo", "test", "check", "bench", "torture", "clean"}


def test_every_decision_has_its_four_answers() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    wanted = ["## Problem", "## Options", "## Choice", "## Price"]
    odd = [
        page.name for page in pages if re.findall(r"^## .*$", page.read_text(encoding="utf-8"), flags=re.M) != wanted
    ]
    assert pages
    assert odd == []
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]

"""Where statements end, and what they ask for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.shell.statements import (
    Backslash,
    Describe,
    Explain,
    Select,
    Show,
    Subscribe,
    Unclear,
    command_of,
    complete,
    split,
    statements,
)

PIECES = st.sampled_from(["a", ";", "'", '"', "`", "--", "/*", "*/", "\n", "\\", " ", "''", "\\'", "SELECT"])


@pytest.mark.parametrize(
    "text, found",
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT \";\"; SELECT `;`", ["SELECT ';'", 'SELECT ";"', "SELECT `;`"]),
        ("SELECT 'it''s; one'; x", ["SELECT 'it''s; one'", "x"]),
        (r"SELECT 'it\'s; one'; x", [r"SELECT 'it\'s; one'", "x"]),
        ("-- a; b\nSELECT 1 /* ; */; -- the end", ["-- a; b\nSELECT 1 /* ; */"]),
        (";;\n;", []),
        ("\\d\nSELECT 1;\n  \\d revenue\n", ["\\d", "SELECT 1", "\\d revenue"]),
        ("-- which?\n\\d\nSELECT 1", ["\\d", "SELECT 1"]),
        ("SELECT 1\n\\d", ["SELECT 1\n\\d"]),
    ],
)
def test_a_semicolon_ends_a_statement_where_it_is_one(text: str, found: list[str]) -> None:
    assert list(statements(text)) == found


@pytest.mark.parametrize(
    "text, sent",
    [
        ("", True), ("SELECT 1", False), ("SELECT 1\n", False), ("SELECT 1;", True), ("SELECT 1; -- done", True),
        ("SELECT 'a;", False), ("/* a;", False), ("\\d", True), ("SELECT 1; SELECT", False), ("-- only this", True),
    ],
)  # fmt: skip
def test_enter_sends_what_is_finished(text: str, sent: bool) -> None:
    assert complete(text) is sent


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_split_and_nothing_but_semicolons_and_space_is_lost(text: str) -> None:
    parts = split(text)
    kept = "".join([*parts.statements, parts.rest])
    assert (
        [one for one in kept if one.isalpha()] == [one for one in text if one.isalpha()] or "--" in text or "/*" in text
    )


@pytest.mark.parametrize(
    "statement, command",
    [
        ("SELECT 1", Select("SELECT 1")),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Select("WITH a AS (SELECT 1) SELECT * FROM a")),
        ("DELETE FROM a", Select("DELETE FROM a")),
        ("-- all\nshow views", Show("VIEWS")),
        ("SHOW TABLES", Show("VIEWS")),
        ("SHOW COLUMNS FROM `shop`.revenue", Describe("shop.revenue")),
        ("describe revenue", Describe("revenue")),
        ("DESC VIEW revenue", Describe("revenue")),
        ("EXPLAIN\nSELECT 1", Explain("SELECT 1")),
        ("SUBSCRIBE TO (SELECT a FROM b)", Subscribe("SELECT a FROM b")),
        ("SUBSCRIBE (SELECT a FROM b)", Subscribe("SELECT a FROM b")),
        ("SUBSCRIBE TO SELECT a FROM b", Subscribe("SELECT a FROM b")),
        ("SUBSCRIBE shop.revenue", Subscribe("SELECT * FROM shop.revenue")),
        ("\\d  revenue ", Backslash("d", ("revenue",))),
        ("\\", Backslash("", ())),
    ],
)
def test_a_statement_is_recognised(statement: str, command: object) -> None:
    assert command_of(statement) == command


@pytest.mark.parametrize("statement", ["SHOW", "SHOW ME", "SHOW COLUMNS", "SHOW VIEWS FROM a", "DESCRIBE", "EXPLAIN",
                                       "SUBSCRIBE", "SUBSCRIBE TO", "SUBSCRIBE TO (DELETE FROM a)"])  # fmt: skip
def test_what_the_shell_does_not_know_is_a_sentence(statement: str) -> None:
    with pytest.raises(Unclear):
        command_of(statement)

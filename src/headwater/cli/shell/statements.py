"""What is typed at the shell: where a statement ends, and what it asks for. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

SHOWN = ("VIEWS", "TOPICS", "FLOWS", "CAPTURES", "ALERTS", "POSITIONS")
SHOW = re.compile(r"SHOW\s+(?:(?P<what>\w+)(?:\s+(?:FROM|IN|OF)\s+(?P<view>\S+))?)?\s*", re.IGNORECASE)
DESCRIBE = re.compile(r"(?:DESCRIBE|DESC)\s+(?:(?:TABLE|VIEW)\s+)?(?P<view>\S+)\s*", re.IGNORECASE)
EXPLAIN = re.compile(r"EXPLAIN\s+(?P<sql>.+)", re.IGNORECASE | re.DOTALL)
SUBSCRIBE = re.compile(r"SUBSCRIBE\b(?:\s+TO\b)?\s*(?P<what>.*)", re.IGNORECASE | re.DOTALL)
NAME = re.compile(r"[\w.`]+")

# A comment, a text, a quoted name, the end of a statement; whatever is not closed reaches to the end.
TOKEN = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:\\.|''|[^'\\])*(?:'|\Z)|\"(?:\\.|\"\"|[^\"\\])*(?:\"|\Z)|`[^`]*(?:`|\Z)|;",
    re.DOTALL,
)


class Select(NamedTuple):
    sql: str


class Explain(NamedTuple):
    sql: str


class Subscribe(NamedTuple):
    sql: str


class Create(NamedTuple):
    """Goes into the file of an app."""

    sql: str


class Show(NamedTuple):
    """What there is: one of SHOWN."""

    what: str


class Describe(NamedTuple):
    """The columns of a view."""

    view: str


class Backslash(NamedTuple):
    """A command of the shell itself: \\d shop.revenue."""

    name: str
    words: tuple[str, ...]


Command = Select | Explain | Subscribe | Create | Show | Describe | Backslash


class Unclear(Exception):
    """A statement that the shell does not know; a sentence."""


@dataclass(frozen=True)
class Split:
    """A text, cut into statements."""

    statements: tuple[str, ...]
    rest: str
    """What stands after the last semicolon."""
    open: bool
    """Whether the rest ends inside a text, a quoted name or a comment."""


def split(text: str) -> Split:
    """A semicolon ends a statement; one in a text, a quoted name or a comment does not. A line that begins with a
    backslash is a statement of its own.

    >>> split("SELECT ';' AS a; SELECT 2").statements, split("SELECT ';' AS a; SELECT 2").rest
    (("SELECT ';' AS a",), ' SELECT 2')
    >>> split("SELECT 'it").open
    True
    """
    found: list[str] = []
    begin = index = 0
    while True:
        if (line := _backslash_line(text, begin)) is not None:
            found.append(text[line].strip())
            begin = index = line.stop
            continue
        match = TOKEN.search(text, index)
        if match is None:
            return Split(tuple(one for one in found if _said(one)), text[begin:], open=False)
        index = match.end()
        if match[0] == ";":
            found.append(text[begin : match.start()].strip())
            begin = index
        elif index == len(text) and not _closed(match[0]):
            return Split(tuple(one for one in found if _said(one)), text[begin:], open=True)


def _backslash_line(text: str, begin: int) -> slice | None:
    """Where the line is that begins here, if it is a command of the shell."""
    bare = _bare(text[begin:])
    if not bare.startswith("\\"):
        return None
    start = len(text) - len(bare)
    return slice(start, start + len(bare.partition("\n")[0]))


def _closed(token: str) -> bool:
    if token.startswith("--"):
        return True  # the end of the line is its end
    return (
        len(token) >= 4 and token.endswith("*/") if token.startswith("/*") else len(token) > 1 and token[-1] == token[0]
    )


def _said(statement: str) -> bool:
    """Is there more than comments?"""
    return bool(_bare(statement))


def _bare(statement: str) -> str:
    """Without the comments that it begins with.

    >>> _bare("-- all\\n /* of */ SELECT 1")
    'SELECT 1'
    """
    return re.sub(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))+", "", statement, flags=re.DOTALL)


def complete(text: str) -> bool:
    """Whether Enter should send what was typed.

    >>> complete("SELECT 1"), complete("SELECT 1;"), complete("\\\\d"), complete("SELECT ';"), complete("")
    (False, True, True, False, True)
    """
    parts = split(text)
    return not parts.open and not _said(parts.rest)


def statements(text: str) -> Iterator[str]:
    """Every statement of a script; the last one needs no semicolon.

    >>> list(statements("SELECT 1; -- one\\nSELECT 2"))
    ['SELECT 1', '-- one\\nSELECT 2']
    """
    parts = split(text)
    yield from parts.statements
    if _said(parts.rest):
        yield parts.rest.strip()


def command_of(statement: str) -> Command:
    r"""
    >>> command_of("SHOW VIEWS"), command_of("\\d revenue"), command_of("SUBSCRIBE TO (SELECT 1)")
    (Show(what='VIEWS'), Backslash(name='d', words=('revenue',)), Subscribe(sql='SELECT 1'))
    >>> command_of("SUBSCRIBE TO revenue").sql
    'SELECT * FROM revenue'
    """
    bare = _bare(statement)
    if bare.startswith("\\"):
        name, *words = bare[1:].split() or [""]
        return Backslash(name, tuple(words))
    word = bare.split(None, 1)[0].upper() if bare else ""
    if word == "SHOW":
        return _show(bare)
    if word in ("DESCRIBE", "DESC"):
        return Describe(_view(DESCRIBE.fullmatch(bare), bare, "DESCRIBE VIEW"))
    if word == "EXPLAIN":
        match = EXPLAIN.fullmatch(bare)
        if match is None:
            raise Unclear("EXPLAIN needs a SELECT: EXPLAIN SELECT * FROM VIEW")
        return Explain(match["sql"])
    if word == "SUBSCRIBE":
        return Subscribe(_followed(bare))
    if word == "CREATE":
        return Create(bare)
    return Select(statement)


def _show(bare: str) -> Command:
    match = SHOW.fullmatch(bare)
    what = (match["what"] or "").upper() if match else ""
    if match is not None and what == "COLUMNS" and match["view"]:
        return Describe(match["view"].replace("`", ""))
    if what == "TABLES":
        what = "VIEWS"
    if match is None or what not in SHOWN or match["view"]:
        raise Unclear(f"{bare[:60]!r} shows nothing; there are SHOW {', '.join(SHOWN)} and SHOW COLUMNS FROM VIEW")
    return Show(what)


def _view(match: re.Match[str] | None, bare: str, usage: str) -> str:
    if match is None:
        raise Unclear(f"{bare[:60]!r} names no view: {usage}")
    return match["view"].replace("`", "")


def _followed(bare: str) -> str:
    match = SUBSCRIBE.fullmatch(bare)
    what = match["what"].strip() if match else ""
    if NAME.fullmatch(what) and what.upper() != "SELECT":
        return f"SELECT * FROM {what}"
    if what.startswith("(") and what.endswith(")"):
        what = what[1:-1].strip()
    if not re.match(r"(SELECT|WITH|VALUES|FROM|TABLE)\b", what, re.IGNORECASE):
        raise Unclear("SUBSCRIBE follows a SELECT or a view: SUBSCRIBE TO (SELECT * FROM VIEW)")
    return what

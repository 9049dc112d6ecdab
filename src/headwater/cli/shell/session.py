"""Runs statements of the shell against a node, one after the other."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from headwater.cli.arguments import duration_seconds
from headwater.cli.failure import Failure
from headwater.cli.shell.answers import FORMATS, answer_text, changes_text, csv_text, position_text, table_text
from headwater.cli.shell.following import followed
from headwater.cli.shell.statements import (
    Backslash,
    Command,
    Create,
    Describe,
    Explain,
    Select,
    Show,
    Subscribe,
    Unclear,
    command_of,
    statements,
)
from headwater.client import RemoteNode
from headwater.errors import RequestRefused

Row = dict[str, Any]
Position = Literal["auto", "one", "own"]
POSITIONS: tuple[Position, ...] = ("auto", "one", "own")
SECONDS_MAX, LIMIT_MAX = 60.0, 100_000
UNKNOWN = "InvalidQuery"
"""How the node refuses names that it does not know, too."""

HELP = r"""A statement ends with a semicolon, which may be on another line.
  SELECT …                asks views, named APP.VIEW or VIEW, in Spark's dialect;
                          and topics, through a Spark of its own
  EXPLAIN SELECT …        what is read of each view
  CREATE …                says what it changes, and goes into an app's SQL file;
                          CREATE OR REPLACE … replaces what has the name
  SUBSCRIBE TO (SELECT …) follows a result until Ctrl-C: + added, - removed
  SHOW VIEWS              or TOPICS, FLOWS, CAPTURES, ALERTS, POSITIONS
  \d [VIEW]               views, or the columns of one
  \position auto          several views are read at one position if there can
                          be one; one: or not at all; own: each at its own
  \at_least POSITION      wait for a record, such as orders/0@41, or off
  \format table           or expanded, csv, json; \x switches the first two
  \limit N                rows at most
  \timeout TIME           how long a statement may take, such as 30s
  \i FILE                 runs a file
  \?                      this list
  \q                      ends the shell (also Ctrl-D)"""


@dataclass
class Settings:
    """What the commands of the shell change."""

    format: str = "table"
    limit: int = 1000
    seconds: float = 10.0
    position: Position = "auto"
    at_least: str = ""
    quiet_seconds: float | None = None
    """SUBSCRIBE ends when nothing has changed for so long."""


class Topics(Protocol):
    """What answers a SELECT over topics."""

    def topics_in(self, sql: str) -> list[str]:
        """The names of topics that a statement reads."""

    def answer(self, sql: str, limit: int) -> Row | None:
        """None where the statement reads no topic."""


class Ended(Exception):
    """\\q"""


class Session:
    def __init__(
        self, node: RemoteNode, settings: Settings, write: Callable[[str], None], note: Callable[[str], None],
        topics: Topics | None = None, create: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        """`write` is given answers, `note` what a person should know beside them. `topics` answers where the node does
        not; `create` is given statements that declare something."""
        self._node, self.settings, self._write, self._note = node, settings, write, note
        self._topics, self._made = topics, create

    def run_text(self, text: str) -> None:
        """Every statement of a script; the first that fails ends it."""
        for statement in statements(text):
            self.run(statement)

    def run(self, statement: str) -> None:
        """One statement. Failure, RequestRefused or Unready if it cannot be answered."""
        try:
            command = command_of(statement)
        except Unclear as error:
            raise Failure(str(error)) from None
        self._run(command)

    def _run(self, command: Command) -> None:
        match command:
            case Select(sql):
                self._write(answer_text(self._selected(sql), self.settings.format))
            case Subscribe(sql):
                self._follow(sql)
            case Explain(sql):
                self._explain(sql)
            case Create(sql):
                self._create(sql)
            case Show(what):
                self._show(what)
            case Describe(view):
                self._describe(view)
            case Backslash(name, words):
                self._obey(name, words)

    # -- queries -------------------------------------------------------------------------------------------------------

    def _selected(self, sql: str) -> Row:
        try:
            return self._asked(sql)
        except RequestRefused as refusal:
            if refusal.name != UNKNOWN or self._topics is None:
                raise
            answer = self._topics.answer(sql, self.settings.limit)
            if answer is None:
                raise
            return answer

    def _refuse_topics(self, sql: str, verb: str) -> None:
        if self._topics is not None and (named := self._topics.topics_in(sql)):
            raise Failure(f"{verb} goes with views, and {named[0]} is a topic. SELECT asks topics")

    def _asked(self, sql: str, **more: object) -> Row:
        """Views of several jobs are read at one position where that can be."""
        settings = self.settings
        asked: dict[str, object] = {"limit": settings.limit, "timeout_ms": round(1000 * settings.seconds), **more}
        if settings.at_least:
            asked["at_least"] = settings.at_least
        try:
            return self._node.query(sql, one_position=settings.position != "own", **asked)
        except RequestRefused as refusal:
            if refusal.name != "NotComparable" or settings.position != "auto" or settings.at_least:
                raise _with_way_out(refusal) from None
            self._note(str(refusal).partition(". ")[0] + "; each was read at its own position")
            return self._node.query(sql, **asked)

    def _follow(self, sql: str) -> None:
        note, noted = self._note, set[str]()

        def note_once(text: str) -> None:
            if text not in noted:
                noted.add(text)
                note(text)

        self._note = note_once
        try:
            for one in followed(lambda **more: self._asked(sql, **more), self.settings.quiet_seconds):
                for line in changes_text(one.answer, one.changes, self.settings.format, one.first):
                    self._write(line)
        except RequestRefused as refusal:
            if refusal.name == UNKNOWN:
                self._refuse_topics(sql, "SUBSCRIBE")
            raise
        finally:
            self._note = note

    def _explain(self, sql: str) -> None:
        try:
            said = self._node.query(sql, explain=True)
        except RequestRefused as refusal:
            if refusal.name == UNKNOWN:
                self._refuse_topics(sql, "EXPLAIN")
            raise
        if self.settings.format == "json":
            self._write(json.dumps(said, ensure_ascii=False))
        else:
            self._write("\n".join([*(f"reads {line}" for line in said["reads"]), f"computes {said['computes']}"]))

    def _create(self, sql: str) -> None:
        if self._made is None:
            raise Failure("nothing can be created here")
        self._made(sql)

    # -- what there is -------------------------------------------------------------------------------------------------

    def _show(self, what: str) -> None:
        if what in ("VIEWS", "POSITIONS"):
            views = self._node.views()
            if what == "VIEWS":
                self._table(["view", "key", "columns"], [
                    [one["name"], ", ".join(one["key"]), ", ".join(column["name"] for column in one["columns"])]
                    for one in views
                ])  # fmt: skip
            else:
                self._table(["view", "position"], [[one["name"], position_text(one["position"])] for one in views])
            return
        listed: list[Row] = self._node.get(f"/{what.lower()}")
        columns = COLUMNS[what]
        self._table(columns, [[_figure(one.get(name)) for name in columns] for one in listed])

    def _describe(self, view: str) -> None:
        said = self._node.view(view).describe()
        rows = [[one["name"], one["type"], one["name"] in said["key"]] for one in said["columns"]]
        self._table(["column", "type", "key"], rows)

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        format = self.settings.format
        if format == "json":
            self._write(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], ensure_ascii=False))
        elif format == "csv":
            self._write(csv_text(columns, rows))
        else:
            right = [bool(rows) and all(_number(row[index]) for row in rows) for index in range(len(columns))]
            self._write(table_text(columns, rows, right))

    # -- commands of the shell -----------------------------------------------------------------------------------------

    def _obey(self, name: str, words: Sequence[str]) -> None:
        if name in ("q", "quit"):
            raise Ended
        if name in ("?", "h", "help"):
            self._write(HELP)
        elif name in ("d", "dt", "dv"):
            self._describe(words[0]) if words else self._show("VIEWS")
        elif name == "i" and words:
            self.run_text(read_script(" ".join(words)))
        elif name == "x":
            self.settings.format = "table" if self.settings.format == "expanded" else "expanded"
        elif name in SETTERS and len(words) == 1:
            SETTERS[name](self.settings, words[0])
        elif name in (*SETTERS, "i"):
            raise Failure(f"\\{name} needs one word. See \\?")
        else:
            raise Failure(f"there is no command \\{name[:40]}. See \\?")


COLUMNS: Mapping[str, Sequence[str]] = {
    "TOPICS": ("name", "partitions", "records", "bytes"),
    "FLOWS": ("name", "running", "batch", "lag"),
    "CAPTURES": ("name", "state", "lag_seconds", "said"),
    "ALERTS": ("name", "state", "raised", "pending", "said"),
}


def _figure(value: object) -> object:
    """How many there are of what is listed."""
    return len(value) if isinstance(value, list) else value


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_way_out(refusal: RequestRefused) -> RequestRefused | Failure:
    if refusal.name == "ViewBehind" and "one position" in str(refusal):
        return Failure(f"{str(refusal).rstrip('.')}. \\position own (--position own) reads each view at its own")
    return refusal


def read_script(name: str) -> str:
    return Path(name).expanduser().read_text(encoding="utf-8")


def _set_format(settings: Settings, word: str) -> None:
    if word not in FORMATS:
        raise Failure(f"{word[:40]!r} is no format; there are {', '.join(FORMATS)}")
    settings.format = word


def _set_limit(settings: Settings, word: str) -> None:
    if not word.isdecimal() or not 1 <= int(word) <= LIMIT_MAX:
        raise Failure(f"{word[:40]!r} is no limit; say a whole number from 1 to {LIMIT_MAX:,}")
    settings.limit = int(word)


def _set_timeout(settings: Settings, word: str) -> None:
    settings.seconds = timeout_seconds(word)


def timeout_seconds(word: str) -> float:
    try:
        seconds = duration_seconds(word)
    except ValueError as error:
        raise Failure(str(error)) from None
    if not 0.001 <= seconds <= SECONDS_MAX:
        raise Failure(f"{word} is no timeout; say up to {SECONDS_MAX:g}s")
    return seconds


def _set_position(settings: Settings, word: str) -> None:
    found = next((one for one in POSITIONS if one == word), None)
    if found is None:
        raise Failure(f"{word[:40]!r} is no position to read at; there are {', '.join(POSITIONS)}")
    settings.position = found


def _set_at_least(settings: Settings, word: str) -> None:
    settings.at_least = "" if word == "off" else word


SETTERS: Mapping[str, Callable[[Settings, str], None]] = {
    "format": _set_format,
    "limit": _set_limit,
    "timeout": _set_timeout,
    "position": _set_position,
    "at_least": _set_at_least,
}

"""The shell at a terminal: a prompt with history and completion, answers through a pager where they do not fit."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from rich.cells import cell_len

from headwater.cli.shell.statements import SHOWN, complete, statements

PROMPT, MORE = "sql> ", "  -> "
HISTORY_VARIABLE = "HEADWATER_SQL_HISTORY"
KEYWORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL INNER CROSS ON USING AS AND OR NOT IN IS NULL
LIKE BETWEEN EXISTS DISTINCT UNION ALL INTERSECT EXCEPT WITH CASE WHEN THEN ELSE END CAST OVER PARTITION ASC DESC TRUE
FALSE VALUES EXPLAIN CREATE REPLACE MATERIALIZED VIEW STREAM TABLE TOPIC
SUBSCRIBE TO SHOW DESCRIBE COLUMNS count sum avg min max round coalesce row_number rank window
"""
WORDS = sorted({*KEYWORDS.split(), *SHOWN})
COMMANDS = ("?", "at_least", "d", "format", "i", "limit", "position", "q", "timeout", "x")

Views = Callable[[], Iterable[dict[str, Any]]]


def history_file() -> Path:
    """Statements may hold secrets: only the owner can read the file."""
    said = os.environ.get(HISTORY_VARIABLE)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(said) if said else Path(state) / "headwater" / "sql-history"
    file.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    return file


class ViewCompleter(Completer):
    """Words of SQL, views, the columns of views, and topics; what there is is asked for once for each statement."""

    def __init__(self, views: Views, topics: Views = lambda: ()) -> None:
        self._views, self._topics = views, topics
        self._topic_names: list[str] = []
        self._known: list[dict[str, Any]] | None = None

    def forget(self) -> None:
        self._known = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        word = document.get_word_before_cursor(WORD=True).rpartition("(")[2].rpartition(",")[2]
        if before.lstrip().startswith("\\") and " " not in before.strip():
            yield from _those(COMMANDS, word.removeprefix("\\"))
            return
        if word:
            yield from _those(self._names(word), word)

    def _names(self, word: str) -> list[str]:
        if self._known is None:
            try:
                self._known = list(self._views())
                self._topic_names = [_written(one["name"]) for one in self._topics()]
            except Exception:  # noqa: BLE001  a node that does not answer now is no reason to lose what was typed
                self._known = []
        names: dict[str, None] = {}
        for one in self._known:
            columns = [column["name"] for column in one["columns"]]
            names |= dict.fromkeys([one["view"], one["name"], *columns])
            names |= dict.fromkeys(f"{one['view']}.{column}" for column in columns if "." in word)
        return list(dict.fromkeys([*names, *self._topic_names, *WORDS]))


def _written(topic: str) -> str:
    """
    >>> _written("orders"), _written("my-orders")
    ('orders', '`my-orders`')
    """
    return topic if topic.replace(".", "_").isidentifier() else f"`{topic}`"


def _those(names: Iterable[str], word: str) -> Iterator[Completion]:
    for name in names:
        if name.lower().startswith(word.lower()):
            yield Completion(name, start_position=-len(word))


class Prompt:
    def __init__(self, views: Views, topics: Views = lambda: ()) -> None:
        self._completer = ViewCompleter(views, topics)
        unfinished = Condition(lambda: not complete(get_app().current_buffer.text))
        self._session: PromptSession[str] = PromptSession(
            PROMPT, history=FileHistory(str(history_file())), completer=self._completer, complete_while_typing=False,
            multiline=unfinished, prompt_continuation=lambda *_: MORE, enable_history_search=True,
        )  # fmt: skip

    def statements(self) -> Iterator[str]:
        """What is typed, until Ctrl-D. Ctrl-C forgets a line."""
        while True:
            try:
                text = self._session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            self._completer.forget()
            yield from statements(text)


def page(text: str) -> None:
    """Prints what fits the terminal; the rest through $PAGER, which is less unless it is said."""
    columns, lines = shutil.get_terminal_size()
    written = text.splitlines()
    fits = len(written) < lines and all(cell_len(line) <= columns for line in written)
    pager = shlex.split(os.environ.get("PAGER") or "less")
    if fits or not sys.stdout.isatty() or not pager or shutil.which(pager[0]) is None:
        print(text, flush=True)
        return
    environment = {"LESS": "FSX", "LESSCHARSET": "utf-8", **os.environ}
    subprocess.run(pager, input=text.encode("utf-8", "replace"), env=environment, check=False)

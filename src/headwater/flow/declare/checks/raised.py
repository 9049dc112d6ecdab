"""Which line of the user's own code raised an error."""

import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import PACKAGE, Place

LIBRARIES = tuple(Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
PLACE = re.compile(r"\.(py|sql):\d+")
BLOCK = "Traceback (most recent call last):"
RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.MULTILINE)


class Raised(NamedTuple):
    """A line of the user's, and the function that it is in."""

    place: Place
    function: str

    def __str__(self) -> str:
        within = "" if self.function in ("<module>", "<lambda>") else f", in {self.function}()"
        return f"{self.place}{within}"


def raised_in(error: BaseException) -> Raised | None:
    """The innermost line of an error's traceback that is the user's; None if only libraries took part in it."""
    frames = traceback.extract_tb(error.__traceback__)
    return _innermost((frame.filename, frame.lineno or 0, frame.name) for frame in frames)


def add_place(error: InvalidDeclaration) -> None:
    """Let the error begin with the line of the user's that it came from, if it names none itself."""
    found = raised_in(error)
    if found is not None and not PLACE.search(str(error)):
        error.args = (f"{found}: {error.args[0]}", *error.args[1:])


def raised_in_worker(text: str) -> str | None:
    """What the user's code raised in a worker of Spark's, out of a text with its traceback in it.

    >>> raised_in_worker('''PythonException: Traceback (most recent call last):
    ...   File "/app/shop.py", line 9, in up
    ...     raise NoCurrency(code)
    ... shop.NoCurrency: no such currency: EUX
    ... ''')
    'shop.py:9, in up(): NoCurrency: no such currency: EUX'
    """
    for block in reversed(text.split(BLOCK)[1:]):
        frames = list(FRAME.finditer(block))
        found = _innermost((one["file"], int(one["line"]), one["function"].strip()) for one in frames)
        if found is None:
            continue
        raised = RAISED.search(block, frames[-1].end() + 1)
        if raised is not None:
            kind, message = raised["kind"].rpartition(".")[2], (raised["message"] or "").strip()
            return f"{found}: {kind}: {message}" if message else f"{found}: {kind}"
    return None


def _innermost(frames: Iterable[tuple[str, int, str]]) -> Raised | None:
    found = [Raised(Place(file, line), function) for file, line, function in frames if _is_users(file)]
    return found[-1] if found else None


def _is_users(file: str) -> bool:
    path = Path(file)
    if file.startswith("<") or "pyspark" in path.parts or "pyspark.zip" in path.parts or "site-packages" in path.parts:
        return False
    return not any(path.is_relative_to(library) for library in (PACKAGE, *LIBRARIES))

"""What Spark raises, as one sentence for the person who wrote the app."""

import re

from headwater.errors import HeadwaterError
from headwater.flow.declare.checks.raised import raised_in, raised_in_worker
from headwater.flow.run.supervision import Failure

OURS = re.compile(r"headwater\.errors\.\w+: (.+)")
NAMED = re.compile(r"headwater\.errors\.(\w+): (.+)")
RAISED = re.compile(r"^\s*(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
BARE = re.compile(r"^(\w+Error)$", re.MULTILINE)
"""Raised without a word."""
NOT_STARTED = re.compile(r"JavaSparkContext\.\s*^: [\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)
"""What Spark has against its settings."""
CRASHED = "Python worker exited unexpectedly"
WORKER_ENDED = (
    "a Python worker of Spark ended in the middle of its task, and so did each that tried it again: a function of the "
    "app ends its process, or the system killed it for lack of memory; flows/spark.log beside the log may say more"
)
WRAPPERS = {"Py4JJavaError", "Py4JError", "SparkException", "PythonException"}
NOISE = re.compile(r"\s*\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+\s*|;\s*line \d+ pos \d+.*", re.DOTALL)


def explain(error: BaseException) -> str:
    """The first thing in an error, however deeply wrapped, that says what to do; with the line of the user's code that
    raised it, if one did."""
    text = str(error)
    if found := OURS.search(text):
        return found[1].strip()
    if CRASHED in text:
        return WORKER_ENDED
    if not_started := NOT_STARTED.search(text):
        return _first_sentence(not_started[1])
    if inner := raised_in_worker(text) or _innermost(text):
        return inner
    place = raised_in(error)
    return f"{place}: {_said(error, text)}" if place else _said(error, text)


def _said(error: BaseException, text: str) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    parameters: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    if condition and condition.startswith("UNRESOLVED_COLUMN"):
        return _unknown_column(parameters)
    return f"{type(error).__name__}: {_first_sentence(text)}" if not condition else _first_sentence(text)


def failure_of(error: BaseException) -> Failure:
    """What ended a job, however deeply wrapped, with the name of the class it was raised as.

    >>> failure_of(ValueError("headwater.errors.JobRefused: batch 3 is another's"))
    Failure(error='JobRefused', reason="batch 3 is another's")
    """
    if isinstance(error, HeadwaterError):
        return Failure(type(error).__name__, str(error))
    if found := NAMED.search(str(error)):
        return Failure(found[1], found[2].strip())
    return Failure(type(error).__name__, explain(error))


def sentence(text: str) -> str:
    """
    >>> sentence("the disk is full"), sentence("Is it?")
    ('the disk is full.', 'Is it?')
    """
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _innermost(text: str) -> str | None:
    """What a task or a function of the user's raised, out of the layers that Spark wraps around it.

    >>> _innermost("PythonException: Traceback ...\\nValueError: no such page\\n\\tat org.apache.spark...")
    'ValueError: no such page'
    >>> _innermost("Traceback ...\\nMemoryError\\n\\tat org.apache.spark...")
    'MemoryError'
    """
    raised = [match for match in RAISED.finditer(text) if match[1] not in WRAPPERS]
    if not raised:
        bare = BARE.findall(text)
        return bare[-1] if bare and "Traceback" in text else None
    return f"{raised[-1][1]}: {_first_sentence(raised[-1][2])}" if "Traceback" in text else None


def _unknown_column(parameters: dict[str, str]) -> str:
    name = parameters.get("objectName", "").replace("`", "")
    shown = [one.replace("`", "").strip() for one in parameters.get("proposal", "").split(",")]
    near = [one for one in shown if one and not one.startswith("_")]
    return f"there is no column {name}" + (f"; did you mean {near[0]}?" if near else "")


def _first_sentence(text: str) -> str:
    """
    >>> _first_sentence("[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. SQLSTATE: 42601 (line 1, pos 0)")
    "Syntax error at or near 'selct'. (line 1, pos 0)"
    """
    line = next((line for line in text.splitlines() if line.strip()), "no message")
    return " ".join(NOISE.sub(" ", line).split())

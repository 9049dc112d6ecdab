"""What Spark raises, as one sentence for the person who wrote the app."""

import re

OURS = re.compile(r"headwater\.errors\.\w+: (.+)")
RAISED = re.compile(r"^\s*(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
WRAPPERS = {"Py4JJavaError", "Py4JError", "SparkException", "PythonException", "StreamingQueryException"}
NOISE = re.compile(r"\s*\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+\s*|;\s*line \d+ pos \d+.*", re.DOTALL)


def explain(error: BaseException) -> str:
    """The first thing in an error, however deeply wrapped, that says what to do."""
    text = str(error)
    if found := OURS.search(text):
        return found[1].strip()
    if inner := _innermost(text):
        return inner
    condition = getattr(error, "getCondition", lambda: None)()
    parameters: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    if condition and condition.startswith("UNRESOLVED_COLUMN"):
        return _unknown_column(parameters)
    return f"{type(error).__name__}: {_first_sentence(text)}" if not condition else _first_sentence(text)


def _innermost(text: str) -> str | None:
    """What a task or a function of the user's raised, out of the layers that Spark wraps around it.

    >>> _innermost("PythonException: Traceback ...\\nValueError: no such page\\n\\tat org.apache.spark...")
    'ValueError: no such page'
    """
    raised = [match for match in RAISED.finditer(text) if match[1] not in WRAPPERS]
    return f"{raised[-1][1]}: {_first_sentence(raised[-1][2])}" if raised and "Traceback" in text else None


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

"""Has the code of an output changed since its checkpoint was made?

What an output is made from is written down in words: every step with the user's expressions, every operator with its
key. Names, comments and line numbers do not count, nor do columns of a source that the output does not use.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headwater.flow.declare.graph import Job, Planned
from headwater.flow.declare.nodes import Apply, Node, SourceStream, SourceTable
from headwater.flow.formats.schema import to_ddl
from headwater.flow.job.folder import JobFolder
from headwater.flow.job.resolving import Resolved

FILE = "plan.json"
KEEP, NEW, CHANGED, REMOVED = "keep", "new", "changed", "removed"


@dataclass(frozen=True)
class Verdict:
    """What is to be done about an output, and why."""

    output: str
    what: str
    why: str = ""


def describe(node: Node) -> dict[str, Any]:
    """A node in words that are the same for the same meaning."""
    said: dict[str, Any] = {"step": type(node).__name__}
    if isinstance(node, SourceStream):
        return said | {"topic": node.topic, "format": node.format, "time": node.time, "options": dict(node.options)}
    if isinstance(node, SourceTable):
        return said | {"topic": node.topic, "format": node.format, "key": list(node.key), "options": dict(node.options)}
    if isinstance(node, Apply):
        code = getattr(node.function, "__code__", None)
        body = code.co_code.hex() + repr(code.co_consts) if code is not None else repr(node.function)
        said["function"] = hashlib.sha256(body.encode()).hexdigest()[:16]
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in ("place", "name", "function", "input", "parts", "tables"):
            continue
        said[field.name] = _words(value)
    return said | {"inputs": [describe(one) for one in node.inputs]}


def _words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _words(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_words(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def descriptions(job: Job, resolved: Mapping[str, Resolved]) -> dict[str, Any]:
    return {one.name: _description(one, resolved[one.name]) for one in job.outputs}


def _description(planned: Planned, resolved: Resolved) -> dict[str, Any]:
    return {
        "kind": planned.output.kind,
        "key": list(resolved.key),
        "columns": to_ddl(resolved.schema),
        "made_from": describe(planned.node),
    }


def compare(folder: JobFolder, now: Mapping[str, Any]) -> list[Verdict]:
    """What changed since the job last ran; nothing, if it never did."""
    kept = folder.read(FILE)
    if kept is None:
        return [Verdict(name, KEEP) for name in now]
    before: Mapping[str, Any] = kept["outputs"]
    verdicts = [_verdict(name, before.get(name), said) for name, said in now.items()]
    return verdicts + [Verdict(name, REMOVED) for name in before if name not in now]


def _verdict(name: str, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Verdict:
    if before is None:
        return Verdict(name, NEW)
    if json.dumps(before, sort_keys=True) == json.dumps(now, sort_keys=True):
        return Verdict(name, KEEP)
    if before["columns"] != now["columns"]:
        return Verdict(name, CHANGED, f"its columns were ({before['columns']}) and are ({now['columns']})")
    if before["key"] != now["key"]:
        return Verdict(name, CHANGED, f"its key was {before['key']} and is {now['key']}")
    return Verdict(name, CHANGED, _first_difference(before["made_from"], now["made_from"]))


def _first_difference(before: Any, now: Any, what: str = "it") -> str:
    """The first place where two descriptions part."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        step = f"{now.get('step', what)}".lower()
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                return _first_difference(before.get(name), now.get(name), f"{step} {name}")
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for one, other in zip(before, now, strict=True):
            if one != other:
                return _first_difference(one, other, what)
    return f"{what} was {json.dumps(before)} and is {json.dumps(now)}"


def save(folder: JobFolder, now: Mapping[str, Any]) -> None:
    folder.write(FILE, {"outputs": dict(now)})


def save_one(folder: JobFolder, name: str, said: Mapping[str, Any]) -> None:
    """Of one output that is now what is said, whatever the others are."""
    kept = folder.read(FILE) or {"outputs": {}}
    save(folder, {**kept["outputs"], name: said})

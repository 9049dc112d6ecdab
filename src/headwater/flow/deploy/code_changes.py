"""Has the code of an output changed since its checkpoint was made, and what is to be done about it?

keep      it means the same
migrate   it means something else, and all that is there can become what it says now, without the log
rebuild   only the log knows what it should hold
new       there was no such output
removed   there is no such output any more
"""

import json
import re
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.duration import spelled
from headwater.flow.declare.topology.graph import SINK, VIEW
from headwater.flow.deploy.descriptions import Described, Words
from headwater.flow.deploy.kept_outputs import PLAN as FILE
from headwater.flow.deploy.state_migration import Carry, carried, lacking, only_adds
from headwater.flow.operators.windows.kinds.registry import KINDS

KEEP, MIGRATE, REBUILD, NEW, REMOVED = "keep", "migrate", "rebuild", "new", "removed"
WINDOW = re.compile(r"(?P<kind>\w+)\((?P<fields>.*)\)")
FIELD = re.compile(r"(\w+)=('[^']*'|\w+)")
REWRITTEN = ("Aggregate", "Latest", "SourceTable")
"""Operators whose table can be made from nothing but their state."""
ROW_BY_ROW = ("Select", "Where", "WithColumns")
"""Steps that make one row of one."""


@dataclass(frozen=True)
class Verdict:
    """What is to be done about an output, and why."""

    output: str
    what: str
    why: str = ""
    carries: tuple[Carry, ...] = ()
    """Where its operators get their state."""
    rewrite: bool = False
    """Its view is rewritten from the state."""

    def __str__(self) -> str:
        return f"{self.output}: {self.what}{f': {self.why}' if self.why else ''}"


def compare(folder: JobFolder, now: Described) -> list[Verdict]:
    """What changed since the job last ran; nothing, if it never did."""
    kept = folder.read(FILE)
    if kept is None:
        return [Verdict(name, KEEP) for name in now.outputs]
    before = Described(kept["outputs"], kept["operators"])
    verdicts = [_verdict(name, before, now) for name in now.outputs]
    removed = [name for name in before.outputs if name not in now.outputs]
    return verdicts + [Verdict(name, REMOVED, "no longer declared; what it has stays as it is") for name in removed]


def _verdict(name: str, before: Described, now: Described) -> Verdict:
    old, said = before.outputs.get(name), now.outputs[name]
    carries = _carries(now.uses[name], before, now)
    if old is None:
        return _new(name, said, carries)
    if json.dumps(old, sort_keys=True) == json.dumps(said, sort_keys=True):
        if carries is None:
            return Verdict(name, REBUILD, "the state it is made from was that of an output which has changed")
        moved = tuple(one for one in carries if one.needed)
        why = f"its state continues under the name {moved[0].operator}, it was {moved[0].source}" if moved else ""
        return Verdict(name, MIGRATE, why, moved) if moved else Verdict(name, KEEP)
    if said["keyed"] and _can_be_rewritten(said, carries) and old["kind"] == said["kind"]:
        assert carries is not None
        return Verdict(name, MIGRATE, _migration(old, said, carries), carries, rewrite=True)
    if not said["keyed"] and not old["keyed"] and old["operators"] == said["operators"]:
        added = only_adds(old, said)
        if added:
            has = "is" if len(added) == 1 else "are"
            why = f"{', '.join(added)} {has} in rows from now on; those written before do not have it"
            return Verdict(name, MIGRATE, why)
    return Verdict(name, REBUILD, _difference(old, said))


def _carries(operators: tuple[str, ...], before: Described, now: Described) -> tuple[Carry, ...] | None:
    """For each operator of an output where its state comes from; None if one has to be built."""
    found = [carried(now.operators, before.operators, name) for name in operators]
    return None if None in found else tuple(one for one in found if one is not None)


def _new(name: str, said: Words, carries: tuple[Carry, ...] | None) -> Verdict:
    if not said["operators"]:
        return Verdict(name, NEW, "it begins where the job stands")
    if said["kind"] == SINK and carries and not any(one.needed for one in carries):
        return Verdict(name, NEW, "it begins where the job stands", carries)
    if _can_be_rewritten(said, carries):
        assert carries is not None
        return Verdict(name, NEW, f"it is made from the state of {carries[-1].source}", carries, rewrite=True)
    return Verdict(name, NEW, "it is built from the log")


def _can_be_rewritten(said: Words, carries: tuple[Carry, ...] | None) -> bool:
    """Only views: what was written to a topic or a file cannot be retracted."""
    tree = said["made_from"]
    while tree["step"] in ROW_BY_ROW:
        (tree,) = tree["inputs"]
    return bool(carries) and said["kind"] == VIEW and tree["step"] in REWRITTEN


def _migration(old: Words, said: Words, carries: tuple[Carry, ...]) -> str:
    renamed = [f"{new} was {before}" for one in carries for new, before in one.renamed.items()]
    return f"rewritten from its state: {', '.join(renamed) or _difference(old, said)}"


def _difference(before: Words, now: Words) -> str:
    if short := lacking(now["operators"], before["operators"]):
        return short
    if before["columns"] != now["columns"]:
        return f"its columns were ({before['columns']}) and are ({now['columns']})"
    if before["key"] != now["key"]:
        return f"its key was {before['key']} and is {now['key']}"
    for what in ("made_from", "reads"):
        if before[what] != now[what]:
            return _first_difference(before[what], now[what], "what it reads")
    return "what it keeps is no longer the same"


def _first_difference(before: Any, now: Any, what: str = "it") -> str:
    """The first place where two descriptions part."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if before.get("step") != now.get("step"):
            return f"{_step(now)} stands where {_step(before)} was"
        step = f"{now.get('step', what)}".lower()
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                return _first_difference(before.get(name), now.get(name), f"{step} {name}")
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for one, other in zip(before, now, strict=True):
            if one != other:
                return _first_difference(one, other, what)
    return f"{what} was {worded(what, before)} and is {worded(what, now)}"


def worded(what: str, value: Any) -> str:
    """A value of a description as people write it: times as times, and windows as windows.

    >>> worded("dedupe within_us", 600_000_000), worded("windowed window", "Tumbling(size_us=300000000, offset_us=0)")
    ('10 minutes', 'tumbling 5 minutes')
    """
    if what.endswith("_us") and isinstance(value, int) and not isinstance(value, bool):
        return spelled(value)
    found = WINDOW.fullmatch(value) if isinstance(value, str) else None
    kinds: dict[str, Any] = {kind.__name__: kind for kind in KINDS}
    if found is not None and found["kind"] in kinds:
        fields = {name: literal_eval(text) for name, text in FIELD.findall(found["fields"])}
        return str(kinds[found["kind"]](**fields).in_words)
    return json.dumps(value)


def _step(said: Words) -> str:
    """A step for a sentence."""
    words = next((said[name] for name in ("condition", "columns", "text", "key", "topic") if name in said), "")
    return f"{said['step'].lower()} {json.dumps(words)}"


def save(folder: JobFolder, now: Described) -> None:
    folder.write(FILE, {"outputs": now.outputs, "operators": now.operators})


def save_one(folder: JobFolder, name: str, said: Words, operators: Mapping[str, Words]) -> None:
    """Of one output, and operators, that are now what is said, whatever the others are."""
    kept = folder.read(FILE) or {"outputs": {}, "operators": {}}
    save(folder, Described({**kept["outputs"], name: said}, {**kept["operators"], **operators}))

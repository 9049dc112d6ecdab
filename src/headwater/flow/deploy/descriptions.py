"""What outputs and the operators of a job are made from, in words that are the same for the same meaning.

Every step with the user's expressions, every operator with its key and what it keeps. Names, comments and line numbers
do not count, nor do columns of a source that are not used.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from headwater.flow.declare.aggregates import OwnAggregate
from headwater.flow.declare.topology.graph import Job, Planned
from headwater.flow.declare.topology.nodes import (
    STATEFUL,
    Aggregate,
    Apply,
    Expression,
    Node,
    SourceStream,
    SourceTable,
    SourceVersions,
    sources_of,
    walk,
)
from headwater.flow.formats.schema import to_ddl
from headwater.flow.operate.grouping.group_operator import GroupOperator
from headwater.flow.operate.job_operators import AnyOperator
from headwater.flow.operate.join_operators import StreamJoinOperator, TableJoinOperator
from headwater.flow.operate.patterns.pattern_operator import PatternOperator
from headwater.flow.operate.reports import Operator
from headwater.flow.operate.tables.table_operator import KeptTable
from headwater.flow.operators.aggregation.aggregates import partials
from headwater.flow.operators.latest import Latest
from headwater.flow.plan.resolution import Resolved

Words = Mapping[str, Any]

ALIAS = re.compile(r"\s+(?:as\s+)?(?:`(?:[^`]|``)+`|[^\W\d]\w*)$", re.IGNORECASE)

UNSAID = ("position", "part")
"""What only tables have of a step is not said of streams: descriptions of before are as they were."""


@dataclass(frozen=True)
class Described:
    """What a job's code says. `operators` are by the names under which their state lies."""

    outputs: dict[str, Any]
    operators: dict[str, Any]
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Output → the names of its operators, in the order in which its description has them."""


def descriptions(job: Job, resolved: Mapping[str, Resolved]) -> Described:
    outputs = {one.name: _output(one, resolved[one.name]) for one in job.outputs}
    operators = {
        job.operators[node]: _operator(node, resolved[one.name]) for one in job.outputs for node in _stateful(one)
    }
    uses = {one.name: tuple(job.operators[node] for node in _stateful(one)) for one in job.outputs}
    return Described(outputs, operators, uses)


def _stateful(planned: Planned) -> list[Node]:
    """Inputs first; the last is the one that an output is made from, if it is a table."""
    return [node for node in walk(planned.node) if isinstance(node, STATEFUL)]


def _output(planned: Planned, resolved: Resolved) -> dict[str, Any]:
    return {
        "kind": planned.output.kind,
        "key": list(resolved.key),
        "columns": to_ddl(resolved.schema),
        "keyed": planned.node.keyed,
        "made_from": describe(planned.node),
        "reads": _reads(planned.node),
        "operators": [_operator(node, resolved) for node in _stateful(planned)],
    }


def describe(node: Node) -> dict[str, Any]:
    """A node in words that are the same for the same meaning."""
    said: dict[str, Any] = {"step": type(node).__name__}
    if isinstance(node, SourceStream):
        if isinstance(node, SourceVersions):
            said |= {"key": list(node.key), "versions": node.versions_us, "holds": [node.valid_from, node.valid_to]}
        said |= {"estimated": asdict(node.clock.device)} if node.clock.device else {}
        return said | {"topic": node.topic, "format": node.format, "time": node.time, "options": dict(node.options)}
    if isinstance(node, SourceTable):
        return said | {"topic": node.topic, "format": node.format, "key": list(node.key), "options": dict(node.options)}
    if isinstance(node, Apply):
        code = getattr(node.function, "__code__", None)
        body = code.co_code.hex() + repr(code.co_consts) if code is not None else repr(node.function)
        said["function"] = hashlib.sha256(body.encode()).hexdigest()[:16]
    for one in fields(node):
        if one.name in UNSAID and not getattr(node, one.name):
            continue
        if one.name not in ("place", "name", "function", "input", "parts", "tables", "left", "right"):
            said[one.name] = _words(getattr(node, one.name))
    return said | {"inputs": [describe(one) for one in node.inputs]}


def _operator(node: Node, resolved: Resolved) -> dict[str, Any]:
    """What it is made from, and the columns that it keeps; of aggregates also which of them are whose."""
    operator = resolved.operators[node]
    said: dict[str, Any] = {
        "made_from": describe(node),
        "reads": _reads(node),
        "keeps": _keeps(operator),
    }
    if isinstance(node, Aggregate) and isinstance(operator, Operator) and not isinstance(operator.work, Latest):
        said["aggregates"] = {
            spec.name: {"computes": _computes(text), "keeps": [part.name for part in partials(spec)]}
            for spec, text in zip(operator.work, node.aggregates, strict=True)
        }
    return said


def _keeps(operator: AnyOperator) -> dict[str, str]:
    if isinstance(operator, TableJoinOperator | StreamJoinOperator | GroupOperator | KeptTable | PatternOperator):
        columns = [(f"{part}.{column.name}", column) for part, kept in operator.parts.items() for column in kept.rows]
        return {name: str(column.type) for name, column in columns}
    return {column.name: str(column.type) for column in operator.state.rows}


def _reads(node: Node) -> dict[str, dict[str, str]]:
    """The types of columns that are named somewhere, for each source; of several sources also their order."""
    named = {word.lower() for one in walk(node) for text in _texts(one) for word in re.findall(r"\w+", text)}
    sources = sorted(sources_of(node), key=lambda source: (source.topic, source.name))
    return {
        f"{number} {source.topic}" if len(sources) > 1 else source.topic: {
            one.name: str(one.type) for one in source.schema.fields if one.name.lower() in named
        }
        for number, source in enumerate(sources)
    }


def _texts(node: Node) -> Iterable[str]:
    """All that the user wrote in a step; of a source, only the columns that it names."""
    if isinstance(node, SourceStream | SourceTable):
        yield str(node.time if isinstance(node, SourceStream) else node.key)
        return
    for one in fields(node):
        if one.name in ("place", "input", "parts", "tables", "left", "right"):
            continue
        value = getattr(node, one.name)
        code = getattr(value, "__code__", None)
        yield repr((code.co_consts, code.co_names)) if code is not None else str(_words(value))


def _computes(expression: Expression) -> str:
    """Text and PySpark's columns are distinguished: printed, a column does not say what is a name and what a text."""
    if isinstance(expression, str):
        return without_alias(expression)
    if isinstance(expression, OwnAggregate):
        return f"own {expression.meaning}"
    printed = str(expression).removeprefix("Column<'").removesuffix("'>")
    return f"column {without_alias(printed)}"


def without_alias(text: str) -> str:
    """What an expression computes, whatever it is called.

    >>> without_alias("sum(amount) as revenue"), without_alias("count(*) n"), without_alias("count(*)")
    ('sum(amount)', 'count(*)', 'count(*)')
    """
    shorter = ALIAS.sub("", text)
    # An aggregate ends with a bracket; what follows one is its alias.
    return shorter.strip() if shorter.rstrip().endswith(")") else text.strip()


def _words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _words(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_words(one) for one in value]
    if isinstance(value, OwnAggregate):
        return f"{value.meaning} as {value.name}"
    return value if isinstance(value, str | int | float | bool | None) else str(value)

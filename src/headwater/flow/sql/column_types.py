"""Types of the columns of a flow, as far as they are known without Spark (pure).

What only Spark can say is left out; what is here, Spark would say too: expressions are resolved by the rules of
expressions/resolution.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.flow.declare.checks.columns import names_of
from headwater.flow.declare.topology import nodes
from headwater.flow.declare.topology.nodes import Expression, Node, walk
from headwater.flow.declare.topology.registered import Registered
from headwater.flow.expressions.resolution.analysis import Known, resolve_expression
from headwater.flow.expressions.resolution.coercion import is_number
from headwater.flow.expressions.resolution.sql_text import parsed
from headwater.flow.expressions.resolution.unresolved import Call, CastTo, Named, Star, Unresolved, name_of
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.kind import AS_DOUBLE, NUMBER
from headwater.flow.operators.aggregation.kinds.registry import FUNCTIONS, KINDS
from headwater.flow.operators.joins.pairing import EXISTENCE
from headwater.flow.operators.windows.step import END, START

Types = Mapping[str, pa.DataType]
UTC = pa.timestamp("us", "UTC")


def types_of(node: Node) -> Types:
    """By the name of the column."""
    known: dict[Node, Types] = {}
    for one in walk(node):
        known[one] = _types(one, [known[source] for source in one.inputs])
    return known[node]


def type_of(text: str, types: Types) -> pa.DataType | None:
    """Of an expression over such columns; None if only Spark can say."""
    try:
        return _resolved(parsed(text), types)
    except (Untranslatable, HeadwaterError):
        return None


def _resolved(node: Unresolved, types: Types) -> pa.DataType:
    return resolve_expression(node, {name: Known(name, name, kind) for name, kind in types.items()}).type


def _types(node: Node, given: Sequence[Types]) -> Types:
    first = given[0] if given else {}
    match node:
        case nodes.SourceStream() | nodes.SourceTable():
            settled = not (isinstance(node.contents, Registered) and node.contents.found is None)
            return {one.name: one.type for one in node.schema.fields} if settled else {}
        case nodes.Where() | nodes.Latest() | nodes.Dedupe():
            return first
        case nodes.Select(columns=columns):
            return _selected(columns, first)
        case nodes.WithColumns(columns=columns):
            made = {name: type_of(one, first) for name, one in columns.items() if isinstance(one, str)}
            return {**_without(first, columns), **_known(made)}
        case nodes.Explode(column=column, into=into, position=position):
            own = first.get(column)
            kind = own.value_type if own is not None and pa.types.is_list(own) else None
            return {**_without(first, (into, position)), **_known({into: kind, position: pa.int32()})}
        case nodes.Union(part=part):
            shared = {name: kind for name, kind in first.items() if all(one.get(name) == kind for one in given)}
            return _without(shared, (part,))
        case nodes.Windowed(by=by, aggregates=aggregates):
            return {START: UTC, END: UTC} | _aggregated(by, aggregates, first)
        case nodes.Aggregate(key=key, aggregates=aggregates):
            return _aggregated(key, aggregates, first)
        case nodes.Join():
            return _joined(node, first, given[1])
    return _passed_on(node, given)


def _passed_on(node: Node, given: Sequence[Types]) -> Types:
    """Columns of the first input that an operator of tables gives as they are."""
    if not isinstance(node, nodes.TableOperator) or not given:
        return {}
    names = names_of(node) or ()
    before = names_of(node.inputs[0]) or ()
    return {name: given[0][name] for name in names if name in before and name in given[0]}


def _known(given: Mapping[str, pa.DataType | None]) -> Types:
    return {name: kind for name, kind in given.items() if kind is not None and name}


def _without(given: Types, names: Iterable[str]) -> dict[str, pa.DataType]:
    taken = {one.lower() for one in names}
    return {name: kind for name, kind in given.items() if name.lower() not in taken}


def _selected(columns: Sequence[Expression], given: Types) -> Types:
    found: dict[str, pa.DataType | None] = {}
    for one in columns:
        if not isinstance(one, str):
            continue
        try:
            node = parsed(one)
        except Untranslatable:
            continue
        if isinstance(node, Star):
            found |= given if not node.parts else {}
        elif (name := name_of(node)) is not None:
            found[name] = _type_of(node, given)
    return _known(found)


def _type_of(node: Unresolved, given: Types) -> pa.DataType | None:
    try:
        return _resolved(node, given)
    except (Untranslatable, HeadwaterError):
        return None


def _aggregated(key: Sequence[str], aggregates: Sequence[Expression], given: Types) -> dict[str, pa.DataType]:
    found = {name: given[name] for name in key if name in given}
    for one in aggregates:
        try:
            node = parsed(one) if isinstance(one, str) else None
            if isinstance(node, Named) and isinstance(node.input, Call):
                found[node.name] = _of_call(node.input, given)
        except (Untranslatable, HeadwaterError):
            continue
    return found


def _of_call(call: Call, given: Types) -> pa.DataType:
    """The type of an aggregate; of those alone that are of one column and need no more than its type."""
    function = FUNCTIONS.get(call.name)
    kind = None if function is None else function.distinct if call.distinct else function.kind
    if function is None or kind is None or not function.takes or function.arguments != 1:
        raise Untranslatable(call.name)
    if kind in ("count", "count_distinct"):
        return pa.int64()
    if KINDS[kind].timed or KINDS[kind].of_two:
        raise Untranslatable(call.name)
    (value,) = call.inputs
    own = _resolved(CastTo(value, "double") if function.takes == AS_DOUBLE else value, given)
    if function.takes == NUMBER and not is_number(own):
        raise Untranslatable(call.name)
    return KINDS[kind].result_type(Aggregate(kind, "one", column="of", type=own))


def _joined(node: nodes.Join, left: Types, right: Types) -> Types:
    if node.how in EXISTENCE:
        return left
    partners = {other for _, other in node.on}
    others = {node.prefix + name: kind for name, kind in right.items() if name not in partners}
    return others | dict(left)

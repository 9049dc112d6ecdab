"""Columns that an app names, checked against those that are known before Spark runs (pure).

Which columns a step gives is known where its input is and names or SQL text say the rest. Behind a free function, a
PySpark column or a schema that a registry has not been asked for, nothing is known, and Spark checks later. The names
that are known may be more than there are, never fewer: what is refused here, Spark would refuse too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.aggregates import OwnAggregate
from headwater.flow.declare.checks import sql_text
from headwater.flow.declare.topology import nodes
from headwater.flow.declare.topology.nodes import LEFT_NAME, RIGHT_NAME, Expression, Names, Node, key_of, walk
from headwater.flow.declare.topology.registered import Registered
from headwater.flow.declare.topology.stored_queries import AsOfPercolate, Percolate
from headwater.flow.formats.schema import nearest
from headwater.flow.operators.clustering.learning import CLUSTER, UNTIL, WEIGHT
from headwater.flow.operators.joins.pairing import EXISTENCE
from headwater.flow.operators.patterns.spec import TIMED, PatternSpec

if TYPE_CHECKING:
    from headwater.flow.declare.app import Output


def names_of(node: Node) -> Names | None:
    """The columns of a node's result; None if they are for Spark to say."""
    known: dict[Node, Names | None] = {}
    for one in walk(node):
        known[one] = _columns(one, [known[source] for source in one.inputs])
    return known[node]


def check(output: "Output", node: Node) -> None:
    """InvalidDeclaration, with file and line, for a column that there is not."""
    known: dict[Node, Names | None] = {}
    for one in walk(node):
        given = [known[source] for source in one.inputs]
        for use in _uses(one, given):
            use.check(one)
        known[one] = _columns(one, given)
    found = known[node]
    if found is not None:
        checked_key(output, node, found)


def checked_key(output: "Output", node: Node, names: Sequence[str]) -> Names:
    """The key of an output whose columns are `names`; InvalidDeclaration if it cannot be that."""
    for name in output.key:
        if name not in names:
            raise InvalidDeclaration(
                f"the key of {output} is {name}, which is not in its result", nearest(name, _public(names))
            )
    if not node.keyed:
        return output.key
    own = key_of(node)
    if missing := [name for name in own if name not in names]:
        raise _without_key(output, missing[0])
    key = output.key or own
    if set(key) != set(own):
        raise InvalidDeclaration(
            f"the key of {output} is {', '.join(key)}, and its table has a row for each {', '.join(own)}",
            f"Use key={list(own)!r}, or group by {', '.join(key)}.",
        )
    return key


WITHOUT = {
    nodes.POSITION: ("an exploded table", "says which element a row is", 'explode(..., position="place")'),
    nodes.PART: ("a union of tables", "says which of them a row is of", 'union(..., part="part")'),
}


def _without_key(output: "Output", name: str) -> InvalidDeclaration:
    if name not in WITHOUT:
        return InvalidDeclaration(f"{output} drops {name}, which is part of its table's key")
    what, says, way_out = WITHOUT[name]
    return InvalidDeclaration(
        f"{output} is {what}, and has no column that {says}", f"Say {way_out}, or group it first: by(...), distinct()."
    )


def known_columns(node: Node) -> Names | None:
    """The columns of a stream or table; None if only Spark can say."""
    known: dict[Node, Names | None] = {}
    for one in walk(node):
        known[one] = _columns(one, [known[source] for source in one.inputs])
    return known[node]


def no_such_column(name: str, columns: Iterable[str]) -> str:
    """
    >>> no_such_column("amont", ["id", "amount"]), no_such_column("x", ["id", "amount"])
    ('there is no column amont; did you mean amount?', 'there is no column x; there are: id, amount')
    """
    hint = nearest(name, _public(columns)).removesuffix(".")
    return f"there is no column {name}; {hint[0].lower()}{hint[1:]}"


def _public(columns: Iterable[str]) -> list[str]:
    return [name for name in columns if not name.startswith("_")]


class Use(NamedTuple):
    """Columns that a part of a node names, and those that there are."""

    what: str
    names: Names
    columns: Names | None
    side: str = ""
    """Of a join."""

    def check(self, node: Node) -> None:
        """Capital letters are the same as small ones to Spark; names that begin with _ are ours."""
        if self.columns is None:
            return
        known = {name.lower() for name in self.columns}
        for name in self.names:
            if name.startswith("_") or name.lower() in known:
                continue
            if self.side:
                hint = nearest(name, _public(self.columns))
                raise InvalidDeclaration(f"{self.what} at {node.place}: {self.side} has no column {name}", hint)
            raise InvalidDeclaration(f"{self.what} at {node.place}: {no_such_column(name, self.columns)}")


def _uses(node: Node, given: Sequence[Names | None]) -> Iterator[Use]:
    """What of a node names columns, which, and of what there are."""
    first = given[0] if given else None
    match node:
        case nodes.Select(columns=columns):
            yield Use("select", _read(columns), _with(first, _aliases(columns)))
        case nodes.Where(condition=condition):
            yield Use("where", _read([condition]), first)
        case nodes.WithColumns(columns=made):
            yield Use("withcolumns", _read(made.values()), _with(first, made))
        case nodes.Explode(column=column):
            yield Use("explode", (column,), first)
        case nodes.Sql():
            yield from _uses_of_query(node, first)
        case nodes.Recognized(spec=spec):
            yield Use("match", spec.reads, first)
        case nodes.Windowed(by=by, aggregates=aggregates):
            yield Use("by", by, first)
            yield Use("agg", _read(aggregates), _with(first, _aliases(aggregates)))
        case nodes.Aggregate(key=key, aggregates=aggregates):
            yield Use("by", key, first)
            yield Use("agg", _read(aggregates), _with(first, _aliases(aggregates)))
        case nodes.Newest(key=key, order=order):
            yield Use("newest", (*key, order), first)
        case nodes.Latest(key=key) | nodes.Dedupe(key=key):
            yield Use(type(node).__name__.lower(), key, first)
        case Percolate(search=search) | AsOfPercolate(search=search):
            yield Use("percolate", search.names, first, "the left")
            yield Use("percolate", (search.query,), given[1], "the table of queries")
        case nodes.Join():
            left, right = zip(*node.on, *((one.left, one.right) for one in node.further), strict=True)
            yield Use("join", left, first, "the left")
            yield Use("join", right, given[1], "the right")
        case nodes.TableOperator(using=using):
            for one in using:
                yield Use(one.what, one.names, given[one.input])


def _uses_of_query(node: nodes.Sql, first: Names | None) -> Iterator[Use]:
    read = sql_text.query(node.text)
    if read is not None and len(node.tables) == 1 and read.table in node.tables:
        yield Use("sql", read.reads, _with(first, read.gives))


def _columns(node: Node, given: Sequence[Names | None]) -> Names | None:
    """The columns of a node's result; None if they are for Spark to say."""
    first = given[0] if given else None
    match node:
        case nodes.SourceStream() | nodes.SourceTable():
            return _of_source(node)
        case nodes.Where() | nodes.Latest() | nodes.Dedupe():
            return first
        case nodes.Select(columns=columns):
            return _selected(columns, first)
        case nodes.WithColumns(columns=made):
            return _with(first, made)
        case nodes.Explode(into=into, position=position):
            return _with(first, filter(None, (into, position)))
        case nodes.Sql():
            return _queried(node, first)
        case nodes.Union(part=part):
            return None if None in given else _with(first, filter(None, (part,)))
        case nodes.Windowed(aggregates=aggregates) | nodes.Aggregate(aggregates=aggregates):
            return _aggregated(node, aggregates)
        case nodes.Compared(comparisons=comparisons):
            return _with(first, comparisons)
        case nodes.Recognized(spec=spec):
            return None if spec.all_rows and first is None else _recognized(spec, first or ())
        case nodes.KMeans(columns=columns):
            return (*node.windowed.by, CLUSTER, *columns, WEIGHT, UNTIL)
        case nodes.Newest(key=key, into=into):
            return (*key, into)
        case nodes.History(valid_from=valid_from, valid_to=valid_to):
            return _with(first, (valid_from, valid_to))
        case nodes.Changes():
            return (*key_of(node.input), "op", "before", "after")
        case nodes.Join(how=how) if how in EXISTENCE:
            return first
        case Percolate(search=search) | AsOfPercolate(search=search):
            return _with(_joined(node, first, given[1]), search.hit_names)
        case nodes.Join():
            return _joined(node, first, given[1])
        case nodes.TableOperator():
            return node.gives(given)
    return None


def _of_source(node: nodes.Source) -> Names | None:
    if isinstance(node.contents, Registered) and node.contents.found is None:
        return None
    version = getattr(node, "version_id", "")
    return (*node.schema.names, *((version,) if version else ()))


def _with(columns: Names | None, more: Iterable[str]) -> Names | None:
    return None if columns is None else tuple(dict.fromkeys((*columns, *more)))


def _read(expressions: Iterable[Expression]) -> Names:
    """The columns that SQL text names; a PySpark column is Spark's to check."""
    found: list[str] = []
    for one in expressions:
        if isinstance(one, OwnAggregate):
            found += _read(one.columns)
        elif isinstance(one, str) and one != "*":
            found += sql_text.expression(one).reads
    return tuple(found)


def _aliases(expressions: Iterable[Expression]) -> list[str]:
    """What can be named beside them: Spark lets a column use those that are made before it."""
    return [sql_text.expression(one).alias for one in expressions if isinstance(one, str)]


def _named(expressions: Iterable[Expression]) -> list[str]:
    return [name for name in map(_name, expressions) if name]


def _name(one: Expression) -> str | None:
    if isinstance(one, OwnAggregate):
        return one.name or None
    return sql_text.expression(one).name if isinstance(one, str) else None


def _selected(columns: Iterable[Expression], first: Names | None) -> Names | None:
    found: list[str] = []
    for one in columns:
        names = first if isinstance(one, str) and one == "*" else (_name(one),)
        if names is None or None in names:
            return None
        found += [name for name in names if name]
    return tuple(found)


def _queried(node: nodes.Sql, first: Names | None) -> Names | None:
    read = sql_text.query(node.text)
    if read is None or len(node.tables) != 1 or None in read.makes or ("*" in read.makes and first is None):
        return None
    made = tuple(name for one in read.makes for name in ((first or ()) if one == "*" else (str(one),)))
    return (*made, read.alias)  # Spark knows columns behind it also as those of the table


def _aggregated(node: nodes.Windowed | nodes.Aggregate, aggregates: Sequence[Expression]) -> Names | None:
    names = _named(aggregates)
    if len(names) != len(aggregates):
        return None
    return (*node.key, *(node.reserved if isinstance(node, nodes.Windowed) else ()), *names)


def _recognized(spec: PatternSpec, first: Names) -> Names:
    rows = [one for one in first if one not in spec.by] if spec.all_rows else []
    timed = [TIMED] if spec.timeouts else []
    return (*spec.key, *spec.by, *rows, *(name for name, _ in spec.slots), *timed)


def _joined(node: nodes.Join, left: Names | None, right: Names | None) -> Names | None:
    if left is None or right is None:
        return None
    own = (LEFT_NAME, RIGHT_NAME) if isinstance(node, nodes.STREAM_JOINS) and node.keyed else ()
    under = (node.right_name,) if node.right_name else ()
    return tuple(dict.fromkeys((*own, *left, *map(node.named, right), *under)))

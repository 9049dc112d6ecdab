"""What stands in FROM: names, queries in brackets, windows of table functions, lateral views (pure)."""

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.columns import known_columns
from headwater.flow.declare.duration import spelled
from headwater.flow.declare.stream import Stream
from headwater.flow.operators.windows.kinds.hopping import hopping
from headwater.flow.operators.windows.kinds.session import session
from headwater.flow.operators.windows.kinds.tumbling import tumbling
from headwater.flow.operators.windows.window import Window
from headwater.flow.sql.environment import Environment
from headwater.flow.sql.intervals import interval_us, is_now
from headwater.flow.sql.reading.dialect import WINDOW_FUNCTIONS, name_text, tokens_of
from headwater.flow.sql.reading.match_clause import MATCH, match_clause
from headwater.flow.sql.reading.source_text import start_of
from headwater.flow.sql.relations import Column, Cut, Item, Relation, Rows

Compile = Callable[[exp.Query, Environment], Relation]
EXPLODES = {"explode": False, "explode_outer": True}


def rows_of(node: exp.Expr, environment: Environment, compiled: Compile) -> Rows:
    """The rows of one item of FROM. InvalidDeclaration if it is nothing that flows read."""
    alias = node.alias if isinstance(node, exp.Table | exp.Subquery | exp.Values) else ""
    source = environment.source
    if isinstance(node, exp.Subquery):
        inner = compiled(node.unnest(), environment)  # type: ignore[arg-type]
        return _rows(_renamed(inner, node), alias, node, environment)
    if isinstance(node, exp.Table):
        if isinstance(node.this, exp.Anonymous):
            return _called(node, environment)
        if node.args.get("db"):
            raise source.refusal(
                start_of(node), f"{node.sql(dialect='spark')} has a dot in it", "Streams, tables and views have none."
            )
        if node.args.get("sample") or node.args.get("pivots"):
            raise source.refusal(start_of(node), "rows of a stream are not sampled or pivoted", "Use WHERE.")
        relation = environment.find(node.this, node.name)
        return _rows(_renamed(relation, node), alias or node.name, node, environment)
    raise source.refusal(
        start_of(node), f"FROM has {node.sql(dialect='spark')[:40]}, which is no stream, table or view",
        "Name one, or write a query in brackets.",
    )  # fmt: skip


def _rows(relation: Relation, alias: str, node: exp.Expr, environment: Environment) -> Rows:
    item = Item(alias, relation.columns, start_of(node))
    return Rows(relation.flow, (item,), environment.source, unique=relation.unique)


def _renamed(relation: Relation, node: exp.Expr) -> Relation:
    """With the names of `AS t(a, b)`."""
    alias = node.args.get("alias")
    names = [one.name for one in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    if not names or relation.columns is None:
        return relation
    pairs = zip(relation.columns, names, strict=False)
    return replace(relation, columns=tuple(replace(one, name=name, said=True) for one, name in pairs))


def _called(node: exp.Table, environment: Environment) -> Rows:
    """TUMBLE(orders, DESCRIPTOR(at), INTERVAL '5' MINUTES) and its like, or STREAM(orders)."""
    call, source = node.this, environment.source
    name, inputs = str(call.this).lower(), list(call.expressions)
    read = inputs[0] if inputs else None
    if name == MATCH and isinstance(read, exp.Column):
        return _matched(node, read, str(inputs[1].name), environment)
    if name not in (*WINDOW_FUNCTIONS, "stream") or not isinstance(read, exp.Column):
        raise source.refusal(
            start_of(node), f"{name}(...) is no table function of flows",
            "There are TUMBLE, HOP and SESSION(orders, DESCRIPTOR(at), INTERVAL ...).",
        )  # fmt: skip
    relation = environment.find(read, read.name)
    rows = _rows(relation, node.alias or read.name, node, environment)
    if name == "stream":
        return rows
    described = inputs[1].expressions if len(inputs) > 1 and isinstance(inputs[1], exp.Anonymous) else []
    time = described[0] if described else None
    sizes = [interval_us(one, source) for one in inputs[2:] if not isinstance(one, exp.PropertyEQ)]
    if not (isinstance(time, exp.Column) or (time is not None and is_now(time))) or len(sizes) != (
        2 if name == "hop" else 1
    ):
        raise source.refusal(
            start_of(node), f"{name.upper()}(...) cannot be read",
            "Write TUMBLE(orders, DESCRIPTOR(at), INTERVAL '5' MINUTES); HOP has the step and then the size; SESSION "
            "the gap.",
        )  # fmt: skip
    processing = is_now(time)
    if not processing:
        check_event_time(rows, time)
    if isinstance(time, exp.Column):
        time = exp.column(time.this.copy(), table=rows.items[0].alias)
    cut = Cut(name, time, tuple(sizes))
    return replace(rows, window=_window(name, sizes), processing=processing, cut=cut)


def _matched(node: exp.Table, read: exp.Column, said: str, environment: Environment) -> Rows:
    """orders MATCH_RECOGNIZE (...): the matches of a pattern as rows of a stream, or a table with corrections."""
    source = environment.source
    relation = environment.find(read, read.name)
    clause = match_clause(said, tokens_of(source), source)
    if not isinstance(relation.flow, Stream):
        raise source.refusal(start_of(read), f"{read.name} is a table", "Match the stream that it is made from.")
    try:
        flow = relation.flow.match(
            by=clause.by, order=clause.order, within=clause.within, pattern=clause.pattern, define=clause.define,
            measures=clause.measures, subset=clause.subset, rows=clause.rows, skip=clause.skip,
        )  # fmt: skip
    except InvalidDeclaration as error:
        raise source.refusal(int(said.split(":")[0]), str(error)) from error
    names = known_columns(flow.node)
    columns = None if names is None else tuple(Column(name, name) for name in names)
    return _rows(Relation(flow, columns), node.alias or read.name, node, environment)


def _window(name: str, sizes: list[int]) -> Window:
    said = [spelled(one) for one in sizes]
    if name == "hop":
        return hopping(said[1], said[0])
    return session(said[0]) if name == "session" else tumbling(said[0])


def check_event_time(rows: Rows, node: exp.Expr) -> None:
    """InvalidDeclaration unless it is the time that windows of the rows go by."""
    column = rows.plain(node)
    if column is not None and (column.event_time or not rows.known):
        return
    times = [one.name for item in rows.items for one in item.columns or () if one.event_time]
    hint = f"That is {times[0]}." if times else "Say WITH (time = '...') where the stream is created."
    raise rows.source.refusal(start_of(node), "windows go by the time of their stream", hint)


def with_lateral(rows: Rows, node: exp.Lateral) -> Rows:
    """LATERAL VIEW explode(tags) t AS tag: a row for each element."""
    call, alias = node.this, node.args.get("alias")
    names = [one.name for one in alias.args.get("columns") or ()] if alias is not None else []
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if name not in EXPLODES or len(call.expressions) != 1:
        raise rows.source.refusal(
            start_of(node), "a lateral view is of explode(...)", "Write LATERAL VIEW explode(tags) t AS tag."
        )
    given, flow = call.expressions[0], rows.flow
    into = rows.fresh(names[0] if names else "col")
    column = rows.plain(given)
    made = rows.fresh("exploded", [into])
    flow = flow.with_columns(**{made: rows.text(given) if column is None else name_text(column.flat)})
    outer = EXPLODES[name] or bool(node.args.get("outer"))
    if not isinstance(flow, Stream):
        raise rows.source.refusal(
            start_of(node), "the rows of a table are exploded", "Explode the stream that it is made from."
        )
    flow = flow.explode(made, into, outer=outer)
    item = Item(alias.name if alias is not None else "", (Column(names[0] if names else "col", into),))
    return replace(rows, flow=flow, items=(*rows.items, item), unique=())

"""Statements become declarations of an app: the same streams, tables, views, topics, sinks and alerts as Python's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import headwater  # targets of alerts and captures, as the user's own Python would name them
from headwater.errors import HeadwaterError, InvalidDeclaration
from headwater.flow.declare import sinks
from headwater.flow.declare.checks.mistakes import Mistakes
from headwater.flow.declare.checks.source_line import Place, declared_at
from headwater.flow.declare.stream import Grouped, Stream, Table
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.formats.schema import nearest, parse_ddl
from headwater.flow.sql.environment import Environment, Provide, relation_of
from headwater.flow.sql.keeping import Reads, with_keep
from headwater.flow.sql.queries import Hints, compiled
from headwater.flow.sql.reading.dialect import name_text, parse_query
from headwater.flow.sql.reading.grammar import parse_script
from headwater.flow.sql.reading.grouping_sets import GROUPING_ID
from headwater.flow.sql.reading.source_text import SourceText
from headwater.flow.sql.reading.statements import (
    AlertStatement,
    AppStatement,
    ColumnText,
    FlowStatement,
    NamedQuery,
    Notified,
    Options,
    QueryText,
    SelectStatement,
    SinkStatement,
    Statement,
    StreamingTable,
    StreamStatement,
    TableStatement,
    Value,
    ViewStatement,
)
from headwater.flow.sql.relations import Column, Flow, Relation, as_column, fresh

if TYPE_CHECKING:
    from headwater.flow.declare.app import App, Output

STREAM_OPTIONS = ("time", "lateness", "format", "producer", "idle", "ahead", "behind", "registry")
TABLE_OPTIONS = ("versions", "valid_from", "valid_to", "version_id", "idle", "format", "registry")
CAPTURE_OPTIONS = ("topic", "partitions", "snapshot", "transactions", "max_retained", "at_limit", "capture")
APP_OPTIONS = ("store", "shards", "retries", "backoff", "backoff_max", "on_loss", "one_job")
ALERT_OPTIONS = ("for", "every", "about")
FORMAT = "format."
"""Before the names of a format's own options."""


@dataclass
class Script:
    """What SQL has declared in an app."""

    app: "App"
    relations: dict[str, Provide] = field(default_factory=dict)
    """By small letters: streams, tables, views and named queries."""
    flows: dict[str, list[Callable[[], Stream]]] = field(default_factory=dict)
    """Of streaming tables: the queries whose rows they have."""

    def run(self, source: SourceText, statements: Sequence[Statement]) -> Provide:
        """Declare everything that a text says; answers what its last statement stands for.
        InvalidDeclaration has the mistakes of all statements."""
        mistakes, last = Mistakes(), list[Provide]()
        for one in statements:
            with mistakes.gathered():
                last = [_Declaring(self, source).declare(one)]
        mistakes.refuse()
        if not last:
            raise source.refusal(0, "it has no statement", "Write SELECT ... FROM ..., or CREATE ....")
        return last[0]

    def named(self) -> dict[str, Provide]:
        """All that queries may read: what SQL has declared, and what Python has."""
        own: dict[str, Provide] = {}
        for name, node in self.app.sources.items():
            own[name.lower()] = lambda node=node: relation_of(node)  # type: ignore[misc]
        for name, output in self.app.outputs.items():
            if not output.of and output.sink is None:
                own.setdefault(name.lower(), lambda output=output: _of_output(output))  # type: ignore[misc]
        return {**own, **self.relations}


def _of_output(output: "Output") -> Relation:
    """What the body of a view in Python returns."""
    made = output.body()
    return relation_of(made.node)


def once(provide: Provide) -> Provide:
    """The same relation whenever it is asked for: views of one query are one query, and have one state."""
    found: list[Relation] = []

    def kept() -> Relation:
        if not found:
            found.append(provide())
        return found[0]

    return kept


class _Declaring:
    """One statement of a text."""

    def __init__(self, script: Script, source: SourceText) -> None:
        self.script, self.app, self.source = script, script.app, source

    def declare(self, one: Statement) -> Provide:
        with self._at(one.start):
            return DECLARED[type(one)](self, one)

    @contextmanager
    def _at(self, start: int) -> Iterator[None]:
        """What is declared within the block is declared there; errors of Python's words begin with the place."""
        try:
            with declared_at(self.source.place_at(start)):
                yield
        except InvalidDeclaration:
            raise
        except HeadwaterError as error:
            raise self.source.refusal(start, str(error)) from None

    # -- what is read --------------------------------------------------------------------------------------------------

    def app_(self, one: AppStatement) -> Provide:
        raise self.source.refusal(
            one.start, f"CREATE APP {one.name} is not at the head of a file", "It is the first statement of an APP.sql."
        )

    def stream(self, one: StreamStatement) -> Provide:
        if one.key:
            raise self.source.refusal(
                one.start, f"stream {one.name} has a PRIMARY KEY, and facts of a stream have none",
                "CREATE TABLE has the newest row for each key; CREATE MATERIALIZED VIEW ... KEY (...) of a stream too.",
            )  # fmt: skip
        options, formats = self._options(one.options, STREAM_OPTIONS, f"stream {one.name}", formats=True)
        self._free(one)
        made = self.app.stream(one.topic, self._schema(one.columns), name=one.name, options=formats, **options)
        return self._keep(one.name, lambda: relation_of(made.node))

    def table(self, one: TableStatement) -> Provide:
        known = (*TABLE_OPTIONS, *(CAPTURE_OPTIONS if one.url else ()))
        options, formats = self._options(one.options, known, f"table {one.name}", formats=True)
        if not one.key:
            raise self.source.refusal(
                one.start, f"table {one.name} has no key", "Add PRIMARY KEY to a column, or PRIMARY KEY (a, b)."
            )
        self._free(one)
        topic, capture = one.topic, None
        if one.url:
            topic = options.pop("topic", one.name)
            said = {name: options.pop(name) for name in CAPTURE_OPTIONS if name in options}
            capture = self._capture(one, said)
        made = self.app.table(
            topic, self._schema(one.columns), key=one.key, name=one.name, options=formats, capture=capture, **options
        )
        return self._keep(one.name, lambda: relation_of(made.node))

    def _capture(self, one: TableStatement, said: dict[str, Any]) -> Any:
        if "capture" in said:
            said["name"] = said.pop("capture")
        kind, _, rest = one.url.partition("://")
        made = {"sqlite": "sqlite", "mysql": "mariadb", "mariadb": "mariadb"}.get(kind, "postgres")
        if made == "postgres" and kind not in ("postgresql", "postgres"):
            raise self.source.refusal(
                one.start, f"table {one.name} is captured from {kind}://, which there is not",
                "Write postgresql://..., mysql://... or sqlite:///PATH.",
            )  # fmt: skip
        where = rest.removeprefix("/") if made == "sqlite" else one.url
        try:
            return getattr(headwater.capture, made)(where, table=one.captured, **said)
        except TypeError:
            wrong = next(iter(set(said) - {"partitions", "snapshot", "name"}), "")
            raise self.source.refusal(one.start, f"captures from {kind} have no option {wrong}") from None

    def _schema(self, columns: Sequence[ColumnText]) -> str:
        for one in columns:
            try:
                parse_ddl(one.text)
            except InvalidDeclaration as error:
                raise self.source.refusal(one.start, str(error.args[0]), getattr(error, "hint", "")) from None
        return ", ".join(one.text for one in columns)

    # -- queries -------------------------------------------------------------------------------------------------------

    def query(self, query: QueryText, key: Sequence[str] = (), reads: Reads | None = None) -> Relation:
        """Compiled where it is asked for: columns of registered schemas are known then."""
        tree, named = parse_query(query.tokens, self.source), self.script.named()
        with self._at(query.start):
            named = named if reads is None else reads.of(named)
            return compiled(tree, Environment(self.source, named), Hints(key=tuple(key)))

    def select(self, one: SelectStatement) -> Provide:
        if one.query.emit:
            raise self.source.refusal(
                one.start, "EMIT is said of a query alone", "Say it of the view: @app.view(emit=...), or CREATE."
            )
        return lambda: Relation(self._shown(self.query(one.query), one.query), None)

    def named_query(self, one: NamedQuery) -> Provide:
        self._free(one)
        parse_query(one.query.tokens, self.source)
        return self._keep(one.name, once(lambda: self.query(one.query)))

    def view(self, one: ViewStatement) -> Provide:
        options, _ = self._options(one.options, ("store", "search", "keep"), f"view {one.name}")
        keep = options.pop("keep", None)
        self._free(one)
        parse_query(one.query.tokens, self.source)
        kept = once(lambda: self._view_rows(one, keep))

        def body() -> Table:
            made = kept().flow
            assert isinstance(made, Table)
            return made

        body.__doc__ = one.doc or None
        query = one.query
        self.app.view(
            key=one.key, name=one.name, emit=query.emit or None, corrections=query.corrections or None, **options
        )(body)
        return self._keep(one.name, kept)

    def _view_rows(self, one: ViewStatement, keep: Value | None) -> Relation:
        """The table of a view: its key is that of the query's table; of a stream, what KEY says."""
        reads = Reads()
        relation = self.query(one.query, one.key, reads)
        with self._at(one.start):
            relation = self._keyed(one, relation)
            flow = self._shown(relation, one.query)
            if isinstance(flow, Stream):
                if not one.key:
                    raise self.source.refusal(
                        one.start, f"the rows of materialized view {one.name} are facts, which have no key",
                        f"Say which columns identify them: CREATE MATERIALIZED VIEW {one.name} KEY (...) AS; the "
                        "newest row of each counts. Or group them, or CREATE STREAMING TABLE.",
                    )  # fmt: skip
                flow = flow.latest(*self._key_columns(one.key, relation, one))
            if keep is not None:
                flow = self._ending(one, flow, str(keep), reads)
            self._check_key(one, flow, relation)
            columns = tuple(Column(each.name, each.name, each.type) for each in relation.columns or ())
            return Relation(flow, columns or None, relation.one_row)

    def _ending(self, one: ViewStatement, flow: Table, keep: str, reads: Reads) -> Table:
        node = with_keep(flow.node, keep, reads.nodes)
        if node is flow.node:
            raise self.source.refusal(
                one.start, f"materialized view {one.name} has keep = '{keep}', and its query neither groups a stream "
                "by a key nor takes the newest rows of one",
                "Say it of the view that does; windows end by themselves, and groups of a table with its rows.",
            )  # fmt: skip
        return Table(node)

    def _keyed(self, one: ViewStatement, relation: Relation) -> Relation:
        """With a key that the view can have, if the query does not select that of its rows: what KEY says, of which one
        row counts; or the columns of a rank."""
        columns, flow = {each.name: each.flat for each in relation.columns or ()}, relation.flow
        if not isinstance(flow, Table) or not columns:
            return relation
        own = key_of(flow.node)
        missing = [name for name in own if name not in columns.values()]
        if one.key and missing and set(one.key) <= set(columns):
            key = tuple(columns[name] for name in one.key)
            order = [f"{name_text(name)} desc" for name in own if name not in key]
            place = fresh("rank", {name.lower() for name in (*own, *columns.values())})
            flow = flow.rank(by=key, order=order, into=place, limit=1)
        elif missing and relation.unique and not one.key:
            key = relation.unique
        else:
            return relation
        others = [flat for flat in columns.values() if flat not in key]
        aggregates = [as_column(f"max({name_text(flat)})", flat) for flat in others]  # of one row
        counted = as_column("count(*)", fresh("rows_in_group", {name.lower() for name in columns.values()}))
        return replace(relation, flow=Grouped(flow.node, key).agg(*(aggregates or [counted])), unique=())

    def _key_columns(self, key: Sequence[str], relation: Relation, one: Statement) -> list[str]:
        names = [each.name for each in relation.columns or ()]
        for name in key:
            if relation.columns is not None and name not in names:
                raise self.source.refusal(one.start, f"the key of {one.name} is {name}", nearest(name, names))
        return list(key)

    def _check_key(self, one: ViewStatement, flow: Flow, relation: Relation) -> None:
        own = key_of(flow.node)
        names = [each.name for each in relation.columns or ()]
        if relation.columns is not None and (missing := [name for name in own if name not in names]):
            raise self.source.refusal(
                one.start, f"the rows of materialized view {one.name} are identified by {', '.join(own)}, and it does "
                f"not select {missing[0]}",
                self._way_to_key(missing[0], one),
            )  # fmt: skip
        if one.key and set(one.key) != set(own):
            raise self.source.refusal(
                one.start, f"the key of materialized view {one.name} is {', '.join(one.key)}, and its query has a row "
                f"for each {', '.join(own)}", f"Say KEY ({', '.join(own)}), or leave it out.",
            )  # fmt: skip

    def _way_to_key(self, missing: str, one: ViewStatement) -> str:
        words = {each.text.upper() for each in one.query.tokens}
        if missing == GROUPING_ID:
            return f"Add {GROUPING_ID}() AS {GROUPING_ID} to its SELECT: it says which set of groups a row is of."
        if "ALL" in words:
            return (
                "After ALL rows may be alike: leave ALL out, say KEY (...), or group by what it selects and count(*)."
            )
        if words & {"FULL", "RIGHT"}:
            return "Of what an outer join compares, select coalesce(a.id, b.id); and the keys of both sides."
        return f"Add {missing} to its SELECT, group by what it selects, or say KEY (...): one row of each counts."

    def _shown(self, relation: Relation, query: QueryText) -> Flow:
        """A flow with just the columns that the query selects, under their names, in their order."""
        if relation.columns is None:
            return relation.flow
        if unnamed := [number for number, each in enumerate(relation.columns, 1) if not each.said]:
            raise self.source.refusal(
                query.start, f"column {unnamed[0]} of the query has no name", "Write what it computes AS name."
            )
        names = [each.name.lower() for each in relation.columns]
        if twice := [each.name for place, each in enumerate(relation.columns) if each.name.lower() in names[:place]]:
            raise self.source.refusal(
                query.start, f"two columns of the query are called {twice[0]}", "Give one another name with AS."
            )
        known = relation_of(relation.flow.node).columns
        if known is not None and [each.flat for each in known] == [each.name for each in relation.columns]:
            return relation.flow
        own = key_of(relation.flow.node) if relation.flow.node.keyed else ()
        flats = {each.flat for each in relation.columns}
        if any(name not in flats for name in own):
            return relation.flow  # a caller that needs a key says what is missing
        chosen = [as_column(name_text(each.flat), each.name) for each in relation.columns]
        return relation.flow.select(*chosen)

    # -- what is written -----------------------------------------------------------------------------------------------

    def streaming(self, one: StreamingTable) -> Provide:
        options, _ = self._options(one.options, ("partitions",), f"streaming table {one.name}")
        self._free(one)
        queries = self.script.flows.setdefault(one.name.lower(), [])
        if one.query is not None:
            parse_query(one.query.tokens, self.source)
            queries.append(lambda query=one.query: self._facts(query, one))  # type: ignore[misc]
        kept = once(lambda: self._united(queries, one))

        def body() -> Stream:
            made = kept().flow
            assert isinstance(made, Stream)
            return made

        body.__doc__ = one.doc or None
        emit = (one.query.emit or None, one.query.corrections or None) if one.query is not None else (None, None)
        self.app.topic(one.name, emit=emit[0], corrections=emit[1], **options)(body)
        return self._keep(one.name, kept)

    def flow(self, one: FlowStatement) -> Provide:
        flows = self.script.flows
        if one.target.lower() not in flows:
            hint = nearest(one.target, list(flows)) if flows else "Write CREATE STREAMING TABLE first."
            raise self.source.refusal(one.start, f"there is no streaming table {one.target}", hint)
        parse_query(one.query.tokens, self.source)
        flows[one.target.lower()].append(lambda: self._facts(one.query, one))
        return self.script.relations[one.target.lower()]

    def _facts(self, query: QueryText, one: Statement) -> Stream:
        relation = self.query(query)
        flow = self._shown(relation, query)
        if isinstance(flow, Table):
            raise self.source.refusal(
                one.start, f"the query of {one.name} makes a table, whose rows change",
                "CREATE MATERIALIZED VIEW keeps one; CREATE SINK ... TO TOPIC has its changes.",
            )  # fmt: skip
        return flow

    def _united(self, queries: Sequence[Callable[[], Stream]], one: Statement) -> Relation:
        if not queries:
            raise self.source.refusal(
                one.start, f"streaming table {one.name} has no flow", f"Write CREATE FLOW ... INSERT INTO {one.name}."
            )
        with self._at(one.start):
            first, *others = [query() for query in queries]
            return relation_of((first.union(*others) if others else first).node)

    def sink(self, one: SinkStatement) -> Provide:
        parse_query(one.query.tokens, self.source)

        def made() -> Relation:
            relation = self.query(one.query, one.key)
            with self._at(one.start):
                return relation_of(self._shown(relation, one.query).node)

        kept = once(made)

        def body() -> Flow:
            return kept().flow

        query = one.query
        if one.kind == "topic":
            options, _ = self._options(one.options, ("partitions",), f"sink {one.name}")
            self.app.topic(
                one.target or one.name, key=one.key, emit=query.emit or None, corrections=query.corrections or None,
                **options,
            )(body)  # fmt: skip
            return kept
        if query.emit:
            raise self.source.refusal(one.start, f"sink {one.name} says EMIT", "Say it of a view that the sink reads.")
        self.app.sink(self._sink(one), key=one.key, name=one.name)(body)
        return kept

    def _sink(self, one: SinkStatement) -> sinks.SinkDeclaration:
        kinds: dict[str, tuple[Callable[..., sinks.SinkDeclaration], tuple[str, ...], tuple[str, ...]]] = {
            "parquet": (sinks.Parquet, ("path",), ()),
            "database": (sinks.Database, ("url", "table"), ()),
            "console": (sinks.Console, (), ("rows_max",)),
            "redis": (sinks.Redis, ("url",), ("prefix", "expire")),
            "webhook": (sinks.Webhook, ("url",), ("secret", "allow_private", "rows_max", "timeout_seconds")),
        }
        make, wanted, known = kinds[one.kind]
        options, _ = self._options(one.options, known, f"sink {one.name}")
        given = {"path": one.target, "url": one.target, "table": one.table}
        if missing := [name for name in wanted if not given[name]]:
            said = {"path": "the folder", "url": "the URL", "table": "TABLE and its name"}[missing[0]]
            raise self.source.refusal(
                one.start, f"sink {one.name} does not say where it writes to", f"Add {said} after {one.kind.upper()}."
            )
        if one.kind == "redis":
            options.setdefault("prefix", one.name)
        return make(**{name: given[name] for name in wanted}, **options)

    def alert(self, one: AlertStatement) -> Provide:
        options, _ = self._options(one.options, ALERT_OPTIONS, f"alert {one.name}")
        said = {"for_" if name == "for" else name: value for name, value in options.items()}
        self.app.alert(
            one.name, on=one.view, when=one.condition, notify=[self._target(each) for each in one.notified], **said
        )
        return self.script.named()[one.view.lower()]

    def _target(self, one: Notified) -> Any:
        known = {
            "webhook": ("secret", "allow_private", "timeout_seconds", "retry_hours"),
            "email": ("sender", "host", "port", "username", "password", "security", "timeout_seconds", "retry_hours"),
            "topic": (),
        }
        options, _ = self._options(one.options, known[one.kind], one.kind.upper())
        if one.kind == "email" and (missing := [name for name in ("sender", "host") if name not in options]):
            raise self.source.refusal(one.start, f"EMAIL has no {missing[0]}", f"Add WITH ({missing[0]} = '...').")
        with self._at(one.start):
            return getattr(headwater.notify, one.kind)(one.target, **options)

    # -- words ---------------------------------------------------------------------------------------------------------

    def _options(
        self, given: Options, known: Sequence[str], what: str, *, formats: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Options, and those of a format; InvalidDeclaration for one that there is not."""
        options: dict[str, Any] = {}
        own: dict[str, str] = {}
        for name, one in given.items():
            if formats and name.startswith(FORMAT):
                own[name.removeprefix(FORMAT)] = str(one.value)
            elif name in known:
                options[name] = self._none(one.value, name)
            else:
                hint = nearest(name, known) if known else "It has no options."
                raise self.source.refusal(one.start, f"{what} has no option {name}", hint)
        return options, own

    def _none(self, value: Value, name: str) -> Value | None:
        """`'none'` stands for no limit."""
        return None if name in ("idle", "ahead", "behind") and value == "none" else value

    def _free(self, one: Statement) -> None:
        if one.name.lower() in self.script.named():
            raise self.source.refusal(one.start, f"{one.name} is declared already", "Give one another name.")

    def _keep(self, name: str, provide: Provide) -> Provide:
        self.script.relations[name.lower()] = provide
        return provide


DECLARED: Mapping[type[Statement], Callable[[_Declaring, Any], Provide]] = {
    AppStatement: _Declaring.app_,
    StreamStatement: _Declaring.stream,
    TableStatement: _Declaring.table,
    ViewStatement: _Declaring.view,
    NamedQuery: _Declaring.named_query,
    StreamingTable: _Declaring.streaming,
    FlowStatement: _Declaring.flow,
    SinkStatement: _Declaring.sink,
    AlertStatement: _Declaring.alert,
    SelectStatement: _Declaring.select,
}


def app_of(source: SourceText, name: str) -> "App":
    """The app of a file: named by CREATE APP at its head, or else as it is given here."""
    from headwater.flow.declare.app import App

    statements = parse_script(source)
    options: dict[str, Any] = {}
    if statements and isinstance(statements[0], AppStatement):
        head = statements.pop(0)
        assert isinstance(head, AppStatement)
        name = head.name
        for option, one in head.options.items():
            if option not in APP_OPTIONS:
                raise source.refusal(one.start, f"app {name} has no option {option}", nearest(option, APP_OPTIONS))
            options[option] = one.value
    with declared_at(source.place_at(0)):
        app = App(name, **options)
    if wrong := [one for one in statements if isinstance(one, SelectStatement)]:
        raise source.refusal(
            wrong[0].start, "a query stands alone, and nothing keeps its rows",
            "Write CREATE MATERIALIZED VIEW name AS before it.",
        )  # fmt: skip
    app.script.run(source, statements)
    return app


def run_sql(app: "App", text: str, place: Place) -> Flow:
    """What the last statement of a text in Python stands for."""
    source = SourceText(text, place, in_python=True)
    return app.script.run(source, parse_script(source))().flow

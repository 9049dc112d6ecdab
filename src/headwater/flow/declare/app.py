"""An app: everything one user file declares."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.alerting import AlertDeclaration, Target, checked_targets, found_view
from headwater.flow.declare.capturing import CaptureDeclaration
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.clocks import Clock, check_column, check_new, check_time, clock_of
from headwater.flow.declare.duration import duration_us
from headwater.flow.declare.retries import BACKOFF, BACKOFF_MAX, declared_retries
from headwater.flow.declare.sinks import Search, SinkDeclaration
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.nodes import Expression, Source, SourceStream, SourceTable
from headwater.flow.declare.topology.registered import Registered
from headwater.flow.declare.windows import Emission, emission_of
from headwater.flow.formats.decoding import MODULES
from headwater.flow.formats.schema import Schema, nearest, parse_ddl
from headwater.flow.registry.describing import KINDS as REGISTERED_FORMATS
from headwater.flow.source.times.clock_rules import DeviceTime
from headwater.secret_urls import without_secrets

if TYPE_CHECKING:
    from headwater.flow.sql.declaring import Script

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
VIEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")

RAW_SCHEMA = "value binary"

Body = Callable[[], Stream | Table]
AnyBody = TypeVar("AnyBody", bound=Body)
AnySource = TypeVar("AnySource", SourceStream, SourceTable)

VIEW, TOPIC, SINK = "view", "topic", "sink"

FAIL, ACCOUNT = "fail", "account"
"""What a job does where records are deleted before it has read them."""


@dataclass(frozen=True, eq=False)
class Output:
    """A view, an output topic or a sink: its body says what it holds."""

    kind: str
    name: str
    key: tuple[str, ...]
    body: Body
    place: Place
    store: str = ""
    sink: SinkDeclaration | None = None
    partitions: int = 1
    doc: str = ""
    emission: Emission | None = None
    """For a result of windows that says nothing itself."""
    of: str = ""
    """The view whose rows these are: those that meet the `condition` of an alert, or all of them."""
    condition: Expression | None = None

    def __str__(self) -> str:
        return f"{self.kind if self.condition is None else 'alert'} {self.name} ({self.place})"


class App:
    """Streams, tables, views and outputs under one name.

    app = hw.App("shop")
    orders = app.stream("orders", "id string, amount decimal(12,2), at timestamp", time="at")

    @app.view(key="id")
    def latest_orders():
        return orders.latest("id")
    """

    def __init__(
        self,
        name: str,
        *,
        store: str = "",
        shards: int = 0,
        retries: int | None = None,
        backoff: str = BACKOFF,
        backoff_max: str = BACKOFF_MAX,
        notify: Sequence[Target] = (),
        on_loss: str = FAIL,
        one_job: bool = False,
    ) -> None:
        """`store`: where views are kept unless they say otherwise (default: SQLite beside the log; or a postgresql://
        URL). `shards`: parts that state is cut into, so many tasks at once; 0: by the machine at the first run.

        A job that fails is started again after `backoff`, then after twice that, up to `backoff_max`, and so `retries`
        times until a batch succeeds; None: without end, or twice where everything is to be done once. `notify` names
        who learns of jobs that fail and recover: hw.notify.webhook(...), hw.notify.email(...), hw.notify.topic(...).

        `on_loss` says what a job does where records were removed by retention, or damaged, before it has read them:
        "fail" stops it, "account" continues without them and counts them as lost in its accounts.

        `one_job`: one job keeps all outputs, so that its views in one store are always those of one moment. Otherwise
        outputs share a job if they read the same topics, and each job goes at its own speed.
        """
        _check_name("an app", name)
        if on_loss not in (FAIL, ACCOUNT):
            raise InvalidDeclaration(
                f'on_loss of app {name} is "{on_loss}"',
                f'Say on_loss="{FAIL}", or "{ACCOUNT}" to continue without them.',
            )
        self.name, self.store, self.shards, self.on_loss, self.one_job = name, store, shards, on_loss, one_job
        self.place = calling_place()
        self.retries = declared_retries(retries, backoff, backoff_max)
        self.notify = checked_targets(name, "for failed jobs", notify, self.place) if notify else ()
        self.sources: dict[str, Source] = {}
        self.outputs: dict[str, Output] = {}
        self.captures: dict[str, CaptureDeclaration] = {}
        """By topic: what is captured for it."""
        self.alerts: dict[str, AlertDeclaration] = {}
        self._script: Script | None = None

    # -- inputs --------------------------------------------------------------------------------------------------------

    def stream(
        self,
        topic: str,
        schema: str = "",
        *,
        time: str | DeviceTime | None = None,
        lateness: str = "0s",
        format: str = "",
        name: str = "",
        options: Mapping[str, str] | None = None,
        producer: str | None = None,
        idle: str | None = "30 seconds",
        ahead: str | None = "1 day",
        behind: str | None = None,
        registry: str | None = None,
    ) -> Stream:
        """Facts from a topic. `schema` is Spark DDL; without it, a stream of format avro, json or protobuf has the
        columns of the schema that is registered for the topic, at the URL `registry` or with the node; a stream
        without either is raw. `time` names the column with the event time, or is
        device_time(...); without it a row happened at the timestamp of its record.

        Every partition is waited for, and in it every producer if a column `producer` names them, unless nothing has
        come from there for `idle`. Rows that claim to have happened more than `ahead` after the timestamp of their
        record, or more than `behind` before it, are poisoned. None: without a limit.
        """
        if format == "debezium":
            raise InvalidDeclaration(
                f"{topic} ({calling_place()}) is in Debezium's envelope, which describes rows of a table",
                f'Declare it with app.table("{topic}", ..., key=..., format="debezium").',
            )
        chosen = format or ("raw" if schema in ("", RAW_SCHEMA) and registry is None else "json")

        def clock_with(known: Schema | None) -> Clock:
            return clock_of(topic, known, time, producer=producer, ahead=ahead, behind=behind)

        contents = self._contents(topic, schema, chosen, registry, lambda known: clock_with(known).schema)
        clock = clock_with(contents if isinstance(contents, Schema) else None)
        name = name or topic
        node = SourceStream(
            calling_place(), name, topic, clock.schema if isinstance(contents, Schema) else contents, chosen,
            clock.time, duration_us(lateness), dict(options or {}),
            None if idle is None else duration_us(idle), clock.rules,
        )  # fmt: skip
        return Stream(self._known(node))

    def table(
        self,
        topic: str,
        schema: str = "",
        *,
        key: str | tuple[str, ...] | list[str],
        versions: str = "0s",
        valid_from: str | None = None,
        valid_to: str | None = None,
        version_id: str = "",
        idle: str | None = "1 second",
        format: str = "",
        name: str = "",
        options: Mapping[str, str] | None = None,
        registry: str | None = None,
        capture: CaptureDeclaration | None = None,
    ) -> Table:
        """The latest row per key of a changelog topic; a record without a value deletes its key. Without a schema, the
        one that is registered for the topic. With `capture`, such as hw.capture.postgres(...), the topic has the rows
        of a table in a database, and follows its changes.

        For joins as of a time its `versions` are kept for so long. Each holds from the timestamp of its record on, or
        from what column `valid_from` says, until the next one, or until what `valid_to` says. Events wait for the table
        to be read up to their time, but no longer than `idle` for a partition in which nothing happens; with
        `valid_from` they do not wait, and meet every version that was in the log before them. `version_id` names one
        more column: the record that a version is from, such as rates/0@17.
        """
        if valid_from is not None and idle != "1 second":
            raise InvalidDeclaration(
                f"table {topic} ({calling_place()}) holds by column {valid_from}, and so is not waited for",
                "Leave idle= out; give the stream that is joined with it more lateness if versions are written late.",
            )
        names = _tuple(key)
        format = format or ("json" if capture is None else "debezium")

        def with_key(known: Schema) -> Schema:
            for column in names:
                check_column(known, column, f"the key of table {topic}")
            for moment in (valid_from, valid_to):
                check_time(topic, known, moment)
            check_new(topic, known, version_id)
            return known

        contents = self._contents(topic, schema, format, registry, with_key)
        if isinstance(contents, Schema):
            with_key(contents)
        waited_us = None if idle is None else duration_us(idle)
        node = SourceTable(
            calling_place(), name or topic, topic, contents, format, names, duration_us(versions), dict(options or {}),
            valid_from, valid_to, waited_us, version_id,
        )  # fmt: skip
        if capture is not None and self.captures.setdefault(topic, capture) != capture:
            raise InvalidDeclaration(
                f"topic {topic} is captured from two places, the second at {calling_place()}",
                "A captured topic has one writer: give one of them another topic.",
            )
        return Table(self._known(node))

    def sql(self, text: str) -> Stream | Table:
        """SQL over what the app reads and keeps, by its names: `app.sql("select id, amount from orders")` is a stream
        or a table. Statements that begin with CREATE declare the same as in a file; the result is what the last
        one declares.
        """
        from headwater.flow.sql.declaring import run_sql  # it declares what is in this module

        return run_sql(self, text, calling_place())

    @property
    def script(self) -> "Script":
        """What SQL has declared."""
        from headwater.flow.sql.declaring import Script

        if self._script is None:
            self._script = Script(self)
        return self._script

    # -- outputs -------------------------------------------------------------------------------------------------------

    def view(
        self,
        *,
        key: str | tuple[str, ...] | list[str],
        store: str = "",
        name: str = "",
        emit: str | None = None,
        corrections: str | None = None,
        search: str | Sequence[str] = (),
    ) -> Callable[[AnyBody], AnyBody]:
        """A table that people and programs can query, kept up to date. Of windows: `emit` as in `agg`. `search` names
        columns whose words can be searched for."""
        place, emission = calling_place(), _emission(emit, corrections)

        def declare(body: AnyBody) -> AnyBody:
            view = name or body.__name__
            _check_view_name(view, "a view", place)
            self._add_output(
                Output(
                    VIEW,
                    view,
                    _tuple(key),
                    body,
                    place,
                    store=store or self.store,
                    doc=_first_line(body),
                    emission=emission,
                )
            )
            if search:
                kept = store or self.store
                words = Search(view, _tuple(search if isinstance(search, str) else list(search)), kept)
                found = Output(SINK, f"{view}.search", _tuple(key), body, place, sink=words, of=view)
                self._add_output(found)
            return body

        return declare

    def topic(
        self,
        topic: str,
        *,
        key: str | tuple[str, ...] | list[str] = (),
        partitions: int = 1,
        emit: str | None = None,
        corrections: str | None = None,
    ) -> Callable[[AnyBody], AnyBody]:
        """An output topic: rows of a stream as JSON, or the changes of a table in Debezium's envelope."""
        place, emission = calling_place(), _emission(emit, corrections)

        _check_name("a topic", topic)
        if partitions < 1:
            raise InvalidDeclaration(f"topic {topic} ({place}) cannot have {partitions} partitions", "One is enough.")

        def declare(body: AnyBody) -> AnyBody:
            self._add_output(
                Output(
                    TOPIC,
                    topic,
                    _tuple(key),
                    body,
                    place,
                    partitions=partitions,
                    doc=_first_line(body),
                    emission=emission,
                )
            )
            return body

        return declare

    def sink(
        self, sink: SinkDeclaration, *, key: str | tuple[str, ...] | list[str] = (), name: str = ""
    ) -> Callable[[AnyBody], AnyBody]:
        """An output to files, a database, the console or a function of one's own."""
        place = calling_place()

        def declare(body: AnyBody) -> AnyBody:
            _check_name("a sink", name or body.__name__)
            self._add_output(
                Output(SINK, name or body.__name__, _tuple(key), body, place, sink=sink, doc=_first_line(body))
            )
            return body

        return declare

    def alert(
        self,
        name: str,
        *,
        on: Callable[..., object] | str,
        when: Expression,
        notify: Sequence[Target],
        for_: str = "0s",
        every: str | None = None,
        about: str = "",
    ) -> None:
        """Notify of rows of a view: of each key for which `when` has been true for as long as `for_`, again
        after `every` while it is, and when it no longer is.

        `on` is the view: its function, or its name. `when` is SQL text, or a function that gives a PySpark column,
        which cannot be made before Spark runs: `lambda: f.col("celsius") > 8`. `notify`: hw.notify.webhook(...),
        hw.notify.email(...), hw.notify.topic(...). The rows that meet the condition are a view themselves, under the
        alert's name. Of windows the newest of each key counts.
        """
        place = calling_place()
        view = found_view(self.outputs.values(), on, name, place)
        targets = checked_targets(self.name, name, notify, place)
        _check_view_name(name, "an alert", place)
        declared = AlertDeclaration(
            name, view.name, duration_us(for_), None if every is None else duration_us(every), targets,
            about or view.doc, place, view.store,
        )  # fmt: skip
        self._add_output(
            Output(VIEW, name, view.key, view.body, place, store=view.store, doc=about, of=view.name, condition=when)
        )
        self.alerts[name] = declared

    def keep_views_in(self, store: str) -> None:
        """Views that name no store of their own go to this one, whatever the app says of them all."""
        own = [one for one in self.outputs.values() if one.kind == VIEW and one.store == self.store]
        self.outputs |= {one.name: replace(one, store=store) for one in own}
        for name, one in self.outputs.items():
            if isinstance(one.sink, Search) and one.sink.store == self.store:
                self.outputs[name] = replace(one, sink=replace(one.sink, store=store))
        alerts = [one for one in self.alerts.values() if one.store == self.store]
        self.alerts |= {one.name: replace(one, store=store) for one in alerts}
        self.store = store

    # -- checks --------------------------------------------------------------------------------------------------------

    def _known(self, node: AnySource) -> AnySource:
        """The node, or the one that was declared before in the same words."""
        other = self.sources.get(node.name)
        if other is not None and type(other) is type(node) and _words(other) == _words(node):
            return other
        self._add_source(node)
        return node

    def _add_source(self, node: Source) -> None:
        _check_name("a topic", node.topic)
        _check_name("a stream or table", node.name)
        if node.format not in MODULES:
            raise InvalidDeclaration(
                f"{node.name} ({node.place}) is of format {node.format}, which there is not",
                nearest(node.format, MODULES),
            )
        if other := self.sources.get(node.name):
            raise InvalidDeclaration(
                f"{node.name} is declared at {other.place} and again at {node.place}", "Give one another name=."
            )
        self.sources[node.name] = node

    def _add_output(self, output: Output) -> None:
        if other := next((one for one in self.outputs.values() if _same_name(one, output)), None):
            what = "written" if output.kind == TOPIC == other.kind else "declared"
            raise InvalidDeclaration(
                f"{output.kind} {output.name} is {what} at {other.place} and again at {output.place}",
                "One output has one writer: give one another name, or union the two streams.",
            )
        self.outputs[output.name] = output

    def _contents(
        self, topic: str, schema: str, format: str, registry: str | None, finish: Callable[[Schema], Schema]
    ) -> Schema | Registered:
        """The columns, if they are said here; or where they are to be asked for."""
        asked = registry is not None or (not schema and format in REGISTERED_FORMATS)
        if not asked:
            return self._schema(schema or RAW_SCHEMA, topic)
        if format not in REGISTERED_FORMATS:
            raise InvalidDeclaration(
                f"{topic} ({calling_place()}) is of format {format}, for which a registry has no schemas",
                f"Formats with registered schemas are {', '.join(REGISTERED_FORMATS)}.",
            )
        if registry and not registry.startswith(("http://", "https://")):
            raise InvalidDeclaration(
                f"the registry of {topic} ({calling_place()}) is {without_secrets(registry)!r}, which is no URL",
                "It begins with http:// or https://; leave it out for the registry of the node.",
            )
        return Registered(registry or "", self._schema(schema, topic) if schema else None, finish)

    def _schema(self, text: str, topic: str) -> Schema:
        try:
            return parse_ddl(text)
        except InvalidDeclaration as error:
            raise InvalidDeclaration(f"the schema of {topic} ({calling_place()}): {error}") from None


def _check_name(what: str, name: str) -> None:
    """Names become folders and topics."""
    if not NAME.fullmatch(name):
        raise InvalidDeclaration(
            f"{name!r} ({calling_place()}) cannot name {what}",
            "Use up to 200 letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
        )


def _check_view_name(name: str, what: str, place: Place) -> None:
    if not VIEW_NAME.fullmatch(name):
        raise InvalidDeclaration(
            f"{name!r} ({place}) cannot name {what}", "Use up to 60 letters, digits and underscores."
        )


def _words(node: Source) -> dict[str, object]:
    return {one.name: getattr(node, one.name) for one in fields(node) if one.name != "place"}


def _same_name(one: Output, other: Output) -> bool:
    """Databases that hold views do not distinguish capital letters from small ones."""
    views = one.kind == other.kind == VIEW
    return one.name == other.name or (views and one.name.lower() == other.name.lower())


def _tuple(key: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _emission(emit: str | None, corrections: str | None) -> Emission | None:
    return emission_of(emit, corrections) if emit or corrections else None


def _first_line(body: Body) -> str:
    return (body.__doc__ or "").strip().partition("\n")[0]

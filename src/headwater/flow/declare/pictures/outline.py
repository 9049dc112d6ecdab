"""A planned app in plain words: what is read, done, kept and written, for people and for pictures (pure)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwater.flow.declare.app import TOPIC, VIEW, App, Output
from headwater.flow.declare.comparisons import in_words as compared_in_words
from headwater.flow.declare.duration import spelled
from headwater.flow.declare.pictures.growth import growth_of
from headwater.flow.declare.sinks import Console, Database, Foreach, Parquet
from headwater.flow.declare.topology import nodes
from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.naming import accounts_topic, group_of, late_topic, poisoned_topic
from headwater.flow.declare.topology.nodes import Expression, Node, SourceStream, SourceTable, walk
from headwater.flow.declare.topology.registered import Registered
from headwater.flow.declare.topology.stored_queries import AsOfPercolate, Percolate
from headwater.flow.operators.patterns.spec import PatternSpec
from headwater.secret_urls import without_secrets

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"


@dataclass(frozen=True)
class SourceOutline:
    id: str
    kind: str
    name: str
    topic: str
    format: str
    columns: str
    place: str
    time: str = ""
    lateness: str = ""
    key: tuple[str, ...] = ()
    state: str = ""
    """A table keeps the latest row for each key, under this name."""


@dataclass(frozen=True)
class StepOutline:
    id: str
    does: str
    words: str
    """The user's own, where there are any."""
    place: str
    inputs: tuple[str, ...]
    key: tuple[str, ...] = ()
    state: str = ""
    """What it keeps from batch to batch is found under this name; empty: nothing."""
    grows: str = ""
    """What it keeps a row for that is never removed; empty: its state ends."""
    estimate: str = ""
    """How large that is by now, as far as it was asked and can be said."""


@dataclass(frozen=True)
class OutputOutline:
    id: str
    kind: str
    name: str
    key: tuple[str, ...]
    where: str
    promise: str
    doc: str
    place: str
    made_from: str
    columns: str = ""
    """Known only where Spark was asked."""
    verdict: str = ""
    """What a run would do: keep, migrate, rebuild or new; empty if there is nothing, or it was not asked."""
    why: str = ""


@dataclass(frozen=True)
class JobOutline:
    name: str
    group: str
    sources: tuple[SourceOutline, ...]
    steps: tuple[StepOutline, ...]
    """Inputs first."""
    outputs: tuple[OutputOutline, ...]
    poisoned: str
    late: str
    """Empty where nothing can be late."""
    accounts: str
    runs: tuple[str, ...] = ()
    """Whether tasks evaluate its rows or Spark does, and which operators are shuffled; known only where Spark was
    asked."""


@dataclass(frozen=True)
class Outline:
    app: str
    place: str
    jobs: tuple[JobOutline, ...]
    removed: tuple[str, ...] = ()
    """A sentence for each output that is no longer declared, and still there."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def with_estimates(plan: Outline, estimates: Mapping[tuple[str, str], str]) -> Outline:
    """`estimates` are by the names of job and operator."""
    jobs = tuple(
        replace(
            job,
            steps=tuple(replace(one, estimate=estimates.get((job.name, one.state), "")) for one in job.steps),
        )
        for job in plan.jobs
    )
    return replace(plan, jobs=jobs)


@dataclass(frozen=True)
class OutputPreview:
    """What others know of an output: its columns from Spark, a verdict from its checkpoint."""

    key: tuple[str, ...] = ()
    columns: str = ""
    verdict: str = ""
    why: str = ""


def outline(
    app: App, jobs: list[Job], previews: Mapping[str, OutputPreview] | None = None,
    runs: Mapping[str, tuple[str, ...]] | None = None,
) -> Outline:  # fmt: skip
    """`previews` are by the name of the output, `runs` by that of the job."""
    described = (_job(app.name, number, job, previews or {}) for number, job in enumerate(jobs))
    known = runs or {}
    return Outline(app.name, str(app.place), tuple(replace(one, runs=known.get(one.name, ())) for one in described))


def _job(app: str, number: int, job: Job, previews: Mapping[str, OutputPreview]) -> JobOutline:
    everything = list(dict.fromkeys(node for planned in job.outputs for node in walk(planned.node)))
    ids = {node: f"j{number}n{place}" for place, node in enumerate(everything)}
    sources = tuple(_source(node, ids[node], job.operators.get(node, "")) for node in job.sources)
    steps = tuple(_step(node, ids, job.operators) for node in everything if node not in job.sources)
    outputs = tuple(
        _output(one.output, f"j{number}o{place}", one.node, ids[one.node], previews.get(one.name, OutputPreview()))
        for place, one in enumerate(job.outputs)
    )
    late = late_topic(app, job.name) if any(isinstance(node, nodes.TIMED) for node in everything) else ""
    own = (poisoned_topic(app, job.name), late, accounts_topic(app))
    return JobOutline(job.name, group_of(app, job.name), sources, steps, outputs, *own)


def _source(node: nodes.Source, id: str, state: str) -> SourceOutline:
    about = (node.name, node.topic, node.format, _columns(node), str(node.place))
    if isinstance(node, SourceTable):
        return SourceOutline(id, "table", *about, key=node.key, state=state)
    if isinstance(node, nodes.SourceVersions):
        return SourceOutline(id, "versions of table", *about, key=node.key)
    lateness = spelled(node.lateness_us) if node.time and node.lateness_us else ""
    return SourceOutline(id, "stream", *about, time=node.time or "", lateness=lateness)


def _columns(node: nodes.Source) -> str:
    contents = node.contents
    if isinstance(contents, Registered) and contents.found is None:
        return "columns of the schema that is registered for it, which is not known yet"
    return node.schema.ddl


def _step(node: Node, ids: Mapping[Node, str], operators: Mapping[Node, str]) -> StepOutline:
    does, words = what_it_does(node)
    inputs = tuple(ids[one] for one in node.inputs)
    key = tuple(name for name, _ in node.on) if isinstance(node, nodes.Join) else getattr(node, "key", ())
    state = operators.get(node, "")
    return StepOutline(
        ids[node], does, words, str(node.place), inputs, key, state, growth_of(node) if state else ""
    )  # fmt: skip


def what_it_does(node: Node) -> tuple[str, str]:
    """A verb, and the user's words for the rest."""
    match node:
        case nodes.Select(columns=columns):
            return "select", ", ".join(map(text_of, columns))
        case nodes.Where(condition=condition):
            return "where", text_of(condition)
        case nodes.WithColumns(columns=columns):
            return "with columns", ", ".join(f"{name} = {text_of(one)}" for name, one in columns.items())
        case nodes.Explode(column=column, into=into, outer=outer):
            return "explode", f"{column} into {into}{', keeping rows without elements' if outer else ''}"
        case nodes.Apply(name=name):
            return "apply", name
        case nodes.Sql(text=text):
            return "sql", " ".join(text.split())
        case nodes.Dedupe(key=key, within_us=within):
            return "dedupe", f"by {', '.join(key)} within {spelled(within)}"
        case nodes.Aggregate(key=key, aggregates=()):
            return "distinct", ", ".join(key)
        case nodes.Aggregate(key=key, aggregates=aggregates):
            whose = f"by {', '.join(key)}" if key else "all rows"
            return "aggregate", f"{whose}: {', '.join(map(text_of, aggregates))}"
        case nodes.Windowed(window=window, by=by, aggregates=aggregates) if window.expires:
            return "aggregate", f"by {', '.join(by)}: {', '.join(map(text_of, aggregates))}; {window.in_words}"
        case nodes.Windowed(window=window, by=by, aggregates=aggregates, emission=emission, processing=processing):
            whose = f"by {', '.join(by)}, " if by else ""
            cut = f"{window.in_words}{' of processing time' if processing else ''}"
            return "window", f"{whose}{cut}: {', '.join(map(text_of, aggregates))}; emits {emission}"
        case nodes.Compared(comparisons=comparisons):
            return "compare", ", ".join(f"{name} = {compared_in_words(one)}" for name, one in comparisons.items())
        case nodes.Recognized(spec=spec):
            return "match", matched_words(spec)
        case nodes.KMeans(columns=columns, k=k, half_life_us=half_life):
            fades = f", half of it forgotten after {spelled(half_life)}" if half_life is not None else ""
            return "k-means", f"{k} clusters of {', '.join(columns)}{fades}"
        case Percolate(search=search) | AsOfPercolate(search=search):
            when = " as of the time of the document" if isinstance(node, AsOfPercolate) else ""
            return "percolate", f"{', '.join(one for one, _ in search.text)} by the queries in {search.query}{when}"
        case nodes.Join():
            return f"{node.how} join", joined_words(node)
        case nodes.Newest(key=key, order=order, limit=limit):
            return "newest", f"{limit} by {', '.join(key)}, of the highest {order}"
        case nodes.TableOperator():
            return node.in_words
        case nodes.History(by=by, valid_from=valid_from, valid_to=valid_to):
            return "history", f"by {', '.join(by)}, from {valid_from} to {valid_to}"
        case nodes.Latest(key=key):
            return "latest", f"by {', '.join(key)}"
        case SourceStream(topic=topic) | SourceTable(topic=topic):
            return "read", topic
    return type(node).__name__.lower(), ""


def joined_words(node: nodes.Join) -> str:
    """Both sides of each comparison, and what is said about time."""
    equal = [one if one == other else f"{one} == {other}" for one, other in node.on]
    on = f"on {', '.join([*equal, *(' '.join(each) for each in node.further)])}"
    match node:
        case nodes.IntervalJoin(low_us=low, high_us=high, horizon_us=horizon):
            return f"{on}, from {_signed(low)} to {_signed(high)} behind{_corrected(horizon)}"
        case nodes.AsOfJoin(horizon_us=horizon):
            kept = spelled(node.versions.versions_us)
            return f"{on}, as of the time of the left, versions of {kept}{_corrected(horizon)}"
        case nodes.LatestJoin(wait_us=wait):
            return f"{on}, as it is{f', waiting up to {spelled(wait)}' if wait else ''}"
    return on


def matched_words(spec: PatternSpec) -> str:
    """The pattern, how far it reaches, and how each condition is computed."""
    looking = [f"{name} looks back" for name, one in spec.conditions.items() if not one.of_one_row]
    columns = [name for name, one in spec.conditions.items() if one.of_one_row]
    computed = [f"{', '.join(columns)} in whole columns"] * bool(columns) + looking
    reach = [f"within {spelled(spec.within_us)}"] if spec.within_us is not None else []
    reach += [f"{spec.rows_max} rows at most"] if spec.rows_max is not None else []
    said = f"by {', '.join(spec.by)}: {spec.text}{''.join(f', {one}' for one in reach)}"
    return f"{said}; {'; '.join(computed) or 'every row counts'}{_corrected(spec.horizon_us)}"


def _signed(us: int) -> str:
    return f"-{spelled(-us)}" if us < 0 else spelled(us)


def _corrected(horizon_us: int) -> str:
    return f", corrections for {spelled(horizon_us)}" if horizon_us else ""


def text_of(expression: Expression) -> str:
    """SQL text as it was written; a PySpark column as Spark prints it, without the wrapping.

    >>> text_of("amount  > 10")
    'amount > 10'
    """
    text = " ".join(str(expression).split())
    return text.removeprefix("Column<'").removesuffix("'>") if text.startswith("Column<'") else text


def _output(output: Output, id: str, node: Node, made_from: str, preview: OutputPreview) -> OutputOutline:
    once = EXACTLY_ONCE if not isinstance(output.sink, Console | Foreach) else AT_LEAST_ONCE
    key = preview.key or output.key
    return OutputOutline(
        id, output.kind, output.name, key, _where(output, node), once, output.doc, str(output.place), made_from,
        preview.columns, preview.verdict, preview.why,
    )  # fmt: skip


def _where(output: Output, node: Node) -> str:
    if output.kind == VIEW:
        return without_secrets(output.store) if output.store else "the data directory"
    if output.kind == TOPIC:
        parts = "1 partition" if output.partitions == 1 else f"{output.partitions} partitions"
        return f"{parts}, {'changes, compacted' if node.keyed else 'rows'}"
    match output.sink:
        case Parquet(path):
            return f"Parquet files in {without_secrets(path)}"
        case Database(url, table):
            return f"table {table} at {without_secrets(url)}"
        case Foreach(function):
            return f"function {getattr(function, '__name__', 'of the user')}"
    return "standard output"

"""The whole app, checked: which outputs there are, what they are made of, and which job keeps each of them."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType

from headwater.errors import HeadwaterError, InvalidDeclaration
from headwater.flow.declare.app import NAME, SINK, TOPIC, VIEW, App, Output
from headwater.flow.declare.checks import sql_text
from headwater.flow.declare.checks.columns import check as check_columns
from headwater.flow.declare.checks.loading import needs_session
from headwater.flow.declare.checks.mistakes import Mistakes
from headwater.flow.declare.checks.raised import add_place
from headwater.flow.declare.sinks import Database, Redis
from headwater.flow.declare.stream import Flowing
from headwater.flow.declare.topology.naming import accounts_topic, alert_topics, late_topic, poisoned_topic
from headwater.flow.declare.topology.nodes import (
    STATEFUL,
    Compared,
    Node,
    OneInput,
    Source,
    Sql,
    Where,
    Windowed,
    key_of,
    sources_of,
    walk,
    windowed_of,
)
from headwater.flow.declare.topology.targets import refuse_same_targets
from headwater.flow.declare.windows import WORD, Emission

JOB_NAME_MAX = 80


@dataclass(frozen=True, eq=False)
class Planned:
    """An output and what its body returned."""

    output: Output
    node: Node

    @property
    def name(self) -> str:
        return self.output.name


@dataclass(frozen=True, eq=False)
class Job:
    """The outputs that are made from the same topics, by one query."""

    name: str
    sources: tuple[Source, ...]
    outputs: tuple[Planned, ...]
    operators: Mapping[Node, str]
    """Names of everything in it that has state."""

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(source.topic for source in self.sources))


Explain = Callable[[Exception], str]


def plan(app: App, explain: Explain = str) -> list[Job]:
    """Run every body once and put the outputs into jobs. `explain` makes a sentence of what a body may raise.
    InvalidDeclaration has the mistakes of all outputs, or is the first that only a session can decide on.

    Outputs share a job if they read exactly the same topics: so a new view never changes what job an old one is in. Of
    an app with `one_job` all share one.
    """
    mistakes = Mistakes()

    def note(error: InvalidDeclaration) -> bool:
        if not needs_session(error):
            mistakes.add(error)
        return not needs_session(error)

    planned = _all_planned(app, explain, passed_over=note)
    for one in planned:
        with mistakes.gathered():
            check_columns(one.output, one.node)
    mistakes.refuse()
    if not planned:
        raise InvalidDeclaration(
            f"app {app.name} ({app.place}) has nothing to keep up to date",
            "Declare a view, a topic or a sink with a decorator of it.",
        )
    _refuse_cycles(planned)
    refuse_same_targets(app.name, (one.output for one in planned))
    jobs = [_job(topics, members) for topics, members in _grouped(planned, one_job=app.one_job).items()]
    _refuse_own_topics(app, jobs)
    return jobs


def _grouped(planned: list[Planned], *, one_job: bool) -> dict[tuple[str, ...], list[Planned]]:
    """Outputs by the topics of their job."""
    groups: dict[tuple[str, ...], list[Planned]] = {}
    for one in planned:
        among = planned if one_job else [one]
        topics = tuple(sorted({source.topic for other in among for source in sources_of(other.node)}))
        groups.setdefault(topics, []).append(one)
    return groups


def check(app: App, explain: Explain = str) -> None:
    """InvalidDeclaration for what can be seen to be wrong without Spark, with all mistakes that there are.

    Outputs whose functions make PySpark columns are passed over: only a session can make these.
    """
    mistakes = Mistakes()

    def note(error: InvalidDeclaration) -> bool:
        if not needs_session(error):
            mistakes.add(error)
        return True

    for one in _all_planned(app, explain, passed_over=note):
        try:
            check_columns(one.output, one.node)
        except InvalidDeclaration as error:
            note(error)
    mistakes.refuse()


def _all_planned(
    app: App, explain: Explain, passed_over: Callable[[InvalidDeclaration], bool] = lambda error: False
) -> list[Planned]:
    """What is made of a view is made of what it has, and not of the same thing once more."""
    planned: dict[str, Planned] = {}
    for name, output in app.outputs.items():
        if output.of and output.of not in planned:
            continue  # its view, which is declared before it, was passed over
        try:
            if output.of:
                view = planned[output.of]
                planned[name] = Planned(replace(output, key=view.output.key), _narrowed(output, view.node, explain))
            else:
                planned[name] = _planned(output, _run_body(output, explain))
        except InvalidDeclaration as error:
            if not passed_over(error):
                raise
    return list(planned.values())


def _narrowed(output: Output, node: Node, explain: Explain) -> Node:
    condition = output.condition
    if condition is None:
        return node
    try:
        return Where(output.place, node, condition() if isinstance(condition, FunctionType) else condition)
    except Exception as error:
        raise InvalidDeclaration(f"{output}: {explain(error)}") from error


def _run_body(output: Output, explain: Explain) -> Node:
    try:
        result = output.body()
    except InvalidDeclaration as error:
        add_place(error)
        raise
    except HeadwaterError:
        raise
    except Exception as error:
        raise InvalidDeclaration(f"{output}: {explain(error)}") from error
    if not isinstance(result, Flowing):
        raise InvalidDeclaration(
            f"{output} returns {type(result).__name__}", "Its body must return a stream or a table of the app."
        )
    node = result.node
    # A table has one row for each key, and the rows of a stream come in any order: which one stayed would be chance.
    if not node.keyed and (output.kind == VIEW or (output.key and isinstance(output.sink, Database | Redis))):
        raise _without_key(output, node)
    return node


def _without_key(output: Output, node: Node) -> InvalidDeclaration:
    """SQL that was meant to be grouped is the cause more often than not, and it has not been parsed yet."""
    for one in (one for one in walk(node) if isinstance(one, Sql)):
        if wrong := sql_text.misread(one.text):
            return InvalidDeclaration(f"{output}: sql at {one.place} cannot be read: {wrong}", "Look at it there.")
        read = sql_text.query(one.text)
        if read is not None and read.aggregates:
            return InvalidDeclaration(
                f"{output}: sql at {one.place} aggregates all rows into one, and the view has a row for each "
                f"{', '.join(output.key)}",
                f"Add GROUP BY {', '.join(output.key)}.",
            )
    return InvalidDeclaration(
        f"{output} returns a stream, which has no key",
        f"Say which row counts: .latest({', '.join(map(repr, output.key))}), or aggregate with .by(...).agg(...).",
    )


def _planned(output: Output, node: Node) -> Planned:
    """With what the output says of its windows: when they are emitted, and which of their columns are its key."""
    if output.emission is not None:
        node = _emitting(node, output.emission, output)
    window = windowed_of(node)
    if window is not None and WORD in output.key and WORD not in window.key:
        key = [name for one in output.key for name in (window.window.key if one == WORD else (one,))]
        output = replace(output, key=tuple(key))
    if output.kind == VIEW and not output.key and node.keyed:
        output = replace(output, key=key_of(node))
    return Planned(output, node)


def _emitting(node: Node, emission: Emission, output: Output) -> Node:
    """The same steps after windows that are emitted when the output says."""
    if isinstance(node, Windowed) and not node.emission.said:
        return replace(node, emission=emission)
    if isinstance(node, Compared) or (isinstance(node, OneInput) and not isinstance(node, STATEFUL)):
        return replace(node, input=_emitting(node.input, emission, output))
    windows = isinstance(node, Windowed) and not node.window.expires
    what = "says itself when its windows are emitted" if windows else "is not a result of windows"
    raise InvalidDeclaration(f"{output} has emit=, and what it returns {what}", "Leave it out here.")


def _refuse_cycles(planned: list[Planned]) -> None:
    reads = {one.name: {s.topic for s in sources_of(one.node)} for one in planned if one.output.kind == TOPIC}
    places = {one.name: one.output for one in planned}

    def visit(topic: str, path: list[str]) -> None:
        if topic in path:
            circle = " → ".join([*path[path.index(topic) :], topic])
            raise InvalidDeclaration(f"{places[topic]} is made from itself: {circle}", "Write to another topic.")
        for source in sorted(reads.get(topic, ())):
            if source in reads:
                visit(source, [*path, topic])

    for topic in reads:
        visit(topic, [])


def _job(topics: tuple[str, ...], members: list[Planned]) -> Job:
    sources: list[Source] = []
    for one in members:
        sources += [source for source in sources_of(one.node) if source not in sources]
    # The order of sources is part of the checkpoint's meaning; it must not follow the order of views in a file.
    sources.sort(key=lambda source: (source.topic, source.name))
    return Job(job_name(topics), tuple(sources), tuple(members), _operator_names(members))


def _refuse_own_topics(app: App, jobs: list[Job]) -> None:
    """What a job says about itself, and a node about alerts, must not mix with what an output says."""
    name = app.name
    own = {accounts_topic(name), *(topic(name, job.name) for job in jobs for topic in (late_topic, poisoned_topic))}
    own |= set(alert_topics(name)) if app.alerts else set()
    for one in (one for job in jobs for one in job.outputs if one.output.kind == TOPIC and one.name in own):
        raise InvalidDeclaration(
            f"{one.output} is the topic in which the app's jobs report themselves, or its alerts are reported",
            "Give it another name.",
        )


def job_name(topics: tuple[str, ...]) -> str:
    """
    >>> job_name(("clicks", "searches"))
    'clicks+searches'
    """
    name = "+".join(topics)
    if len(name) <= JOB_NAME_MAX:
        return name
    return f"{name[: JOB_NAME_MAX - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _operator_names(members: list[Planned]) -> dict[Node, str]:
    """Named by the user, else after the first output that needs them: stable while that output is."""
    names: dict[Node, str] = {}
    for one in members:
        stateful = [node for node in walk(one.node) if isinstance(node, STATEFUL)]
        for number, node in enumerate(reversed(stateful)):
            if node not in names:
                names[node] = getattr(node, "name", "") or (one.name if number == 0 else f"{one.name}.{number}")
                if not NAME.fullmatch(names[node]):
                    raise InvalidDeclaration(
                        f"{names[node]!r} ({node.place}) cannot name an operator",
                        "Use letters, digits, dots, dashes and underscores.",
                    )
    taken: dict[str, Node] = {}
    for operator, name in names.items():
        if name in taken:
            raise InvalidDeclaration(
                f"two operators are named {name}: at {taken[name].place} and at {operator.place}",
                "Give one another name=.",
            )
        taken[name] = operator
    return names


__all__ = ["SINK", "TOPIC", "VIEW", "Job", "Planned", "plan"]

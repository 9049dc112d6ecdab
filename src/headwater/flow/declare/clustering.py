"""Models that learn from a stream, window by window."""

from collections.abc import Sequence

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.duration import duration_us
from headwater.flow.declare.topology.nodes import KMeans, Lesson, Node
from headwater.flow.declare.windows import emission_of
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.clustering.learning import CLUSTER, POINTS, UNTIL, WEIGHT
from headwater.flow.operators.windows.window import Window


def kmeans_of(
    node: Node, window: Window, by: tuple[str, ...], columns: Sequence[str], k: int, half_life: str | None, name: str,
    processing: bool,
) -> KMeans:  # fmt: skip
    """InvalidDeclaration, with its place, for what cannot be learned."""
    place = calling_place()
    given: tuple[object, ...] = (columns,) if isinstance(columns, str) else tuple(columns)
    wanted: object = k
    if not window.disjoint:
        raise InvalidDeclaration(
            f"kmeans() at {place} is of windows that overlap or depend on their rows",
            "It learns from each row once: use tumbling or calendar windows.",
        )
    reserved = (*by, CLUSTER, WEIGHT, UNTIL)
    named = tuple(one for one in given if isinstance(one, str) and one not in reserved)
    if not given or named != given:
        raise InvalidDeclaration(
            f"kmeans() at {place} is of columns {given!r}",
            f"Name columns of numbers that are not called {', '.join(reserved)}.",
        )
    if not isinstance(wanted, int) or wanted < 1:
        raise InvalidDeclaration(f"kmeans() at {place} is to find {k!r} clusters", "Take 1 or more.")
    half_life_us = None if half_life is None else duration_us(half_life)
    if half_life_us is not None and half_life_us <= 0:
        raise InvalidDeclaration(f"the half-life of kmeans() at {place} is {half_life}", "Take more than nothing.")
    below = f"{name}-windows" if name else ""
    lesson = Lesson(place, node, window, by, (points_sql(named),), emission_of("final"), below, processing)
    return KMeans(place, lesson, named, k, half_life_us, name)


def points_sql(columns: Sequence[str]) -> str:
    """The points of a window, in the order of time. A row that lacks a number, or has none that is finite, is none."""
    numbers = [f"cast({quoted(one)} as double)" for one in columns]
    fields = ", ".join(f"{number} as {quoted(one)}" for number, one in zip(numbers, columns, strict=True))
    finite = " and ".join(f"abs({number}) < double('Infinity')" for number in numbers)
    return f"collect_list(case when {finite} then struct({fields}) end) as {POINTS}"

"""Reads the user's row-wise steps from the plan that Spark's analyser made of them.

Whatever the user wrote (select, where, SQL text, a function of frames), what Spark makes of it is a plan of
projections, filters and generators over the source's columns; this file reads that plan. A plan with any other node, or
with an expression that has no translation, is Untranslatable.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.flow.expressions.spark.expressions import Reader
from headwater.flow.expressions.spark.types import sequence
from headwater.flow.expressions.steps import Explode, Filter, Project, Step, Steps
from headwater.flow.expressions.tree import COLUMN, Expression, Untranslatable, column
from headwater.flow.local.frames import local_frame

Java = Any
TRANSPARENT = frozenset({"SubqueryAlias", "View", "CollectMetrics", "ResolvedHint"})
"""Nodes that change no row."""


def steps_of(frame: DataFrame, source: DataFrame) -> Steps:
    """The steps that lead from the rows of `source` to those of `frame`, which was made from it."""
    own, base = local_frame(frame), local_frame(source)
    if own is not None and base is not None:
        return own.steps_from(base)
    start = _analysed(source)
    leaf = {_number(one): str(one.name()) for one in sequence(start.output())}
    reader = _PlanReader({number: _internal(number, name) for number, name in leaf.items()})
    plan = _analysed(frame)
    steps = reader.read(plan, start)
    outputs = tuple((str(one.name()), reader.columns[_number(one)]) for one in sequence(plan.output()))
    return Steps({name: _internal(number, name) for number, name in leaf.items()}, tuple(steps), outputs)


def _analysed(frame: DataFrame) -> Java:
    return frame._jdf.queryExecution().analyzed()


def _number(attribute: Java) -> int:
    return int(attribute.exprId().id())


def _internal(number: int, name: str) -> str:
    """Two columns of one frame may have the same name."""
    return f"{name}#{number}"


class _PlanReader:
    def __init__(self, columns: dict[int, str]) -> None:
        self.columns = columns

    def read(self, plan: Java, leaf: Java) -> list[Step]:
        if plan.equals(leaf):
            return []
        kind = str(plan.nodeName())
        children = sequence(plan.children())
        if len(children) != 1:
            raise Untranslatable(f"{kind}")
        steps = self.read(children[0], leaf)
        if kind in TRANSPARENT:
            return steps
        if kind == "Filter":
            return [*steps, Filter(self._expression(plan.condition()))]
        if kind == "Project":
            return [*steps, self._project(sequence(plan.projectList()))]
        if kind == "Generate":
            return [*steps, *self._generate(plan)]
        raise Untranslatable(kind)

    def _expression(self, expression: Java) -> Expression:
        return Reader(self.columns).read(expression)

    def _project(self, named: Sequence[Java]) -> Project:
        made = [(one, self._expression(one)) for one in named]
        columns = []
        for one, expression in made:
            own = _internal(_number(one), str(one.name()))
            columns.append((own, expression))
        for one, _ in made:
            self.columns = {**self.columns, _number(one): _internal(_number(one), str(one.name()))}
        return Project(tuple(columns))

    def _generate(self, plan: Java) -> list[Step]:
        generator = plan.generator()
        kind = str(generator.getClass().getSimpleName())
        if kind not in ("Explode", "PosExplode"):
            raise Untranslatable(str(generator.prettyName()))
        expression = self._expression(generator.child())
        *position, into = sequence(plan.generatorOutput())
        own = _internal(_number(into), str(into.name()))
        steps: list[Step] = []
        if expression.kind != COLUMN:
            before = f"{own}.array"
            kept = [(name, column(name, pa.null())) for name in self.columns.values()]  # handed on as they are
            steps.append(Project((*kept, (before, expression))))
        else:
            before = expression.option("name")
        place = [(_number(one), _internal(_number(one), str(one.name()))) for one in position]
        self.columns = {**self.columns, **dict(place), _number(into): own}
        return [*steps, Explode(before, own, bool(plan.outer()), place[0][1] if place else "")]

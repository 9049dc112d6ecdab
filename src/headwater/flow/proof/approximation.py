"""What of a plain query is computed from approximate results: there a difference says nothing about the view."""

import json
from typing import Any

from pyspark.sql import DataFrame

from headwater.errors import FlowError
from headwater.flow.proof.tolerances import RULE
from headwater.flow.rows.row_steps import visible

CHOOSING = ("Filter", "Join")


def refuse_derived(frame: DataFrame, view: str) -> None:
    """FlowError if a column, or which rows there are, is computed from what is only known within bounds."""
    tracing = _Tracing()
    plan = frame._jdf.queryExecution().analyzed()
    tracing.visit(plan)
    output = _all(plan.output())
    derived = [one.name() for one in output if one.exprId().id() in tracing.derived and one.name() in visible(frame)]
    if tracing.chosen or derived:
        what = f"its column {derived[0]} is" if derived else "which rows it has is"
        raise FlowError(
            f"view {view} cannot be proved: {what} computed from a percentile or other estimate",
            "Keep the estimate itself in a view, and compute where you read it.",
        )


class _Tracing:
    """Columns of a plan by their numbers: estimates, and what is made of them."""

    def __init__(self) -> None:
        self.estimates: set[int] = set()
        self.derived: set[int] = set()
        self.chosen = False

    def visit(self, plan: Any) -> None:
        for child in _all(plan.children()):
            self.visit(child)
        for expression in _all(plan.expressions()):
            self._trace(expression, chooses=plan.nodeName() in CHOOSING)

    def _trace(self, expression: Any, *, chooses: bool) -> None:
        named = expression.getClass().getSimpleName() == "Alias"
        rule = json.loads(expression.metadata().json()).get(RULE) if named else None
        if rule is not None:
            # Rounding is small enough that what is made of it is as good as the same.
            self.estimates |= {expression.exprId().id()} if rule != "near" else set()
            return
        if not self.estimates and not self.derived:
            return  # what is referred to does not matter, and the JVM is asked for each column of it
        used = {one.exprId().id() for one in _all(expression.references().toSeq())}
        if not used & (self.estimates | self.derived):
            return
        if named:
            self.derived.add(expression.exprId().id())
        self.chosen |= chooses


def _all(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]

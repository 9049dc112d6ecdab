"""percentile, median, percentile_cont and percentile_disc as they are written: of what, and of which ranks (pure)."""

from typing import NamedTuple

from sqlglot import exp

from headwater.flow.sql.reading.source_text import SourceText, start_of

IN_GROUP = ("percentile_cont", "percentile_disc")


class ExactText(NamedTuple):
    said: str
    column: exp.Expr
    ranks: tuple[float, ...]
    several: bool = False
    discrete: bool = False


def exact_of(node: exp.Expr, source: SourceText) -> ExactText | None:
    """None for any other function; InvalidDeclaration for what of them cannot be read."""
    order = None
    if isinstance(node, exp.WithinGroup):
        order, node = node.expression, node.this
    if not isinstance(node, exp.Anonymous):
        return None
    said, inputs = str(node.this).lower(), list(node.expressions)
    if said in IN_GROUP:
        return _in_group(said, inputs, order, source, node)
    if order is not None or said not in ("percentile", "median"):
        return None
    if len(inputs) != (1 if said == "median" else 2):
        raise source.refusal(
            start_of(node), f"{said}(...) has {len(inputs)} inputs",
            "Write percentile(x, 0.5), percentile(x, array(0.1, 0.9)) or median(x).",
        )  # fmt: skip
    if said == "median":
        return ExactText(said, inputs[0], (0.5,))
    ranks, several = _ranks(said, inputs[1], source)
    return ExactText(said, inputs[0], ranks, several)


def _in_group(
    said: str, inputs: list[exp.Expr], order: exp.Expr | None, source: SourceText, node: exp.Expr
) -> ExactText:
    by = [] if order is None else list(order.expressions)
    if len(by) != 1 or len(inputs) != 1:
        raise source.refusal(
            start_of(node), f"{said}(...) does not say what it is of", f"Write {said}(0.5) WITHIN GROUP (ORDER BY x)."
        )
    ranks, several = _ranks(said, inputs[0], source)
    discrete = said == "percentile_disc"
    (one,) = by
    if isinstance(one, exp.Ordered) and one.args.get("desc"):
        if discrete:
            raise source.refusal(
                start_of(node), f"{said}(...) is of a descending order", "Leave DESC out, and take 1 less the rank."
            )
        ranks = tuple(1 - rank for rank in ranks)
    return ExactText(said, one.this if isinstance(one, exp.Ordered) else one, ranks, several, discrete)


def _ranks(said: str, node: exp.Expr, source: SourceText) -> tuple[tuple[float, ...], bool]:
    several = isinstance(node, exp.Anonymous) and str(node.this).lower() == "array"
    given = node.expressions if several else [node]
    texts = [str(one.this) for one in given if isinstance(one, exp.Literal) and not one.is_string]
    if len(texts) != len(given) or not texts or not all(0 <= float(one) <= 1 for one in texts):
        raise source.refusal(
            start_of(node), f"the rank of {said}(...) is no number from 0 to 1", "Write 0.5, or array(0.1, 0.9)."
        )
    return tuple(map(float, texts)), several

"""How aggregates are kept over tables, by the name that their kind has for it (`over_tables`)."""

from collections.abc import Mapping

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.grouping.held import Held
from headwater.flow.operators.grouping.recomputed import Recomputed
from headwater.flow.operators.grouping.valued import Distinct, Extremes, Outermost
from headwater.flow.operators.grouping.weighed import Counts, Sums, Variances

HELD: Mapping[str, Held] = {
    "counts": Counts(),
    "sums": Sums(),
    "variances": Variances(),
    "extremes": Extremes(),
    "outermost": Outermost(),
    "distinct": Distinct(),
    "recomputed": Recomputed(),
}


def held_of(spec: Aggregate) -> Held:
    return HELD[spec.rules.over_tables]

"""Kinds of aggregates by name."""

from collections.abc import Mapping

from headwater.flow.operators.kinds.kind import Kind
from headwater.flow.operators.kinds.moments import MOMENTS
from headwater.flow.operators.kinds.pairs import PAIRS
from headwater.flow.operators.kinds.plain import PLAIN
from headwater.flow.operators.kinds.sketched import SKETCHED
from headwater.flow.operators.kinds.users import USERS

FAMILIES: Mapping[str, Kind] = {**PLAIN, **MOMENTS, **PAIRS, **SKETCHED, **USERS}

"""Ways of the code that only many rows go: a round may lower the bounds before them, so that few rows do.

Only the process that is killed knows of it. Rounds of one job lower different ones, so that it is killed in one way and
comes up in another, with the batch that was under way. Another way is one more entry of LOWERED.
"""

import importlib
from collections.abc import Iterable, Mapping

SMALL_BLOCKS = "rows prepared a few at a time"
SPLIT = "keys split"
STAGED = "rows staged by tasks"
IN_FILES = "blocks in files"
GATHERED = "prepared rows gathered"
"""The driver operates on what tasks prepared; it is a setting of the session (driver.py), not a bound."""

LOWERED: Mapping[str, Mapping[str, int]] = {
    SMALL_BLOCKS: {"headwater.flow.rows.prepared_blocks:BUFFER_ROWS": 2},
    SPLIT: {"headwater.flow.operators.joins.splitting:HOT_ROWS": 2},
    STAGED: {"headwater.flow.commit.stage_task:FEW_ROWS": 0},
    IN_FILES: {"headwater.flow.exchange.blocks:FILE_BYTES": 0},
    GATHERED: {},
}
"""By the name of a way: constants of modules, and what they are in a round that goes it."""


def lower(names: Iterable[str]) -> None:
    for place, value in (bound for name in names for bound in LOWERED[name].items()):
        module, constant = place.split(":")
        owner = importlib.import_module(module)
        assert isinstance(getattr(owner, constant), int), f"{place} is no bound"
        setattr(owner, constant, value)

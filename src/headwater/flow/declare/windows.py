"""When results of windows are emitted, as users say it. The kinds of windows are in operators/windows/kinds/."""

from dataclasses import dataclass

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.duration import positive_us, spelled
from headwater.flow.formats.schema import nearest
from headwater.flow.operators.windows import clock
from headwater.flow.operators.windows.clock import CORRECTIONS, EMISSIONS, UPDATES

EVENT, PROCESSING = TIMES = ("event", "processing")
WORD = "window"
"""In a list of key columns this stands for all columns that name a window of a key."""


@dataclass(frozen=True)
class Emission:
    """When results are emitted: at every batch, once, or once and then as late rows correct them."""

    kind: str = UPDATES
    horizon_us: int = 0
    """How long after its end a window is corrected."""
    early: bool = False
    said: bool = False
    """By the user, where windows are aggregated; if not, an output may say it."""

    def __str__(self) -> str:
        corrected = f"final, then corrections for {spelled(self.horizon_us)}"
        kinds = {UPDATES: "updates", clock.FINAL: "final", CORRECTIONS: corrected}
        return f"{kinds[self.kind]}{', early results before' if self.early else ''}"


def emission_of(emit: str | None, corrections: str | None = None, early: bool = False) -> Emission:
    """What the user said; `updates` for one who says nothing."""
    kind = emit or (CORRECTIONS if corrections else UPDATES)
    if kind not in EMISSIONS:
        raise InvalidDeclaration(f"emit={emit!r} ({calling_place()}) is unknown", nearest(kind, EMISSIONS))
    if kind == CORRECTIONS and not corrections:
        raise InvalidDeclaration(
            f"emit='corrections' ({calling_place()}) does not say for how long", 'Add corrections="1 day".'
        )
    if kind != CORRECTIONS and corrections:
        raise InvalidDeclaration(
            f"emit={kind!r} ({calling_place()}) makes no corrections", "Use emit='corrections', or leave them out."
        )
    if early and kind == UPDATES:
        raise InvalidDeclaration(
            f"early=True ({calling_place()}) is for results that wait for the end of their window",
            "With emit='updates' every batch emits them.",
        )
    horizon_us = positive_us(corrections, "the time of corrections") if corrections else 0
    return Emission(kind, horizon_us, early, said=bool(emit or corrections or early))

"""The windows a user can name, and when their results are told. Plain values; nothing here reads a clock.

hw.tumbling("5 minutes")                    one after another
hw.hopping("1 hour", every="5 minutes")     overlapping
hw.calendar("day", zone="Europe/Berlin")    as long as a day is there, be it 23 hours
hw.sliding("5 minutes")                     at each row: all rows within the time up to it
hw.session("30 minutes")                    rows that follow each other within the gap
hw.count_window(100)                        every hundred rows of a key
"""

from dataclasses import dataclass
from zoneinfo import available_timezones

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.duration import duration_us, spelled
from headwater.flow.formats.schema import nearest
from headwater.flow.operators.windows import clock
from headwater.flow.operators.windows.clock import CORRECTIONS, EMISSIONS, UPDATES
from headwater.flow.operators.windows.shapes import (
    UNITS,
    Calendar,
    Count,
    Hopping,
    Session,
    Sliding,
    Tumbling,
    Window,
)

START, END, AT, NUMBER, FINAL = "window_start", "window_end", "at", "window", "final"
EVENT, PROCESSING = TIMES = ("event", "processing")
DAY_US = 86_400_000_000
WORD = "window"
"""In a list of key columns this stands for all that tell one window of a key from another."""


def columns_of(window: Window) -> tuple[str, ...]:
    """The columns of the result that, beside the user's own, are its key."""
    if isinstance(window, Sliding):
        return (START,) if window.on_change else (AT,)
    return (NUMBER,) if isinstance(window, Count) else (START, END)


def reserved_by(window: Window) -> tuple[str, ...]:
    """All columns of the result that are made for the window."""
    return (*columns_of(window), START, END) if isinstance(window, Count) else columns_of(window)


def in_words(window: Window) -> str:
    """
    >>> in_words(Tumbling(300_000_000, 60_000_000))
    'tumbling 5 minutes from 1 minute'
    """
    match window:
        case Tumbling(size_us, offset_us):
            return f"tumbling {spelled(size_us)}{_beginning(offset_us)}"
        case Hopping(size_us, every_us, offset_us):
            return f"hopping {spelled(size_us)} every {spelled(every_us)}{_beginning(offset_us)}"
        case Calendar(unit, zone, offset_us):
            return f"calendar {unit} in {zone}{_beginning(offset_us)}"
        case Sliding(size_us, on_change):
            return f"sliding {spelled(size_us)}{', at every change' if on_change else ''}"
        case Session(gap_us):
            return f"session with gaps of {spelled(gap_us)}"
        case Count(rows):
            return f"every {rows} rows"


def tumbling(size: str, *, offset: str = "0s") -> Window:
    """Windows of one size, one after another. They begin at multiples of the size since 1970 in UTC, plus `offset`."""
    size_us = _positive(size, "the size of a tumbling window")
    return Tumbling(size_us, duration_us(offset) % size_us)


def hopping(size: str, every: str, *, offset: str = "0s") -> Window:
    """Windows of one size, of which another begins with every step, so that a row lies in several."""
    size_us, every_us = _positive(size, "the size of a hopping window"), _positive(every, "the step of hopping windows")
    if every_us > size_us:
        raise InvalidDeclaration(
            f"hopping windows of {size} every {every} ({calling_place()}) leave out the rows between them",
            f'Take a step of at most the size, or tumbling("{every}").',
        )
    return Hopping(size_us, every_us, duration_us(offset) % every_us)


def calendar(unit: str, *, zone: str, offset: str = "0s") -> Window:
    """Days, weeks (from Monday), months, quarters or years as people in a time zone live them.

    `offset` is by the clock on the wall: `hw.calendar("day", zone="Europe/Berlin", offset="6 hours")` has days from six
    in the morning to six in the morning.
    """
    if unit not in UNITS:
        raise InvalidDeclaration(f"{unit!r} ({calling_place()}) is no part of a calendar", nearest(unit, UNITS))
    if zone not in available_timezones():
        near = nearest(zone, available_timezones())
        hint = near if near.startswith("Did") else 'Zones have names such as "Europe/Berlin" and "UTC".'
        raise InvalidDeclaration(f"{zone!r} ({calling_place()}) is no time zone", hint)
    offset_us = duration_us(offset)
    if offset_us >= DAY_US:
        raise InvalidDeclaration(f"the offset of a calendar window ({calling_place()}) is {offset}", "Less than a day.")
    return Calendar(unit, zone, offset_us)


def sliding(size: str, *, on_change: bool = False) -> Window:
    """At the time of each row, all rows within the size up to it; with `on_change` also when rows leave again."""
    return Sliding(_positive(size, "the size of a sliding window"), on_change)


def session(gap: str) -> Window:
    """Rows of a key that follow each other with at most the gap between them."""
    return Session(_positive(gap, "the gap of a session"))


def count_window(rows: int) -> Window:
    """So many rows of a key, in the order of their time; they are told once nothing can come between them."""
    given: object = rows
    if not isinstance(given, int) or isinstance(given, bool) or rows < 1:
        raise InvalidDeclaration(f"a window of {rows!r} rows ({calling_place()}) holds nothing", "Take 1 or more.")
    return Count(rows)


def _positive(text: str, what: str) -> int:
    found = duration_us(text)
    if found <= 0:
        raise InvalidDeclaration(f"{what} ({calling_place()}) is {text}", "Take more than nothing.")
    return found


def _beginning(offset_us: int) -> str:
    return f" from {spelled(offset_us)}" if offset_us else ""


# -- emission ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Emission:
    """When results are told: at every batch, once, or once and then as stragglers correct them."""

    kind: str = UPDATES
    horizon_us: int = 0
    """How long after its end a window is corrected."""
    early: bool = False
    said: bool = False
    """By the user, where windows are aggregated; if not, an output may say it."""

    def __str__(self) -> str:
        corrected = f"final, then corrections for {spelled(self.horizon_us)}"
        told = {UPDATES: "updates", clock.FINAL: "final", CORRECTIONS: corrected}
        return f"{told[self.kind]}{', early results before' if self.early else ''}"


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
            "With emit='updates' every batch tells them.",
        )
    horizon_us = _positive(corrections, "the time of corrections") if corrections else 0
    return Emission(kind, horizon_us, early, said=bool(emit or corrections or early))


def refuse_unfit(window: Window, emission: Emission, place: object) -> None:
    """InvalidDeclaration for an emission that windows of this kind cannot keep."""
    if isinstance(window, Count) and emission.kind == CORRECTIONS:
        raise InvalidDeclaration(
            f"windows by count ({place}) cannot be corrected: a straggler would move each row behind it to another one",
            "Use emit='final' and a longer lateness.",
        )

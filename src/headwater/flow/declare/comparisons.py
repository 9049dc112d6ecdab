"""What windows can be compared with: plain values for `compare(...)`.

hw.rate("n")                                   for each second of the window
hw.rolling("n", 5)                             the average of five windows, this one and those before it
hw.change("n"), hw.ratio("n")                  against the window before
hw.change("n", "1 day")                        against the same window a day ago
hw.anomaly("n", season="1 day", over=7)        far from the mean of the same window of seven days?
"""

from collections.abc import Mapping
from dataclasses import replace
from zoneinfo import available_timezones

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.duration import duration_us, spelled
from headwater.flow.operators.comparisons.kinds import Ago, Anomaly, Change, Comparison, Rate, Ratio, Rolling
from headwater.flow.operators.windows.aligned import AlignedWindow


def rate(column: str, *, per: str = "1 second") -> Comparison:
    """The value for each `per` of the window's own length, be it a day of 23 hours."""
    return Rate(column, _positive(duration_us(per), "the interval of a rate", per))


def rolling(column: str, windows: int) -> Comparison:
    """The average over so many windows, this one and those before it; windows without rows are not counted."""
    return Rolling(column, _positive(windows, "the number of windows of a rolling average", windows))


def change(column: str, ago: str | int = 1, *, zone: str = "") -> Comparison:
    """The value less that of an earlier window: so many windows ago, or "1 day"; null if that one is not there.

    With a zone, "1 day" ago is at the same time by the clock on the wall there, also when clocks were changed.
    """
    return Change(column, _ago(ago, zone))


def ratio(column: str, ago: str | int = 1, *, zone: str = "") -> Comparison:
    """The value over that of an earlier window; null if that one is not there, or is zero."""
    return Ratio(column, _ago(ago, zone))


def anomaly(
    column: str,
    *,
    season: str | int = "1 day",
    over: int = 7,
    deviations: float = 3,
    least: int | None = None,
    zone: str = "",
) -> Comparison:
    """Is the value further from the mean of the same window in the last `over` seasons than so many of their standard
    deviations? Null where fewer than `least` of them are there: half of them, unless you say otherwise, but two."""
    _positive(over, "the number of seasons", over)
    if over < 2:
        raise InvalidDeclaration(f"an anomaly over 1 season ({calling_place()}) has no deviation", "Take 2 or more.")
    if deviations <= 0:
        raise InvalidDeclaration(f"deviations={deviations} ({calling_place()}) would call everything odd", "Take 3.")
    wanted = max(2, (over + 1) // 2) if least is None else least
    if not 2 <= wanted <= over:
        raise InvalidDeclaration(f"least={least} ({calling_place()}) of {over} seasons", f"Take 2 to {over}.")
    return Anomaly(column, _ago(season, zone), over, float(deviations), wanted)


def fitted(comparisons: Mapping[str, Comparison], window: AlignedWindow, place: Place) -> dict[str, Comparison]:
    """The same for windows of a kind: every look back ends at one of them."""
    return {name: _fitted(one, window, place) for name, one in comparisons.items()}


def _fitted(comparison: Comparison, window: AlignedWindow, place: Place) -> Comparison:
    given: object = comparison
    match given:
        case Change() | Ratio():
            return replace(given, ago=_landed(given.ago, window, place))
        case Anomaly():
            return replace(given, season=_landed(given.season, window, place))
        case Rate() | Rolling():
            return given
    raise InvalidDeclaration(
        f"compare() at {place} is given {given!r}", 'Use for example hw.rolling("n", 5) or hw.change("n", "1 day").'
    )


def _landed(ago: Ago, window: AlignedWindow, place: Place) -> Ago:
    return window.landing(ago, place) if ago.time_us else ago


def _ago(ago: str | int, zone: str) -> Ago:
    if isinstance(ago, int):
        if zone:
            raise InvalidDeclaration(
                f"{ago} windows ago ({calling_place()}) is no time by a clock", 'With a zone say for example "1 day".'
            )
        return Ago(windows=_positive(ago, "the number of windows to look back", ago))
    time_us = _positive(duration_us(ago), "the time to look back", ago)
    if zone and zone not in available_timezones():
        raise InvalidDeclaration(f"{zone!r} ({calling_place()}) is no time zone", 'Names are such as "Europe/Berlin".')
    return Ago(time_us=time_us, zone=zone)


def _positive(value: int, what: str, said: object) -> int:
    given: object = value
    if isinstance(given, bool) or not isinstance(given, int) or value <= 0:
        raise InvalidDeclaration(f"{what} ({calling_place()}) is {said}", "Take more than nothing.")
    return value


def in_words(comparison: Comparison) -> str:
    """
    >>> in_words(Change("n", Ago(time_us=86_400_000_000, zone="Europe/Berlin")))
    'change of n against 1 day ago in Europe/Berlin'
    """
    match comparison:
        case Rate(column, per_us):
            return f"{column} per {spelled(per_us)}"
        case Rolling(column, windows):
            return f"average of {column} over {windows} windows"
        case Change(column, ago):
            return f"change of {column} against {_back(ago)}"
        case Ratio(column, ago):
            return f"ratio of {column} to {_back(ago)}"
        case Anomaly(column, season, over, deviations):
            return f"{column} {deviations:g} deviations off the mean of {over} times {_back(season)}"


def _back(ago: Ago) -> str:
    if ago.windows:
        return "the window before" if ago.windows == 1 else f"{ago.windows} windows ago"
    return f"{spelled(ago.time_us)} ago{f' in {ago.zone}' if ago.zone else ''}"

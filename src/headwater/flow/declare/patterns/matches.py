"""Patterns as users declare them: `payments.match(by="card", within="10 minutes", pattern="small{3,} large", ...)`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.columns import known_columns
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.duration import positive_us
from headwater.flow.declare.topology.nodes import (
    Changes,
    Node,
    Recognized,
    Select,
    SourceStream,
    sources_of,
    walk,
)
from headwater.flow.formats.schema import nearest, quoted
from headwater.flow.operators.patterns.language import Never, excludes, has, read_pattern, variables_of
from headwater.flow.operators.patterns.navigation import Looking, Slot, Variables, read_condition, read_measure
from headwater.flow.operators.patterns.search import PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT
from headwater.flow.operators.patterns.spec import MATCH_ID, ROW_ID, TIMED, PatternSpec, Skip

ONE_ROW, ALL_ROWS, OMIT_EMPTY, UNMATCHED = ROWS = ("one", "all", "all omit empty", "all with unmatched")
TRIES = 1_000_000
VARIABLES_MAX = 60
MEASURE = "measure_"
"""Columns that measures are computed from, where one is more than a value of a row or an aggregate."""


@dataclass(frozen=True)
class Words:
    """What the user said."""

    by: tuple[str, ...]
    pattern: str
    define: Mapping[str, str]
    measures: Mapping[str, str]
    order: str | None = None
    within: str | None = None
    rows_max: int | None = None
    tries: int = TRIES
    subset: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: str = ONE_ROW
    skip: str = "past last row"
    timeouts: bool = False
    corrections: str | None = None
    name: str = ""


def match_of(node: Node, words: Words) -> Node:
    """InvalidDeclaration, with its place, if it is not about rows in the order of time, or cannot be read."""
    place = calling_place()
    try:
        return _match(node, words, place)
    except InvalidDeclaration as error:
        if "match() at" in str(error):
            raise
        raise InvalidDeclaration(f"match() at {place}: {error}") from error


def _match(node: Node, words: Words, place: Place) -> Node:
    _check_order(node, words, place)
    pattern = read_pattern(words.pattern)
    names = variables_of(pattern)
    variables = _variables(names, words)
    conditions = {
        _own_name(name, names, "define"): read_condition(text, name, variables) for name, text in words.define.items()
    }
    measures = {name: read_measure(text, variables) for name, text in words.measures.items()}
    slots = _slots(measures)
    spec = PatternSpec(
        words.by, words.pattern, pattern, tuple(names), conditions, tuple(slots.items()),
        positive_us(words.within, "WITHIN of a pattern") if words.within else None, words.rows_max, words.tries,
        _skip(words.skip, variables), words.rows != ONE_ROW, words.rows not in (OMIT_EMPTY,), words.rows == UNMATCHED,
        words.timeouts, positive_us(words.corrections, "the time of corrections") if words.corrections else 0,
    )  # fmt: skip
    _check(spec, words, place)
    recognized = Recognized(place, node, spec, words.name)
    if all(one.only for one in measures.values()):
        return recognized
    return _computed(recognized, measures, slots)


def _check_order(node: Node, words: Words, place: Place) -> None:
    if node.keyed:
        raise InvalidDeclaration(f"match() at {place} is of a table", "Match the stream that the table is made from.")
    if timeless := [one for one in walk(node) if isinstance(one, Changes)]:
        raise InvalidDeclaration(
            f"match() at {place} comes after changes() at {timeless[0].place}, which have no event time",
            "Match the stream that the table is made from.",
        )
    refuse_unbounded(node, "match", place)
    times = sorted({str(one.time) for one in sources_of(node) if isinstance(one, SourceStream) and one.time})
    if words.order is not None and words.order not in times:
        known = ", ".join(times) or "none: say time= where it is declared"
        raise InvalidDeclaration(
            f"match() at {place} is in the order of {words.order}, which is not the time of the stream",
            f"That is: {known}. Rows of one time are in the order of the log.",
        )
    if not words.by:
        raise InvalidDeclaration(f"match() at {place} does not say of whose rows", 'Say by="card", or several columns.')


def refuse_unbounded(node: Node, step: str, place: Place) -> None:
    """Steps that go by time need to know how long after its time a match comes."""
    if unbounded := [one for one in walk(node) if isinstance(one, Recognized) and one.spec.within_us is None]:
        raise InvalidDeclaration(
            f"{step}() at {place} is of matches that may come at any time (match() at {unbounded[0].place})",
            "Say within= there.",
        )


def _variables(names: list[str], words: Words) -> Variables:
    if len(names) > VARIABLES_MAX:
        raise InvalidDeclaration(f"a pattern has more than {VARIABLES_MAX} variables")
    lower = [name.lower() for name in names]
    if len(set(lower)) < len(lower):
        raise InvalidDeclaration(f"pattern `{words.pattern}` has a variable in small and in capital letters")
    found: dict[str, tuple[int, ...]] = {name: (number,) for number, name in enumerate(lower)}
    for subset, members in words.subset.items():
        if subset.lower() in lower:
            raise InvalidDeclaration(f"subset {subset} is called like a variable of the pattern")
        numbers = tuple(names.index(_own_name(one, names, f"subset {subset}")) for one in members)
        if not numbers:
            raise InvalidDeclaration(f"subset {subset} has no variables")
        found[subset.lower()] = numbers
    return Variables(found)


def _own_name(name: str, names: list[str], what: str) -> str:
    """As the pattern spells it."""
    for one in names:
        if one.lower() == name.lower():
            return one
    raise InvalidDeclaration(f"{what} names {name}, which is not in the pattern", nearest(name, names))


def _slots(measures: Mapping[str, Looking]) -> dict[str, Slot]:
    """What the operator shows: measures that are one slot under their own names, others by parts."""
    found = {name: only for name, one in measures.items() if (only := one.only) is not None}
    for one in measures.values():
        for slot in [] if one.only else one.slots:
            if slot not in found.values():
                found[f"{MEASURE}{len(found)}"] = slot
    return found


def _computed(node: Recognized, measures: Mapping[str, Looking], slots: Mapping[str, Slot]) -> Node:
    rows: list[str] = []
    if node.spec.all_rows:
        known = known_columns(node.input)
        if known is None:
            raise InvalidDeclaration(
                f"match() at {node.place} computes measures, and only Spark knows the columns beside them",
                "Choose them before it with select(...).",
            )
        rows = [one for one in known if one not in node.spec.by]
    names = {slot: name for name, slot in slots.items()}
    own = [*node.key, *node.spec.by, *rows, *([TIMED] if node.spec.timeouts else [])]
    made = [f"{one.text(names)} as {quoted(name)}" for name, one in measures.items()]
    return Select(node.place, node, (*own, *made))


def _skip(text: str, variables: Variables) -> Skip:
    words = text.lower().replace("after match skip", "").split()
    match words:
        case ["past", "last", "row"]:
            return Skip(PAST_LAST)
        case ["to", "next", "row"]:
            return Skip(TO_NEXT)
        case ["to", "first", name] | ["to", "last", name] | ["to", name]:
            if name not in variables.numbers:
                raise InvalidDeclaration(f"skip={text!r} names {name}, which is not in the pattern")
            return Skip(TO_FIRST if "first" in words else TO_LAST, variables.bits(name))
    raise InvalidDeclaration(
        f"skip={text!r} is unknown", 'Say "past last row", "to next row", "to first a" or "to last a".'
    )


def _check(spec: PatternSpec, words: Words, place: Place) -> None:
    pattern = spec.pattern
    if words.rows not in ROWS:
        raise InvalidDeclaration(f"match() at {place} has rows={words.rows!r}", nearest(words.rows, ROWS))
    if spec.rows_max is not None and spec.rows_max < 1:
        raise InvalidDeclaration(f"match() at {place} has max_rows={spec.rows_max}", "Take 1 or more.")
    if spec.tries_max < 1:
        raise InvalidDeclaration(f"match() at {place} has tries={spec.tries_max}", "Take 1 or more.")
    if has(pattern, Never) and spec.within_us is None:
        raise InvalidDeclaration(
            f"match() at {place} has a !, and does not say until when nothing must follow", "Say within=."
        )
    if spec.timeouts and spec.within_us is None:
        raise InvalidDeclaration(f"match() at {place} wants timeouts, and nothing ends in time", "Say within=.")
    if spec.unmatched and excludes(pattern):
        raise InvalidDeclaration(
            f"match() at {place} excludes rows with {{- -}} and shows those without a match",
            "The standard allows one of the two.",
        )
    if spec.horizon_us and (spec.within_us is None or spec.unmatched or spec.timeouts):
        raise InvalidDeclaration(
            f"match() at {place} has corrections=, and "
            + ("no within=: a late row could change every match of its key" if spec.within_us is None
               else "shows rows without a match, or timeouts"),
            "Corrections are of matches, and need within=.",
        )  # fmt: skip
    if spec.horizon_us and spec.numbers_matches:
        raise InvalidDeclaration(
            f"match() at {place} has corrections=, and MATCH_NUMBER() or ^: a late row would change all that follows",
            f"Use {MATCH_ID}, which stays the same.",
        )
    taken = {MATCH_ID, ROW_ID, *spec.by, *([TIMED] if spec.timeouts else [])}
    if wrong := [name for name in words.measures if name.lower() in {one.lower() for one in taken}]:
        raise InvalidDeclaration(f"match() at {place} has a measure {wrong[0]}, which the result has already")

"""Packets of StatsD as metrics. Pure, and never raises on any packet.

    name:value|kind[|@rate][|#tag:value,tag]        lines of a packet, one or many

    c   counter     the value is divided by the rate it was sampled at
    g   gauge       with a sign it is added to the last value
    ms h d  timer   each stands for 1/rate of its kind
    s   set         of texts; how many different ones

Several values may share a name and a kind (`load:1:2:3|ms`), as DogStatsD has it; its fields of no use here (`|c:…`,
`|T…`) are passed over.
"""

from typing import NamedTuple

COUNTER, GAUGE, TIMER, SET = "counter", "gauge", "timer", "set"
KINDS = {b"c": COUNTER, b"g": GAUGE, b"ms": TIMER, b"h": TIMER, b"d": TIMER, b"s": SET}
NAME_BYTES_MAX, TAGS_MAX = 500, 50
VALUE_MAX, RATE_MIN = 1e100, 1e-6  # so that no sum of them leaves the numbers

Tags = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    kind: str
    name: str
    tags: Tags
    value: float = 0.0
    rate: float = 1.0
    added: bool = False
    """Of a gauge: to the last value."""

    member: str = ""
    """Of a set."""


class Packet(NamedTuple):
    metrics: list[Metric]
    bad: int
    """Lines that are no metric."""


def decode(packet: bytes) -> Packet:
    """
    >>> decode(b"views:1|c|@0.5|#page:home\\nbroken")
    Packet(metrics=[Metric(kind='counter', name='views', tags=(('page', 'home'),), value=1.0, rate=0.5, \
added=False, member='')], bad=1)
    """
    metrics: list[Metric] = []
    bad = 0
    for line in packet.split(b"\n"):
        line = line.strip(b"\r \x00")
        if not line:
            continue
        try:
            metrics += _line(line)
        except (ValueError, KeyError):
            bad += 1
    return Packet(metrics, bad)


def _line(line: bytes) -> list[Metric]:
    head, *fields = line.split(b"|")
    raw_name, colon, values = head.partition(b":")
    if not colon or not fields or not 0 < len(raw_name) <= NAME_BYTES_MAX:
        raise ValueError
    kind, name = KINDS[fields[0]], raw_name.decode("utf-8")
    rate, tags = 1.0, Tags()
    for field in fields[1:]:
        if field.startswith(b"@"):
            rate = _number(field[1:])
            if not RATE_MIN <= rate <= 1:
                raise ValueError
        elif field.startswith(b"#"):
            tags = _tags(field[1:])
        elif not field.startswith((b"c:", b"T", b"e:", b"card:")):
            raise ValueError
    if kind == SET:
        return [Metric(kind, name, tags, member=values.decode("utf-8"))]
    return [_measured(kind, name, tags, value, rate) for value in values.split(b":")]


def _measured(kind: str, name: str, tags: Tags, value: bytes, rate: float) -> Metric:
    return Metric(kind, name, tags, _number(value), rate, kind == GAUGE and value[:1] in b"+-")


def _number(text: bytes) -> float:
    # float() also knows "1_000", "nan" and blanks, none of which a client means.
    if not text or not text.translate(None, b"0123456789+-.eE") == b"":
        raise ValueError
    number = float(text)
    if not abs(number) <= VALUE_MAX:
        raise ValueError
    return number


def _tags(text: bytes) -> Tags:
    """In one order, so that a series is the same in whichever order its tags were sent."""
    pairs = [pair.decode("utf-8").partition(":") for pair in text.split(b",") if pair]
    if len(pairs) > TAGS_MAX:
        raise ValueError
    return tuple(sorted({name: value for name, _, value in pairs}.items()))

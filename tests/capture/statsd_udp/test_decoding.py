"""Lines of StatsD, and whatever else is sent to the port."""

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.capture.statsd_udp.aggregation import Gathered, Timings
from headwater.capture.statsd_udp.decoding import COUNTER, GAUGE, KINDS, SET, TIMER, Metric, decode

GOOD = [
    (b"hits:1|c", [Metric(COUNTER, "hits", (), 1.0)]),
    (b"hits:2|c|@0.1", [Metric(COUNTER, "hits", (), 2.0, 0.1)]),
    (b"hits:-3|c", [Metric(COUNTER, "hits", (), -3.0)]),
    (b"room:20.5|g", [Metric(GAUGE, "room", (), 20.5)]),
    (b"room:+2|g", [Metric(GAUGE, "room", (), 2.0, 1.0, True)]),
    (b"room:-2|g", [Metric(GAUGE, "room", (), -2.0, 1.0, True)]),
    (b"load:320|ms|@0.5", [Metric(TIMER, "load", (), 320.0, 0.5)]),
    (b"load:1:2|h", [Metric(TIMER, "load", (), 1.0), Metric(TIMER, "load", (), 2.0)]),
    (b"users:ada|s", [Metric(SET, "users", (), member="ada")]),
    (b"users:a:b|s", [Metric(SET, "users", (), member="a:b")]),
    (b"hits:1|c|#b:2,a:1,flag", [Metric(COUNTER, "hits", (("a", "1"), ("b", "2"), ("flag", "")), 1.0)]),
    (b"hits:1|c|#a:1|@1|c:container|T1600000000", [Metric(COUNTER, "hits", (("a", "1"),), 1.0)]),
    (b"a:1|c\nb:2|c\r\n\n", [Metric(COUNTER, "a", (), 1.0), Metric(COUNTER, "b", (), 2.0)]),
]
BAD = [b"hits", b"hits:1", b":1|c", b"hits:|c", b"hits:x|c", b"hits:nan|g", b"hits:inf|c", b"hits:1_0|c", b"hits:1|q",
       b"hits:1|c|@0", b"hits:1|c|@2", b"hits:1|c|@", b"hits:1|c|x", b"\xff:1|c", b"hits:1e999|c", b"hits:1e200|c",
       b"n" * 501 + b":1|c", b"_e{5,4}:title|text", b"hits:1|c|@1e-9",
       b"hits:1|c|#" + b",".join(b"%d" % n for n in range(51))]  # fmt: skip


@pytest.mark.parametrize(("packet", "metrics"), GOOD, ids=repr)
def test_a_line_is_a_metric(packet: bytes, metrics: list[Metric]) -> None:
    assert decode(packet) == (metrics, 0)


@pytest.mark.parametrize("line", BAD, ids=lambda line: repr(line[:20]))
def test_a_bad_line_is_counted_and_harms_no_other(line: bytes) -> None:
    assert decode(b"a:1|c\n" + line + b"\nb:1|c") == ([Metric(COUNTER, "a", (), 1.0), Metric(COUNTER, "b", (), 1.0)], 1)


pieces = st.sampled_from([b"a", b":", b"|", b"c", b"g", b"ms", b"s", b"@", b"#", b",", b"\n", b"1", b"-", b"+", b".",
                          b"e9", b"0", b"\xff", b"\x00"])  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=60).map(b"".join)))
@example(b"a:1|c|@1e-6")
@example(b"a:1e100|c|@1e-6\na:1e100|ms|@1e-6")
def test_whatever_is_sent_can_be_gathered_and_emitted(packet: bytes) -> None:
    metrics, bad = decode(packet)
    lines = [line for line in packet.split(b"\n") if line.strip(b"\r \x00")]
    assert bad <= len(lines)
    gathered = Gathered({})
    for metric in metrics:
        gathered.take(metric)
    for _, row in gathered.rows(from_ms=0, to_ms=0):
        json.dumps(row, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)), st.text("ab.é", min_size=1, max_size=5), st.integers(-(10**9), 10**9),
    st.dictionaries(st.text("xyz", min_size=1), st.text("xyz:")),
)  # fmt: skip
def test_what_a_client_writes_is_read_back(kind: bytes, name: str, value: int, tags: dict[str, str]) -> None:
    text_of_tags = ",".join(f"{tag}:{text}" for tag, text in tags.items())
    ((metric,), bad) = decode(f"{name}:{value}|{kind.decode()}|#{text_of_tags}".encode())
    assert bad == 0
    assert (metric.name, metric.kind, dict(metric.tags)) == (name, KINDS[kind], tags)
    assert metric.member == str(value) if kind == b"s" else metric.value == value


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9), min_size=1, max_size=200))
def test_percentiles_are_within_one_per_cent(values: list[float]) -> None:
    timings = Timings()
    for value in values:
        timings.add(value, 1.0)
    for percent in (0, 50, 90, 99, 100):
        exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
        assert timings.percentile(percent) == pytest.approx(exact, rel=0.0102)


def test_sampled_timings_weigh_more() -> None:
    timings = Timings()
    timings.add(10.0, 1.0)
    timings.add(100.0, 9.0)
    assert (timings.count, timings.sum) == (10.0, 910.0)
    assert timings.percentile(50) == pytest.approx(100.0, rel=0.01)

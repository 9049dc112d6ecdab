from benchmarks.capture.capture import CHANGES, LATENCY, rate_between
from benchmarks.capture.names import DEBEZIUM, HEADWATER
from benchmarks.capture.plan import SECTIONS
from benchmarks.capture.tables import capture_tables
from benchmarks.plan import SECTIONS as ALL_SECTIONS
from benchmarks.results import Results


def test_every_section_can_be_asked_for() -> None:
    assert set(SECTIONS) <= set(ALL_SECTIONS)


def test_a_rate_counts_from_the_first_rows_that_were_seen() -> None:
    assert rate_between([(10.0, 1000), (11.0, 3000), (14.0, 9000)]) == 2000


def test_ours_is_held_against_debezium_and_against_the_goal() -> None:
    results = Results()
    for rate in (60_000.0, 75_000.0, 90_000.0):
        results.add(CHANGES, HEADWATER, rate=rate, cpu=12.0, memory=90.0)
    results.add(CHANGES, DEBEZIUM, rate=15_000.0, cpu=80.0, memory=700.0)
    (table,) = capture_tables(results)
    ours, theirs = table.rows
    assert ours[2:4] == ["5.00\u00a0×", "1.50\u00a0×"]
    assert theirs[2:4] == ["–", "–"]


def test_delays_are_shown_as_they_are() -> None:
    results = Results()
    results.add(LATENCY, HEADWATER, p50=12.0, p99=34.0, most=56.0)
    assert capture_tables(results)[0].rows == [[HEADWATER, "12.0", "34.0", "56.0"]]

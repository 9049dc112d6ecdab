import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.pictures.outline import outline
from headwater.flow.declare.stream import Table
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.nodes import Compared
from headwater.flow.operators.comparisons.kinds import Ago, Change


def counted(window: object) -> Table:
    requests = hw.App("site").stream("requests", "service string, at timestamp", time="at")
    return requests.window(window).by("service").agg("count(*) as n")  # type: ignore[arg-type]


def test_days_of_a_calendar_are_looked_back_at_by_their_number() -> None:
    weeks = counted(hw.calendar("week", zone="Europe/Berlin")).compare(then=hw.change("n", "14 days"))
    assert isinstance(weeks.node, Compared)
    assert weeks.node.comparisons == {"then": Change("n", Ago(windows=2))}
    assert weeks.node.key == ("service", "window_start", "window_end")


def test_looking_back_ends_where_a_window_begins() -> None:
    message = "looks back 90 seconds, where no window begins: one does every 1 minute"
    with pytest.raises(InvalidDeclaration, match=message):
        counted(hw.tumbling("1 minute")).compare(then=hw.change("n", "90 seconds"))
    with pytest.raises(InvalidDeclaration, match="a month is not always as long"):
        counted(hw.calendar("month", zone="UTC")).compare(then=hw.ratio("n", "30 days"))
    with pytest.raises(InvalidDeclaration, match="calendar windows have one"):
        counted(hw.calendar("day", zone="UTC")).compare(then=hw.change("n", "1 day", zone="Europe/Berlin"))


def test_only_windows_with_a_place_of_their_own_are_compared() -> None:
    with pytest.raises(InvalidDeclaration, match="of no tumbling, hopping or calendar windows"):
        counted(hw.session("1 minute")).compare(then=hw.change("n"))
    with pytest.raises(InvalidDeclaration, match="of no tumbling, hopping or calendar windows"):
        hw.App("site").stream("requests", "service string").by("service").count().compare(then=hw.change("count"))


def test_what_makes_no_sense_is_said_where_it_is_written() -> None:
    with pytest.raises(InvalidDeclaration, match=r"number of windows of a rolling average .* is 0"):
        hw.rolling("n", 0)
    with pytest.raises(InvalidDeclaration, match=r"over 1 season .* has no deviation"):
        hw.anomaly("n", over=1)
    with pytest.raises(InvalidDeclaration, match=r"least=8 .* of 7 seasons. Take 2 to 7"):
        hw.anomaly("n", over=7, least=8)
    with pytest.raises(InvalidDeclaration, match=r"3 windows ago .* is no time by a clock"):
        hw.change("n", 3, zone="Europe/Berlin")
    with pytest.raises(InvalidDeclaration, match=r"compare\(\) at .* is given 'n'"):
        counted(hw.tumbling("1 minute")).compare(then="n")  # type: ignore[arg-type]
    with pytest.raises(InvalidDeclaration, match="is no time zone"):
        hw.change("n", "1 day", zone="Berlin")


def test_an_output_says_when_compared_windows_are_told_and_what_its_key_is() -> None:
    app = hw.App("site")
    requests = app.stream("requests", "service string, at timestamp", time="at")

    @app.view(key=["service", "window"], emit="final")
    def busy() -> Table:
        minutes = requests.window(hw.tumbling("1 minute")).by("service").count()
        return minutes.compare(yesterday=hw.change("count", "1 day"), odd=hw.anomaly("count", over=7))

    (job,) = plan(app)
    (one,) = job.outputs
    assert one.output.key == ("service", "window_start", "window_end")
    assert isinstance(one.node, Compared)
    assert one.node.windowed.emission.kind == "final"
    assert set(job.operators.values()) == {"busy", "busy.1"}
    words = [step.words for step in outline(app, [job]).jobs[0].steps if step.does == "compare"]
    assert words == [
        "yesterday = change of count against 1 day ago, odd = count 3 deviations off the mean of 7 times 1 day ago"
    ]

import re
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.pictures.outline import outline
from headwater.flow.declare.pictures.picture import as_text
from headwater.flow.declare.stream import Stream, Table, WindowedStream
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.nodes import Windowed

HERE = r"test_windows\.py:\d+"


SEVERAL = r"which makes several of one\. Use windows of time; or count the rows of the stream before that step\."


def visits() -> Stream:
    columns = "user string, page string, window_end string, at timestamp"
    return hw.App("web").stream("visits", columns, time="at", lateness="10 minutes")


def with_itself(stream: Stream) -> Stream:
    return stream.union(stream.where("page = '/'"))


def minutes() -> WindowedStream:
    return visits().window(hw.tumbling("1 minute"))


@pytest.mark.parametrize(
    "build, sentence",
    [
        (lambda: hw.tumbling("a while"), rf"'a while' \({HERE}\) is not a duration\. .*"),
        (lambda: hw.tumbling("0s"), rf"the size of a tumbling window \({HERE}\) is 0s\. Take more than nothing\."),
        (
            lambda: hw.hopping("1 minute", every="5 minutes"),
            rf"hopping windows of 1 minute every 5 minutes \({HERE}\) leave out the rows between them\. "
            r'Take a step of at most the size, or tumbling\("5 minutes"\)\.',
        ),
        (lambda: hw.calendar("dey", zone="UTC"), rf"'dey' \({HERE}\) is no part of a calendar\. Did you mean day\?"),
        (
            lambda: hw.calendar("day", zone="Europe/Berln"),
            rf"'Europe/Berln' \({HERE}\) is no time zone\. Did you mean Europe/Berlin\?",
        ),
        (
            lambda: hw.calendar("day", zone="UTC", offset="1 day"),
            rf"the offset of a calendar window \({HERE}\) is 1 day\. Less than a day\.",
        ),
        (lambda: hw.session("0 minutes"), rf"the gap of a session \({HERE}\) is 0 minutes\. .*"),
        (lambda: hw.count_window(0), rf"a window of 0 rows \({HERE}\) holds nothing\. Take 1 or more\."),
        (
            lambda: visits().window("5 minutes"),  # type: ignore[arg-type]
            rf"window\(\) at {HERE} is given '5 minutes'\. Use for example hw\.tumbling\(\"5 minutes\"\)\.",
        ),
        (
            lambda: visits().latest("user").changes().window(hw.tumbling("1 minute")),
            rf"window\(\) at {HERE} comes after changes\(\) at {HERE}, which have no event time\. Window the stream .*",
        ),
        (
            lambda: minutes().by("window_end").agg("count(*) as n"),
            rf"by\(\) at {HERE} names column window_end, which windows have themselves\. Give it another name .*",
        ),
        (
            lambda: minutes().agg("count(*)", emit="finally"),
            rf"emit='finally' \({HERE}\) is unknown\. Did you mean final\?",
        ),
        (
            lambda: minutes().agg("count(*)", emit="corrections"),
            rf"emit='corrections' \({HERE}\) does not say for how long\. Add corrections=\"1 day\"\.",
        ),
        (
            lambda: minutes().agg("count(*)", emit="final", corrections="1 day"),
            rf"emit='final' \({HERE}\) makes no corrections\. .*",
        ),
        (
            lambda: minutes().agg("count(*)", early=True),
            rf"early=True \({HERE}\) is for results that wait for the end of their window\. .*",
        ),
        (
            lambda: visits().window(hw.count_window(3)).agg("count(*)", corrections="1 day"),
            rf"windows by count \({HERE}\) cannot be corrected: a straggler would move each row behind it to another "
            r"one\. Use emit='final' and a longer lateness\.",
        ),
        (
            lambda: visits().explode("pages", "page").window(hw.count_window(3)),
            rf"window\(\) at {HERE} counts rows after explode\(\) at {HERE}, {SEVERAL}",
        ),
        (
            lambda: with_itself(visits()).window(hw.count_window(3)),
            rf"window\(\) at {HERE} counts rows after union\(\) at {HERE}, {SEVERAL}",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_its_place(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        build()
    assert re.fullmatch(sentence, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    "window, words",
    [
        (hw.tumbling("5 minutes", offset="1 minute"), "tumbling 5 minutes from 1 minute"),
        (hw.hopping("1 hour", "5 minutes"), "hopping 1 hour every 5 minutes"),
        (hw.calendar("week", zone="Europe/Berlin"), "calendar week in Europe/Berlin"),
        (hw.sliding("90s", on_change=True), "sliding 90 seconds, at every change"),
        (hw.session("30 minutes"), "session with gaps of 30 minutes"),
        (hw.count_window(10), "every 10 rows"),
    ],
)
def test_a_window_can_be_said_in_words(window: Any, words: str) -> None:
    assert window.in_words == words


def planned(body: Callable[[], Table], **options: Any) -> Any:
    """An app with one view, and what is planned for it."""
    app = hw.App("web")
    app.view(name="seen", **options)(body)
    ((job,),) = (plan(app),)
    return job.outputs[0]


def test_the_word_window_in_a_key_stands_for_the_columns_of_the_window() -> None:
    by_minute = planned(lambda: minutes().by("page").agg("count(*) as n"), key=["page", "window"])
    assert by_minute.output.key == ("page", "window_start", "window_end")
    sliding = planned(lambda: visits().window(hw.sliding("1 hour")).by("page").count(), key=["page", "window"])
    assert sliding.output.key == ("page", "at")
    behind = planned(lambda: minutes().count().where("count > 1").with_columns(twice="count * 2"), key="window")
    assert behind.output.key == ("window_start", "window_end")


def test_an_output_says_when_windows_are_told_unless_they_say_it_themselves() -> None:
    said = planned(lambda: minutes().count().where("count > 1"), key="window", corrections="1 day")
    (windowed,) = said.node.inputs
    assert isinstance(windowed, Windowed)
    assert str(windowed.emission) == "final, then corrections for 1 day"
    with pytest.raises(InvalidDeclaration, match="says itself when its windows are emitted"):
        planned(lambda: minutes().count(emit="final"), key="window", emit="updates")
    with pytest.raises(InvalidDeclaration, match="is not a result of windows"):
        planned(lambda: visits().latest("user"), key="user", emit="final")


def test_the_plan_shows_windows_with_their_emission_and_where_late_rows_go() -> None:
    app = hw.App("web")
    counts = app.stream("visits", "user string, at timestamp", time="at").window(hw.session("30 minutes"))
    app.view(key=["user", "window"], name="trips")(lambda: counts.by("user").count(corrections="1 day"))
    text = as_text(outline(app, plan(app)))
    assert (
        "window by user, session with gaps of 30 minutes: count(*) as count; emits final, then corrections for 1 day"
        in text
    )
    assert "late rows go to topic web.visits.late" in text

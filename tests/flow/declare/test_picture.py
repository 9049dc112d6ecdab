import re

import headwater as hw
from headwater.flow.declare.pictures.outline import OutputPreview, outline
from headwater.flow.declare.pictures.picture import as_mermaid, as_text, picture_of
from headwater.flow.declare.topology.graph import plan
from tests.flow.declare.plans import whole_outline


def test_the_text_shows_each_job_with_what_it_reads_does_keeps_and_writes() -> None:
    said = as_text(whole_outline())
    _, part = said.split("job clicks+searches, ")
    part = re.sub(r" +\(plans\.py:\d+\)", "", part.split("\njob ")[0]).rstrip()
    assert (
        part
        == """\
consumer group web.clicks+searches
  reads stream clicks
      topic clicks, json: session string, url string, tags array<string>, at timestamp
      time at, up to 10 minutes late
  reads stream searches
      topic searches, csv: session string, url string
  writes view by_url
      How often each page was seen.
      union of
      - from clicks
        select session, url
      - from searches
      where url <> '' and "a" < 'b' & session
      dedupe by session within 1 hour  [state by_url.1]
      aggregate by url: count(*) as seen  [state seen]
      key url
      postgresql://ada@db.example/web; exactly once
  keeps state
      by_url.1  dedupe by session
      seen      aggregate by url
  state that grows for ever
      seen  a row for each url that ever comes
  late rows go to topic web.clicks-searches.late
  poisoned rows go to topic web.clicks-searches.poisoned, accounts to topic web.accounts"""
    )


def test_the_text_gives_every_declaration_its_place() -> None:
    lines = as_text(whole_outline()).splitlines()
    declared = [line for line in lines if line.startswith(("app", "  reads", "  writes"))]
    assert len(declared) > 10
    assert [line for line in declared if not re.search(r"\(plans\.py:\d+\)", line)] == []


def test_the_text_says_what_a_run_would_do_with_what_is_there() -> None:
    said = as_text(whole_outline({"tag_counts": OutputPreview((), "tag string", "rebuild", "its key was ['url']")}))
    assert re.search(r"writes view tag_counts  \(plans\.py:\d+\): rebuild\n      its key was \['url'\]\n", said)
    assert "      columns tag string\n" in said


def test_every_source_step_and_output_is_a_box_of_the_picture() -> None:
    plan = whole_outline()
    boxes = {box.id for box in picture_of(plan).boxes}
    for job in plan.jobs:
        inner = {one.id for one in job.sources} | {one.id for one in job.steps}
        ends = {one.id for one in job.outputs if one.kind != "topic"}
        assert inner | ends <= boxes


def test_a_topic_that_is_written_and_read_is_one_box_between_two_jobs() -> None:
    picture = picture_of(whole_outline())
    (tags,) = [box for box in picture.boxes if box.kind == "topic" and box.title == "tags"]
    assert len([arrow for arrow in picture.arrows if arrow[1] == tags.id]) == 1
    assert len([arrow for arrow in picture.arrows if arrow[0] == tags.id]) == 1


def test_every_step_has_an_arrow_from_each_of_its_inputs() -> None:
    plan = whole_outline()
    steps = {(one, step.id) for job in plan.jobs for step in job.steps for one in step.inputs}
    assert len(steps) > len([step for job in plan.jobs for step in job.steps])
    assert steps <= set(picture_of(plan).arrows)


def test_arrows_lead_from_box_to_box() -> None:
    picture = picture_of(whole_outline())
    ids = [box.id for box in picture.boxes]
    assert len(set(ids)) == len(ids)
    assert {end for arrow in picture.arrows for end in arrow} == set(ids)


def test_mermaid_has_a_line_for_every_box_and_arrow_and_a_frame_for_every_job() -> None:
    plan = whole_outline()
    picture = picture_of(plan)
    lines = [line.strip() for line in as_mermaid(plan).splitlines()]
    assert lines[0] == "flowchart LR"
    assert len([line for line in lines if line.startswith("subgraph")]) == lines.count("end") == len(plan.jobs)
    assert [
        box.id
        for box in picture.boxes
        if not any(line.startswith((f"{box.id}[", f"{box.id}(", f"{box.id}>")) for line in lines)
    ] == []
    assert {f"{start} --> {end}" for start, end in picture.arrows} <= set(lines)


def test_mermaid_gets_no_character_that_means_something_to_it() -> None:
    text = as_mermaid(whole_outline())
    assert "url #60;#62; '' and #34;a#34; #60; 'b' #38; session" in text
    for label in re.findall(r'"(.*)"', text):
        assert not re.search(r'["\[\]{}|`]', label.replace("<b>", "").replace("</b>", "").replace("<br/>", ""))


def test_steps_that_outputs_share_are_shown_once() -> None:
    app = hw.App("web")
    seen = app.stream("clicks", "url string").where("url <> ''")
    app.view(key="url", name="counts")(lambda: seen.by("url").count())
    app.view(key="url", name="last")(lambda: seen.latest("url"))
    text = as_text(outline(app, plan(app)))
    assert text.count("      where url <> ''") == 1
    assert "as view counts, up to where url <> ''" in text


def test_a_topic_that_is_read_in_several_ways_is_described_once() -> None:
    app = hw.App("web")
    rates = app.table("rates", "currency string, rate double", key="currency", versions="1 day")
    orders = app.stream("orders", "currency string, at timestamp", time="at")
    app.topic("priced")(lambda: orders.join(rates, on="currency", as_of="at"))
    app.topic("current")(lambda: orders.join(rates, on="currency"))
    assert as_text(outline(app, plan(app))).count("topic rates, json: currency string, rate double") == 1

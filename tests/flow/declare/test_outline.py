import json

import pytest

from headwater.flow.declare.pictures.outline import JobOutline, OutputPreview, text_of
from headwater.secret_urls import without_secrets
from tests.flow.declare.plans import whole_app, whole_outline


def job(name: str) -> JobOutline:
    return next(job for job in whole_outline().jobs if job.name == name)


def test_a_job_is_outlined_with_its_group_and_the_topics_in_which_it_reports() -> None:
    described = job("clicks+searches")
    assert described.group == "web.clicks+searches"
    assert described.poisoned == "web.clicks-searches.poisoned"
    assert described.accounts == "web.accounts"


def test_every_output_of_the_app_is_in_one_job() -> None:
    names = [output.name for job in whole_outline().jobs for output in job.outputs]
    assert sorted(names) == sorted(whole_app().outputs)


def test_sources_tell_their_topic_format_columns_time_and_key() -> None:
    clicks, searches = job("clicks+searches").sources
    assert (clicks.kind, clicks.topic, clicks.time, clicks.lateness) == ("stream", "clicks", "at", "10 minutes")
    assert (searches.format, searches.columns, searches.time) == ("csv", "session string, url string", "")
    (rates,) = job("rates").sources
    assert (rates.kind, rates.key, rates.state) == ("table", ("currency",), "rates")


def test_steps_say_in_the_users_words_what_they_do() -> None:
    said = [(step.does, step.words) for step in job("clicks+searches").steps]
    assert said == [
        ("select", "session, url"),
        ("union", ""),
        ("where", "url <> '' and \"a\" < 'b' & session"),
        ("dedupe", "by session within 1 hour"),
        ("aggregate", "by url: count(*) as seen"),
    ]
    others = {(step.does, step.words) for name in ("clicks", "rates") for step in job(name).steps}
    assert others == {
        ("explode", "tags into tag"),
        ("select", "tag, url"),
        ("select", "`session`, url"),
        ("apply", "cleaned"),
        ("latest", "by session"),
        ("changes", ""),
        ("where", "rate > 1"),
        ("with columns", "twice = rate * 2"),
    }


def test_operators_with_state_have_a_name_and_a_key() -> None:
    kept = {step.state: (step.does, step.key) for step in job("clicks+searches").steps if step.state}
    assert kept == {"seen": ("aggregate", ("url",)), "by_url.1": ("dedupe", ("session",))}


def test_steps_point_at_what_they_are_made_from() -> None:
    described = job("clicks+searches")
    union = next(step for step in described.steps if step.does == "union")
    select = next(step for step in described.steps if step.does == "select")
    assert union.inputs == (select.id, described.sources[1].id)
    assert described.outputs[0].made_from == described.steps[-1].id


@pytest.mark.parametrize(
    "output, where, promise",
    [
        ("by_url", "postgresql://ada@db.example/web", "exactly once"),
        ("tag_counts", "the data directory", "exactly once"),
        ("tags", "3 partitions, rows", "exactly once"),
        ("fast-rates", "1 partition, changes, compacted", "exactly once"),
        ("archive", "Parquet files in lake/clicks", "exactly once"),
        ("copy", "table clicks at postgresql://ada@db.example/web", "exactly once"),
        ("rate-changes", "standard output", "at least once"),
        ("own", "function cleaned", "at least once"),
    ],
)
def test_outputs_say_where_they_go_and_what_is_promised(output: str, where: str, promise: str) -> None:
    outputs = {one.name: one for job in whole_outline().jobs for one in job.outputs}
    assert (outputs[output].where, outputs[output].promise) == (where, promise)


def test_what_spark_and_the_checkpoint_know_is_told_with_the_output() -> None:
    described = whole_outline(
        {"tag_counts": OutputPreview(("tag",), "tag string, count bigint", "rebuild", "its key was ['url']")}
    )
    outputs = {one.name: one for job in described.jobs for one in job.outputs}
    changed = outputs["tag_counts"]
    assert (changed.columns, changed.verdict, changed.why) == (
        "tag string, count bigint", "rebuild", "its key was ['url']",
    )  # fmt: skip
    assert outputs["tags"].columns == outputs["tags"].verdict == ""


def test_the_outline_is_plain_json() -> None:
    said = json.loads(json.dumps(whole_outline().to_json()))
    assert said["app"] == "web"
    assert [job["name"] for job in said["jobs"]] == [job.name for job in whole_outline().jobs]


def test_a_column_is_written_as_spark_prints_it_without_its_wrapping() -> None:
    class Column:
        def __str__(self) -> str:
            return "Column<'(amount > 90)'>"

    assert text_of(Column()) == "(amount > 90)"


@pytest.mark.parametrize("url", ["postgresql://db/web", "lake/clicks", "sqlite:///x.db"])
def test_a_place_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert without_secrets(url) == url

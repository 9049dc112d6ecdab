from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.pictures.outline import OutputOutline
from headwater.flow.declare.topology.graph import plan
from headwater.flow.deploy.code_changes import save
from headwater.flow.deploy.descriptions import descriptions
from headwater.flow.plan.preview import preview
from headwater.flow.plan.resolution import resolve


def app(condition: str = "amount > 10", *, extra: bool = False) -> hw.App:
    app = hw.App("shop")
    orders = app.stream("orders", "id string, amount long, currency string")
    app.view(key="currency", name="revenue")(
        lambda: orders.where(condition).by("currency").agg(f.sum("amount").alias("revenue"))
    )
    if extra:
        app.topic("big-orders")(lambda: orders.where(f.col("amount") > 100))
    return app


def outputs(session: SparkSession, app: hw.App, data: Path) -> dict[str, OutputOutline]:
    return {one.name: one for job in preview(session, app, data).jobs for one in job.outputs}


def run_before(session: SparkSession, app: hw.App, data: Path) -> None:
    """What a run leaves behind that a plan looks at."""
    (job,) = plan(app)
    folder = JobFolder(data / "flows" / "shop" / job.name)
    folder.write("identity.json", {})
    save(folder, descriptions(job, resolve(session, job)))


def test_columns_are_those_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    found = outputs(spark, app(extra=True), tmp_path)
    assert found["revenue"].columns == "currency string, revenue bigint"
    assert found["big-orders"].columns == "id string, amount bigint, currency string"
    assert found["revenue"].verdict == ""
    assert list(tmp_path.iterdir()) == []


def test_pyspark_columns_are_shown_in_sparks_words(spark: SparkSession, tmp_path: Path) -> None:
    (job,) = preview(spark, app(), tmp_path).jobs
    assert job.steps[-1].words == "by currency: sum(amount) AS revenue"


def test_a_plan_says_who_evaluates_rows_and_why(spark: SparkSession, tmp_path: Path) -> None:
    def rows(now: hw.App) -> list[str]:
        return [job.runs[0] for job in preview(spark, now, tmp_path).jobs]

    assert rows(app()) == ["rows are read and evaluated by the tasks that decode them"]
    assert rows(app("initcap(currency) = 'Eur'")) == ["rows are evaluated by Spark: revenue needs initcap"]
    assert rows(app(extra=True)) == ["rows are evaluated by Spark: big-orders has no operator"]


def test_a_plan_says_which_operators_are_shuffled_and_why(spark: SparkSession, tmp_path: Path) -> None:
    def shuffles(*, on: str, condition: str = "true") -> list[str]:
        now = hw.App("web")
        schema = "session string, user long, at timestamp"
        searches, clicks = (now.stream(name, schema, time="at") for name in ("searches", "clicks"))
        made = searches.where(condition).join(clicks, on=on, within="5 minutes", prefix="click_", name="clicked")
        now.view(key=on, name="counts")(lambda: made.by(on).count(name="totals"))
        (job,) = preview(spark, now, tmp_path).jobs
        return list(job.runs[1:])

    totals = "totals is shuffled by key"
    assert shuffles(on="session") == ["clicked skips the shuffle while its inputs are co-partitioned", totals]
    (by_user, _) = shuffles(on="user")
    assert by_user == "clicked is shuffled by key: it is not on one column of text, which producers partition by"
    (by_spark, _) = shuffles(on="session", condition="initcap(session) = 'A'")
    assert by_spark == "clicked is shuffled by key: its tasks do not read both inputs from the log themselves"


@pytest.mark.parametrize(
    "now, verdicts",
    [
        (app(), {"revenue": "keep"}),
        (app("amount > 20"), {"revenue": "rebuild"}),
        (app(extra=True), {"revenue": "keep", "big-orders": "new"}),
    ],
)
def test_an_earlier_run_is_compared_with(
    spark: SparkSession, tmp_path: Path, now: hw.App, verdicts: dict[str, str]
) -> None:
    run_before(spark, app(), tmp_path)
    found = outputs(spark, now, tmp_path)
    assert {name: one.verdict for name, one in found.items()} == verdicts
    assert all(one.why for one in found.values() if one.verdict == "rebuild")


def test_a_column_that_there_is_not_is_refused_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match=r"where at test_preview\.py:\d+: there is no column amuont; did you"):
        preview(spark, app("amuont > 10"), tmp_path)


def test_all_that_only_spark_finds_wrong_is_said_at_once_and_each_once(spark: SparkSession, tmp_path: Path) -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id string, amount long, tags string")
    visits = app.stream("visits", "id string, page string")
    wrong = orders.where(f.col("amont") > 1)
    app.view(key="id", name="a")(lambda: wrong.latest("id"))
    app.topic("b")(lambda: wrong)
    app.topic("c")(lambda: orders.select("id", f.explode("tags").alias("tag")))
    app.topic("d")(lambda: orders)
    app.topic("e")(lambda: visits.where(f.col("pgae") == "/"))
    with pytest.raises(InvalidDeclaration) as caught:
        preview(spark, app, tmp_path)
    said = [str(caught.value), *map(str, caught.value.also)]
    assert len(said) == 3, said
    assert [word for word in ("amont", "explode", "pgae") if any(word in one for one in said)] == [
        "amont", "explode", "pgae",
    ], said  # fmt: skip
    assert all("test_preview.py:" in one for one in said)
    assert [one.count(";") for one in said[::2]] == [1, 1], "both name the column that was meant"


def test_all_bodies_that_fail_with_a_session_are_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id string, amount long")
    nothing: dict[str, int] = {}
    app.topic("a")(lambda: orders.where(getattr(f, "no_such_function")("id")))  # noqa: B009
    app.topic("b")(lambda: orders.where(f.lit(1) > nothing["key"]))
    with pytest.raises(InvalidDeclaration) as caught:
        preview(spark, app, tmp_path)
    said = [str(caught.value), *map(str, caught.value.also)]
    assert ["no_such_function" in said[0], "KeyError" in said[1], len(said)] == [True, True, 2], said

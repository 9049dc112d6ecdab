"""Views of hits are proved by a reference that knows no index; a batch that is run again gives the same."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.search.random_search import query, text
from tests.flow.spark_session import shared_session

MINUTE = "2026-03-01T09:{:02}:00Z"


def counted(as_of: str | None = "at") -> hw.App:
    app = hw.App("counted", shards=3)
    articles = app.stream("articles", "id string, title string, body string, at timestamp", time="at",
                          lateness="3 minutes", idle=None)  # fmt: skip
    alerts = app.table("alerts", "id string, query string", key="id", versions="1 day", idle=None)

    @app.view(key=["alert_id", "id"])
    def hits() -> Any:
        found = articles.percolate(
            alerts, text={"title": "folded", "body": "english"}, as_of=as_of, prefix="alert_", highlight=True,
            explain=True,
        )  # fmt: skip
        return found.latest("alert_id", "id")

    return app


def feed(tester: AppTester, dice: random.Random) -> None:
    """Queries come, change and go, and some documents come late for them."""
    known: set[str] = set()
    for minute in range(0, 50, 5):
        stored = [{"id": f"q{dice.randint(0, 9)}", "query": query(dice)} for _ in range(4)]
        gone = [one for one in sorted(known) if dice.random() < 0.1]
        tester.feed_rows("alerts", {one["id"]: one for one in stored}.values(), deleted=gone, at=MINUTE.format(minute))
        known |= {one["id"] for one in stored}
        tester.feed(
            "articles",
            [{"id": f"{minute}-{one}", "title": text(dice), "body": text(dice),
              "at": MINUTE.format(max(0, minute - dice.randint(0, 6)))} for one in range(5)],
        )  # fmt: skip
        if dice.random() < 0.5:
            tester.run(rows_per_batch=dice.choice([3, 7, 1000]))
    tester.feed_rows("alerts", [{"id": "end", "query": "no such word"}], at=MINUTE.format(59))
    tester.feed("articles", [{"id": "end", "title": "", "body": "", "at": MINUTE.format(59)}])


@pytest.mark.parametrize("as_of", ["at", None])
def test_a_view_of_hits_is_what_plain_python_says_of_every_document_and_query(
    as_of: str | None, tmp_path: Path
) -> None:
    with running_node(tmp_path) as node:
        tester = AppTester(counted(as_of), node, shared_session)
        assert tester.needs_spark == {}
        feed(tester, random.Random(1))
        tester.run()
        assert len(tester.rows("hits")) > 20
        proved = tester.prove("hits")
        assert proved.result != "different", proved
        assert tester.account("hits").balanced


@pytest.mark.on_spark
def test_spark_finds_the_same_hits(tmp_path: Path, spark: SparkSession) -> None:
    found = []
    for folder, engine in (("here", shared_session), ("spark", spark)):
        with running_node(tmp_path / folder) as node:
            tester = AppTester(counted(), node, engine)
            feed(tester, random.Random(2))
            tester.run()
            found.append(sorted(tester.rows("hits"), key=repr))
    assert found[0] == found[1]
    assert len(found[0]) > 20

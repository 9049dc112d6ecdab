"""Stored queries from outside: an app whose documents meet the queries of a table, run in this process."""

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_app

MINUTE = "2026-03-01T09:{:02}:00Z"
COLUMNS = ("alert_id", "alert_owner as owner", "id", "score")


def news(*columns: str, shards: int = 2, **options: Any) -> hw.App:
    app = hw.App("news", shards=shards)
    articles = app.stream(
        "articles", "id string, lang string, title string, body string, lat double, lon double, at timestamp",
        time="at", idle=None,
    )  # fmt: skip
    alerts = app.table("saved-searches", "id string, query string, owner string", key="id", versions="1 day", idle=None)

    @app.topic("hits", key="owner")
    def hits() -> Any:
        found = articles.percolate(alerts, text=["title", "body"], query="query", prefix="alert_", **options)
        return found.select(*COLUMNS, *columns)

    return app


def article(id: str, title: str, body: str = "", minute: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": id, "lang": "en", "title": title, "body": body, "at": MINUTE.format(minute), **more}


def query(id: str, text: str | None) -> dict[str, Any]:
    return {"id": id, "query": text, "owner": f"owner of {id}"}


def hits(tester: AppTester) -> list[str]:
    return sorted(f"{one['alert_id']} {one['id']}" for one in tester.values("hits"))


def test_documents_meet_the_queries_that_are_stored_when_they_come(tmp_path: Path) -> None:
    with running_app(news(where="lang = 'en'"), tmp_path) as tester:
        assert tester.needs_spark == {}
        tester.feed_rows("saved-searches", [query("storms", "storm AND coast"), query("dry", "NOT rain")])
        tester.feed("articles", [article("a", "Storm", "It hit the coast."), article("b", "Rain", "and rain")])
        tester.feed("articles", [article("c", "Sturm", "storm an der coast", lang="de")])
        tester.run()
        assert hits(tester) == ["dry a", "storms a"]
        assert {one["owner"] for one in tester.values("hits")} == {"owner of dry", "owner of storms"}


def test_queries_are_added_changed_and_removed_while_it_runs(tmp_path: Path) -> None:
    with running_app(news(shards=3), tmp_path) as tester:
        tester.feed_rows("saved-searches", [query(f"q{one}", f"w{one}") for one in range(5)])
        tester.feed("articles", [article("a", "w0 w1 w2 w3 w4")])
        tester.run()
        assert hits(tester) == [f"q{one} a" for one in range(5)]
        tester.feed_rows("saved-searches", [query("q0", "other"), query("new", "w0 AND w4")], deleted=["q1"])
        tester.feed("articles", [article("b", "w0 w1 w2 w3 w4")])
        tester.run()
        tester.feed("articles", [article("c", "w0 w1 other")])
        tester.run()
        assert hits(tester) == sorted(
            [*(f"q{one} a" for one in range(5)), "new b", "q2 b", "q3 b", "q4 b", "q0 c"]
        )  # fmt: skip


def test_a_document_meets_the_queries_of_its_own_time(tmp_path: Path) -> None:
    with running_app(news(as_of="at"), tmp_path) as tester:
        tester.feed_rows("saved-searches", [query("q", "rain")], at=MINUTE.format(0))
        tester.feed_rows("saved-searches", [query("q", "storm")], at=MINUTE.format(10))
        tester.feed_rows("saved-searches", deleted=["q"], at=MINUTE.format(20))
        tester.feed_rows("saved-searches", [query("end", "nothing")], at=MINUTE.format(59))
        both = [article(f"{minute}", "rain and storm", minute=minute) for minute in (5, 15, 25)]
        only = [article(f"rain{minute}", "rain", minute=minute) for minute in (6, 16)]
        tester.feed("articles", [*both, *only, article("end", "", minute=59)])
        tester.run()
        assert hits(tester) == ["q 15", "q 5", "q rain6"]


def test_a_broken_query_is_reported_and_stops_no_document(tmp_path: Path) -> None:
    with running_app(news(), tmp_path) as tester:
        tester.feed_rows(
            "saved-searches",
            [query("open", "(storm"), query("field", "colour:red"), query("none", None), query("all", "-storm"),
             query("fine", "storm")],
        )  # fmt: skip
        tester.feed("articles", [article("a", "storm")])
        tester.run()
        assert hits(tester) == ["fine a"]
        said = "\n".join(tester.reported)
        assert "the stored query of id = open cannot be run, and matches nothing: a bracket is not closed" in said
        assert "the stored query of id = field cannot be run, and matches nothing: there is no field colour" in said
        assert "the stored query of id = all is run for every document" in said
        assert "id = fine" not in said


def test_a_hit_carries_fragments_and_reasons_where_they_are_wanted(tmp_path: Path) -> None:
    app = news("alert_query", "highlights", "explanation", highlight=True, explain=True)
    with running_app(app, tmp_path) as tester:
        tester.feed_rows("saved-searches", [query("q", 'body:"heavy rain" OR title:storm^2')])
        tester.feed("articles", [article("a", "A storm", "They had heavy rain, and again heavy RAIN.")])
        tester.run()
        (hit,) = tester.values("hits")
        assert hit["highlights"] == [
            "A <em>storm</em>", "They had <em>heavy</em> <em>rain</em>, and again <em>heavy</em> <em>RAIN</em>"
        ]  # fmt: skip
        assert [(one["clause"], one["frequency"]) for one in hit["explanation"]] == [
            ('body:"heavy rain"', 2.0), ("title:storm", 1.0)
        ]  # fmt: skip
        assert hit["score"] == pytest.approx(hit["explanation"][0]["score"] + 2 * hit["explanation"][1]["score"])


def test_documents_are_near_a_place_or_not(tmp_path: Path) -> None:
    with running_app(news(points={"place": ("lat", "lon")}), tmp_path) as tester:
        tester.feed_rows("saved-searches", [query("vienna", "place:near(48.2, 16.37, 10 km) AND storm")])
        tester.feed(
            "articles",
            [
                article("a", "storm", lat=48.25, lon=16.4),
                article("b", "storm", lat=47.8, lon=13.0),
                article("c", "storm"),
            ],
        )
        tester.run()
        assert hits(tester) == ["vienna a"]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"points": {"place": ("lat", "title")}}, "column title is string, and has to be a number"),
        ({"default": "xor"}, "default='xor'"),
        ({"as_of": "lang"}, "as of lang, which is not the time of the stream"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match=said), running_app(news(**options), tmp_path) as tester:
        tester.run()

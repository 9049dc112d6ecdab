"""A view that can be searched: also when it is asked for after the view was there."""

from collections.abc import Callable
from typing import Any

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from headwater.views.full_text import FullTextIndex, index_folder


def notes(*, search: tuple[str, ...] = ()) -> App:
    app = hw.App("notes", shards=1)
    written = app.stream("written", "id long, title string, body string")

    @app.view(key="id", search=search)
    def notes() -> Any:
        return written.latest("id")

    return app


def note(number: int, title: str) -> dict[str, Any]:
    return {"id": number, "title": title, "body": f"body of {title}"}


def found(tester: AppTester, words: str) -> list[int]:
    index = FullTextIndex(index_folder(tester.node.data, "notes", "notes"))
    return sorted(hit.key["id"] for hit in index.search(words, 10))


def test_an_index_has_all_rows_whenever_it_was_asked_for(tester: Callable[[App], AppTester]) -> None:
    first = tester(notes())
    first.feed("written", [note(1, "lamp"), note(2, "desk")])
    first.run()

    second = tester(notes(search=("title",)))
    second.feed("written", [note(3, "lamp"), note(2, "chair")])
    second.run()
    assert found(second, "lamp") == [1, 3]
    assert found(second, "desk") == []
    assert found(second, "body") == []

    third = tester(notes(search=("title", "body")))
    third.feed("written", [note(4, "shelf")])
    third.run()
    assert found(third, "body") == [1, 2, 3, 4]
    assert [str(one) for one in third.reported if "built" in str(one)] == []


def test_an_index_that_was_not_kept_for_a_while_lacks_no_row(tester: Callable[[App], AppTester]) -> None:
    for number, search in enumerate([("title",), (), ("title",)]):
        running = tester(notes(search=search))
        running.feed("written", [note(number, "lamp")])
        running.run()
    assert found(running, "lamp") == [0, 1, 2]

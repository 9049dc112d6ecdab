from pathlib import Path

import headwater as hw
from headwater.flow.declare.checks.source_line import Place, calling_place


def test_a_place_is_shown_by_the_name_of_its_file_and_the_line() -> None:
    assert str(Place("/apps/shop.py", 12)) == "shop.py:12"


def test_the_calling_place_is_the_line_that_calls() -> None:
    place = calling_place()
    assert Path(place.file) == Path(__file__)
    assert "calling_place()" in Path(__file__).read_text().splitlines()[place.line - 1]


def test_headwaters_own_lines_are_passed_over() -> None:
    app = hw.App("shop")
    grouped = app.stream("orders", "id string").by("id")
    counted = grouped.count()
    assert Path(counted.node.place.file) == Path(__file__)
    assert "grouped.count()" in Path(__file__).read_text().splitlines()[counted.node.place.line - 1]

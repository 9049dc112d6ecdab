import re

import pytest
from kio.schema.index import schema_name_map

from headwater.wire.routes import API_VERSIONS, PRODUCE, ROUTES, Route, find_route
from tests.rules.source import PACKAGE, ROOT

README = (PACKAGE / "wire" / "README.md").read_text(encoding="utf-8")


def table() -> str:
    rows = [f"| {route.name} | {route.api_key} | {route.versions_text} |" for route in ROUTES]
    return "\n".join(["| API | key | versions |", "|---|---|---|", *rows])


def test_the_readme_shows_the_table_of_routes() -> None:
    assert table() in README, f"put this into the README:\n{table()}"


def test_no_api_is_routed_twice() -> None:
    keys = [route.api_key for route in ROUTES]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_version_that_is_served_can_be_read_and_written(route: Route) -> None:
    assert [version for version in route.versions if version not in schema_name_map[route.name]] == []
    assert all(route.codec(version) for version in route.versions)


def test_only_what_works_is_announced() -> None:
    announced = {route.name for route in ROUTES if route.announced != route.versions}
    assert announced == {"produce"}, "and that for a reason"


def test_every_handler_has_a_route() -> None:
    files = {file.stem for file in (PACKAGE / "wire" / "handlers").glob("*.py")} - {"__init__"}
    assert files == {route.name for route in ROUTES}


def test_every_handler_has_a_test_of_its_own() -> None:
    tests = {file.stem.removeprefix("test_") for file in (ROOT / "tests" / "wire" / "handlers").glob("test_*.py")}
    assert {route.name for route in ROUTES} - tests == set()


def test_routes_are_found_by_key() -> None:
    assert find_route(API_VERSIONS) in ROUTES
    assert find_route(-1) is None


def test_only_produce_carries_records() -> None:
    assert [route.api_key for route in ROUTES if route.carries_records] == [PRODUCE]


def test_the_readme_names_every_file_it_speaks_of() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", README))
    missing = {name for name in named if not (PACKAGE / "wire" / name).exists() and "tests/" not in name}
    assert missing == set()

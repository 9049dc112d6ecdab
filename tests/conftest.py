"""What holds for all tests."""

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from tests.order import WARMING, longest_first

# Two busy cores make single examples slow without anything being wrong, so there is no deadline. The same examples run
# every time, so that a merge does not fail by luck; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("repeatable"), derandomize=False, max_examples=2000)
# Tests start many short-lived JVMs: compiling less costs them half as much. The one that lives for minutes has more
# code than Java keeps room for then, and would compile the same again and again.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m")

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--warm", action="store_true", help="read all tests, and run a few, so that others find them compiled"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--warm", default=False):
        items[:] = [
            item for item in items if item.location[0] == WARMING and "tester" in getattr(item, "fixturenames", ())
        ]
    items[:] = longest_first(items, lambda item: item.location[0])


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL that lives as long as this process's tests."""
    from tests.servers.postgres import running_postgres  # only those who need it pay for it

    with running_postgres() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A database with nothing in it."""
    from tests.servers.postgres import empty

    return empty(postgres_server)


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3 server that lives as long as this process's tests."""
    from tests.servers.s3 import running_s3

    with running_s3(tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place in its bucket that no other test uses, which this process and its children reach."""
    from tests.servers.s3 import BUCKET, environment

    for name, value in environment(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid4().hex}"

"""Watches every test, those of the examples too."""

from collections.abc import Generator

import pytest

from tests.watchdog import Watchdog, hear_interrupts, limit_of

WATCHDOG = pytest.StashKey[Watchdog]()


def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts()
    config.stash[WATCHDOG] = Watchdog()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with item.config.stash[WATCHDOG].watching(item.nodeid, limit_of(item)):
        return (yield)

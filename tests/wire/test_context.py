import asyncio
import threading
from typing import Any

import pytest

from headwater.errors import UnavailableError, UnknownTopic
from headwater.settings import WireSettings
from headwater.wire.context import Context, Node


def context() -> Context:
    unused: Any = None
    return Context(
        api_version=1, client_id=None, client_host="", log=unused, groups=unused, settings=WireSettings(),
        node=Node(1, "127.0.0.1", 9092),
    )  # fmt: skip


def test_blocking_work_runs_on_another_thread() -> None:
    ran_on = asyncio.run(context().run(threading.get_ident))
    assert ran_on != threading.get_ident()


def test_our_own_errors_come_as_they_are() -> None:
    def fail() -> None:
        raise UnknownTopic("orders")

    with pytest.raises(UnknownTopic):
        asyncio.run(context().run(fail))


def test_a_disk_that_fails_is_unavailable() -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(UnavailableError, match="No space left on device"):
        asyncio.run(context().run(fail))

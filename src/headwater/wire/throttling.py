"""Quotas at work: what a request took, and how long its connection is not read from."""

import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headwater.access.quotas import FETCH, PRODUCE, REQUEST
from headwater.wire.protocol.fetch import FetchResponse

if TYPE_CHECKING:
    from headwater.access.quotas import Quotas
    from headwater.wire.context import Context
    from headwater.wire.dispatch import Call

Result = TypeVar("Result")

PERCENT = 100.0


class Spent:
    """Seconds that the event loop has worked on a request; what it waited for does not count."""

    def __init__(self, worked: Callable[[], float]) -> None:
        """`worked` gives seconds that the thread has worked. The loop counts milliseconds, which most do not take."""
        self._worked = worked
        self.seconds = 0.0

    @types.coroutine
    def measured(self, work: Coroutine[Any, Any, Result]) -> Generator[Any, Any, Result]:
        """Awaits `work`, and counts each step of it."""
        step: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
        while True:
            begun = self._worked()
            try:
                waited_for = step()
            except StopIteration as done:
                result: Result = done.value
                return result
            finally:
                self.seconds += self._worked() - begun
            try:
                given = yield waited_for
            except BaseException as error:  # noqa: BLE001  it is raised where it belongs: inside the work
                step = lambda error=error: work.throw(error)  # type: ignore[misc]  # noqa: E731
            else:
                step = lambda given=given: work.send(given)  # type: ignore[misc]  # noqa: E731


class Taken(NamedTuple):
    """What a request took of the node, and when."""

    frame_bytes: int
    worked_seconds: float
    at_seconds: float


def wait_ms(quotas: "Quotas", call: "Call", context: "Context", answer: Any, taken: Taken) -> int:
    """How long the client has to wait before its next request; 0 if it is within its quotas."""
    user, client_id, now = context.principal.name, call.client_id or "", taken.at_seconds
    seconds = 0.0
    if call.route.carries_records:
        seconds = quotas.take(PRODUCE, user, client_id, taken.frame_bytes, now)
    elif isinstance(answer, FetchResponse):
        fetched = sum(one.records_bytes for topic in answer.topics for one in topic.partitions)
        seconds = quotas.take(FETCH, user, client_id, fetched, now)
    busy = quotas.take(REQUEST, user, client_id, PERCENT * taken.worked_seconds, now)
    return round(1000 * max(seconds, busy))

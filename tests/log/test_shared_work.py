import threading

import pytest

from headwater.log.shared_work import SharedWork
from tests.log.subjects import in_threads
from tests.waiting import LONG


class Meter:
    """Work that raises a mark to what was asked for when it began, as a sync does; it can be held half way."""

    def __init__(self) -> None:
        self.asked = self.mark = self.runs = 0
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.shared = SharedWork(self.work)

    def work(self) -> None:
        target = self.asked
        self.runs += 1
        self.begun.set()
        assert self.go_on.wait(LONG)
        if self.error is not None:
            raise self.error
        self.mark = target

    def until(self, mark: int) -> None:
        self.shared.until(lambda: self.mark >= mark)


def test_nothing_is_done_for_what_has_been_reached() -> None:
    meter = Meter()
    meter.until(0)
    assert meter.runs == 0


def test_all_who_come_while_the_work_is_under_way_share_the_next_one() -> None:
    meter = Meter()
    meter.asked = 1
    first = threading.Thread(target=meter.until, args=(1,))
    first.start()
    assert meter.begun.wait(LONG)
    meter.asked = 20
    others = [threading.Thread(target=meter.until, args=(mark,)) for mark in range(2, 21)]
    for thread in others:
        thread.start()
    meter.go_on.set()
    for thread in (first, *others):
        thread.join(LONG)
    assert (meter.mark, meter.runs) == (20, 2)


def test_work_that_fails_is_raised_to_who_did_it_and_tried_again_by_who_waited() -> None:
    meter = Meter()
    meter.asked, meter.error = 1, KeyboardInterrupt()
    meter.go_on.set()
    with pytest.raises(KeyboardInterrupt):
        meter.until(1)
    meter.error = None
    meter.until(1)
    assert (meter.mark, meter.runs) == (1, 2)


def test_a_waiter_fails_when_waiting_is_useless() -> None:
    meter = Meter()
    meter.asked, meter.error = 1, OSError("disk")

    def reached() -> bool:
        if meter.mark < 0:
            raise LookupError("no use")
        return meter.mark >= 1

    def break_it() -> None:
        assert meter.begun.wait(LONG)
        meter.mark = -1
        meter.go_on.set()

    def expect(error: type[Exception]) -> None:
        with pytest.raises(error):
            meter.shared.until(reached)

    def second() -> None:
        assert meter.begun.wait(LONG)
        expect(LookupError)

    in_threads([lambda: expect(OSError), second, second, break_it])
    assert meter.runs == 1

from headwater.wire.budget import ORDINARY_BYTES, Budget


def test_small_beginnings_are_always_granted() -> None:
    budget = Budget(100)
    leases = [budget.lease(60), budget.lease(60)]
    assert budget.used == 120
    for lease in leases:
        lease.release()
    assert budget.used == 0


def test_growth_is_granted_while_there_is_room() -> None:
    budget = Budget(100)
    lease = budget.lease(10)
    assert lease.extend(90)
    assert budget.used == 100


def test_one_lease_may_go_beyond_the_limit_and_others_wait() -> None:
    budget = Budget(100)
    first, second = budget.lease(50), budget.lease(50)
    assert first.extend(100)
    assert not second.extend(1)


def test_a_request_beyond_the_limit_may_continue_so_that_two_halves_never_wait_for_each_other() -> None:
    budget = Budget(100)
    first, second = budget.lease(50), budget.lease(50)
    assert first.extend(50)
    assert not second.extend(50)
    assert first.extend(50)


def test_bytes_given_back_wake_those_who_wait_in_the_order_of_asking() -> None:
    budget = Budget(100)
    first, second, third = budget.lease(60), budget.lease(20), budget.lease(20)
    assert first.extend(40)
    woken = []

    def retry(name: str, want: int) -> bool:
        lease = second if name == "second" else third
        if lease.extend(want):
            woken.append(name)
            return True
        return False

    budget.when_free(lambda: retry("second", 30))
    budget.when_free(lambda: retry("third", 30))
    assert woken == []
    first.release()
    assert woken == ["second", "third"]
    assert budget.used == 100


def test_a_lease_is_given_back_once() -> None:
    budget = Budget(100)
    lease = budget.lease(30)
    lease.release()
    lease.release()
    assert budget.used == 0


def test_large_requests_leave_room_for_ordinary_ones() -> None:
    budget = Budget(16 * ORDINARY_BYTES)
    large = [budget.lease(1) for _ in range(2)]
    assert large[0].extend(12 * ORDINARY_BYTES - 2)
    assert large[1].extend(40 * ORDINARY_BYTES), "one may always go on"
    ordinary = [budget.lease(1000) for _ in range(5)]
    assert [lease.extend(ORDINARY_BYTES - 1000) for lease in ordinary] == [True, True, True, False, False]
    ordinary[0].release()
    assert ordinary[4].extend(ORDINARY_BYTES - 1000)
    for lease in (*large, *ordinary):
        lease.release()
    assert (budget.used, budget._large) == (0, 0)


def test_one_that_wants_much_does_not_keep_others_from_a_little() -> None:
    budget = Budget(16 * ORDINARY_BYTES)
    overdrawn, small = budget.lease(1), budget.lease(10)
    assert overdrawn.extend(20 * ORDINARY_BYTES)
    waiting = [budget.lease(1), budget.lease(1)]
    grown: list[int] = []

    def retry(which: int, more: int) -> bool:
        if waiting[which].extend(more):
            grown.append(which)
            return True
        return False

    budget.when_free(lambda: retry(0, 10 * ORDINARY_BYTES))
    budget.when_free(lambda: retry(1, ORDINARY_BYTES - 1))
    small.release()
    assert grown == [1]
    assert budget.wanted()
    overdrawn.release()
    assert (grown, budget.wanted()) == ([1, 0], False)

from headwater.wire.budget import Budget


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


def test_who_goes_beyond_the_limit_may_go_on_so_that_two_halves_never_wait_for_each_other() -> None:
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

from headwater.log.listeners import Listeners


def test_every_listener_is_called_until_it_leaves() -> None:
    listeners, told = Listeners(), []
    leave_one = listeners.add(lambda: told.append("one"))
    listeners.add(lambda: told.append("two"))
    listeners.notify()
    leave_one()
    listeners.notify()
    assert told == ["one", "two", "two"]


def test_leaving_twice_or_during_a_call_does_no_harm() -> None:
    listeners, told = Listeners(), []

    def once() -> None:
        told.append("once")
        leave()

    leave = listeners.add(once)
    listeners.notify()
    listeners.notify()
    leave()
    assert told == ["once"]


def test_one_callback_added_twice_leaves_with_both() -> None:
    listeners, told = Listeners(), []

    def callback() -> None:
        told.append("told")

    listeners.add(callback)
    listeners.add(callback)()
    listeners.notify()
    assert told == []

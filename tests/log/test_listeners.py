from headwater.log.listeners import Listeners


def test_every_listener_is_called_until_it_leaves() -> None:
    listeners, called = Listeners(), []
    leave_one = listeners.add(lambda: called.append("one"))
    listeners.add(lambda: called.append("two"))
    listeners.notify()
    leave_one()
    listeners.notify()
    assert called == ["one", "two", "two"]


def test_leaving_twice_or_during_a_call_does_no_harm() -> None:
    listeners, called = Listeners(), []

    def once() -> None:
        called.append("once")
        leave()

    leave = listeners.add(once)
    listeners.notify()
    listeners.notify()
    leave()
    assert called == ["once"]


def test_one_callback_added_twice_leaves_with_both() -> None:
    listeners, called = Listeners(), []

    def callback() -> None:
        called.append("called")

    listeners.add(callback)
    listeners.add(callback)()
    listeners.notify()
    assert called == []

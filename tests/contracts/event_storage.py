"""What every storage of events promises. Subclass, give an `events` fixture, and `again` if it outlives a restart."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

from headwater.errors import ConflictError, UnexpectedEvent, UsageError, WrongVersion
from headwater.events.storage import EventStorage
from headwater.log.streams.condition import Append, Expected, Match, StreamWrite, Unless
from headwater.log.streams.event import NewEvent, Origin, StoredEvent
from headwater.log.streams.event_topic import CaughtUp, Stored


def event(name: str = "Reserved", *, tags: tuple[str, ...] = (), data: bytes = b"{}") -> NewEvent:
    return NewEvent(name, data, tags)


def append(
    events: EventStorage, stream: str, *names: str, expected: Expected = "any", request: str = "", **more: Any
) -> Stored:
    write = StreamWrite(stream, [event(name) for name in names], expected)
    return events.append(Append((write,), request, **more))


def types(events: EventStorage, stream: str, **asked: Any) -> list[str]:
    return [one.type for one in events.read(stream, **asked)]


class EventStorageContract:
    """The table of expected versions is that of KurrentDB's documentation, with its revision + 1 as the version."""

    # -- expected versions -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("expected", ["any", "none", 0])
    def test_a_stream_begins_where_nothing_is_expected(self, events: EventStorage, expected: Expected) -> None:
        assert append(events, "s", "A", expected=expected).version("s") == 1

    @pytest.mark.parametrize("expected", ["exists", 1])
    def test_a_stream_that_should_be_there_is_not(self, events: EventStorage, expected: Expected) -> None:
        with pytest.raises(WrongVersion) as refused:
            append(events, "s", "A", expected=expected)
        assert refused.value.actual == 0
        assert list(events.read("s")) == []

    @pytest.mark.parametrize("expected", ["any", "exists", 2])
    def test_a_stream_of_two_events_goes_on(self, events: EventStorage, expected: Expected) -> None:
        append(events, "s", "A", "B")
        assert append(events, "s", "C", expected=expected).version("s") == 3
        assert types(events, "s") == ["A", "B", "C"]

    @pytest.mark.parametrize("expected", ["none", 0, 1, 3])
    def test_a_stream_of_two_events_is_not_as_expected(self, events: EventStorage, expected: Expected) -> None:
        append(events, "s", "A", "B")
        with pytest.raises(WrongVersion) as refused:
            append(events, "s", "C", expected=expected)
        assert refused.value.actual == 2
        assert types(events, "s") == ["A", "B"]

    @pytest.mark.parametrize("expected", [-1, "newest", True])
    def test_what_cannot_be_expected_is_said(self, events: EventStorage, expected: Any) -> None:
        with pytest.raises(UsageError):
            append(events, "s", "A", expected=expected)

    # -- requests ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("expected", ["any", "none", 0])
    def test_a_request_that_comes_again_answers_as_the_first(self, events: EventStorage, expected: Expected) -> None:
        first = append(events, "s", "A", "B", expected=expected, request="r")
        append(events, "s", "C")
        again = append(events, "s", "A", "B", expected=expected, request="r")
        assert (again.events, again.repeated) == (first.events, True)
        assert types(events, "s") == ["A", "B", "C"]

    def test_a_request_of_one_stream_is_not_one_of_another(self, events: EventStorage) -> None:
        append(events, "s", "A", request="r")
        assert not append(events, "t", "A", request="r").repeated

    def test_a_refused_request_may_be_stored_later(self, events: EventStorage) -> None:
        with pytest.raises(WrongVersion):
            append(events, "s", "A", expected=1, request="r")
        assert not append(events, "s", "A", expected=0, request="r").repeated

    def test_what_a_request_stored_can_be_asked(self, events: EventStorage) -> None:
        stored = append(events, "s", "A", "B", request="r")
        found = events.find_request("s", "r")
        assert found is not None
        assert found.events == stored.events
        assert events.find_request("s", "q") is None

    def test_one_request_at_the_same_time_is_stored_once(self, events: EventStorage) -> None:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: append(events, "s", "A", request="r"), range(16)))
        assert [answer.repeated for answer in answers].count(False) == 1
        assert len({answer.events for answer in answers}) == 1

    # -- several streams ---------------------------------------------------------------------------------------------

    def test_several_streams_are_written_together(self, events: EventStorage) -> None:
        writes = (StreamWrite("s", [event("A")], "none"), StreamWrite("t", [event("B"), event("C")], "none"))
        stored = events.append(Append(writes))
        assert [(one.stream, one.version) for one in stored.events] == [("s", 1), ("t", 1), ("t", 2)]
        assert (types(events, "s"), types(events, "t")) == (["A"], ["B", "C"])

    def test_nothing_is_written_if_one_stream_is_not_as_expected(self, events: EventStorage) -> None:
        append(events, "t", "X")
        writes = (StreamWrite("s", [event("A")]), StreamWrite("t", [event("B")], "none"))
        with pytest.raises(WrongVersion):
            events.append(Append(writes))
        assert (types(events, "s"), types(events, "t")) == ([], ["X"])

    # -- conditions on events of all streams -------------------------------------------------------------------------

    def test_an_event_that_is_excluded_keeps_the_append_out(self, events: EventStorage) -> None:
        seat = Match(("Reserved",), ("seat:7",))
        stored = events.append(Append((StreamWrite("ada", [event(tags=("seat:7", "user:ada"))]),)))
        after = stored.events[-1].position.offset
        with pytest.raises(UnexpectedEvent) as refused:
            events.append(Append((StreamWrite("bob", [event(tags=("seat:7",))]),), unless=Unless((seat,))))
        assert refused.value.offset == after
        bob = StreamWrite("bob", [event(tags=("seat:7",))])
        assert events.append(Append((bob,), unless=Unless((seat,), after))).version("bob") == 1

    @pytest.mark.parametrize("match", [Match(("Paid",)), Match((), ("seat:8",)), Match(("Reserved",), ("seat:7", "x"))])
    def test_other_types_and_tags_do_no_harm(self, events: EventStorage, match: Match) -> None:
        events.append(Append((StreamWrite("ada", [event(tags=("seat:7",))]),)))
        assert append(events, "bob", "Reserved", unless=Unless((match,))).version("bob") == 1

    def test_no_event_at_all_can_be_the_condition(self, events: EventStorage) -> None:
        assert append(events, "s", "A", unless=Unless((Match(),))).version("s") == 1
        with pytest.raises(UnexpectedEvent):
            append(events, "t", "A", unless=Unless((Match(),)))

    # -- reading -----------------------------------------------------------------------------------------------------

    def test_an_event_is_read_as_it_was_written(self, events: EventStorage) -> None:
        origin = Origin(correlation="order-1", causation="cart-7", user="ada")
        written = NewEvent(
            "Reserved", b'{"user": "\xc3\xa5"}', ("seat:7",), id="e1", schema=3, until_ms=5, origin=origin
        )
        [stored] = events.append(Append((StreamWrite("s", [written]),), "r")).events
        [found] = events.read("s")
        assert found == stored
        assert (found.stream, found.version, found.type, found.data) == ("s", 1, "Reserved", written.data)
        assert (found.tags, found.id, found.schema, found.until_ms) == (("seat:7",), "e1", 3, 5)
        assert (found.request, found.origin) == ("r", origin)
        assert found.time_ms > 0

    def test_a_stream_is_read_both_ways_and_in_part(self, events: EventStorage) -> None:
        append(events, "s", "A", "B", "C", "D")
        append(events, "t", "X")
        assert types(events, "s", after=2) == ["C", "D"]
        assert types(events, "s", after=1, until=3) == ["B", "C"]
        assert types(events, "s", backwards=True) == ["D", "C", "B", "A"]
        assert types(events, "none of these") == []
        assert [events.version(stream) for stream in ("s", "t", "u")] == [4, 1, 0]
        assert events.streams() == ["s", "t"]

    def test_a_long_stream_among_others_is_read_in_order(self, events: EventStorage) -> None:
        for number in range(30):
            append(events, f"other-{number}", "X")
            append(events, "s", *[f"E{number}-{row}" for row in range(40)])
        expected = [f"E{number}-{row}" for number in range(30) for row in range(40)]
        assert types(events, "s") == expected
        assert types(events, "s", backwards=True) == expected[::-1]
        assert [one.version for one in events.read("s")] == [*range(1, 1201)]

    def test_pages_lead_through_all_events_once(self, events: EventStorage) -> None:
        for number in range(7):
            append(events, f"s{number % 3}", f"E{number}")
        found: list[StoredEvent] = []
        page = events.page(limit=2)
        while not page.caught_up:
            found += page.events
            page = events.page(page.offsets, limit=2)
        found += page.events
        assert sorted(one.type for one in found) == [f"E{number}" for number in range(7)]
        assert events.page(page.offsets).events == ()
        append(events, "s0", "new")
        assert [one.type for one in events.page(page.offsets).events] == ["new"]

    def test_pages_of_a_type_or_a_tag_hold_no_others(self, events: EventStorage) -> None:
        events.append(Append((StreamWrite("s", [event("A", tags=("t",)), event("B", tags=("t", "u")), event("A")]),)))
        assert [one.version for one in events.page(match=Match(("A",))).events] == [1, 3]
        assert [one.version for one in events.page(match=Match((), ("t",))).events] == [1, 2]
        assert [one.version for one in events.page(match=Match(("A", "B"), ("t", "u"))).events] == [2]

    def test_a_subscription_says_when_it_has_caught_up_and_goes_on(self, events: EventStorage) -> None:
        append(events, "s", "A", "B")
        subscription = events.subscribe(timeout=30)
        assert [one.type for one in islice(subscription, 2) if isinstance(one, StoredEvent)] == ["A", "B"]
        caught_up = next(subscription)
        assert isinstance(caught_up, CaughtUp)
        append(events, "s", "C")
        live = next(subscription)
        assert isinstance(live, StoredEvent)
        assert live.type == "C"
        resumed = events.subscribe(caught_up.offsets, timeout=30)
        assert next(resumed) == live

    def test_an_empty_topic_is_caught_up_at_once(self, events: EventStorage) -> None:
        assert isinstance(next(events.subscribe(timeout=30)), CaughtUp)

    # -- writers at the same time ------------------------------------------------------------------------------------

    def test_no_update_is_lost_and_none_is_doubled(self, events: EventStorage) -> None:
        """Each writer counts: it appends the number that comes after the newest one it has read."""

        def count(writer: int) -> int:
            conflicts = 0
            for step in range(10):
                while True:
                    version = events.version("counter")
                    try:
                        data = str(version + 1).encode()
                        write = StreamWrite("counter", [event(data=data)], version)
                        events.append(Append((write,), f"{writer}-{step}"))
                        break
                    except ConflictError:
                        conflicts += 1
            return conflicts

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(count, range(8)))
        assert [int(one.data) for one in events.read("counter")] == [*range(1, 81)]

    # -- later -------------------------------------------------------------------------------------------------------

    def test_all_of_it_is_there_after_a_restart(self, events: EventStorage, again: Callable[[], EventStorage]) -> None:
        append(events, "s", "A", "B", request="r")
        events.append(Append((StreamWrite("t", [event("C", tags=("x",))]),)))
        before = [list(events.read(stream)) for stream in ("s", "t")]
        found = again()
        assert [list(found.read(stream)) for stream in ("s", "t")] == before
        assert append(found, "s", "A", "B", request="r").repeated
        with pytest.raises(WrongVersion):
            append(found, "s", "D", expected=1)
        with pytest.raises(UnexpectedEvent):
            append(found, "u", "D", unless=Unless((Match((), ("x",)),)))
        assert append(found, "s", "D", expected=2).version("s") == 3

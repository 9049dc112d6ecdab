"""The test kit of aggregates: given what happened, when a command comes, then this happens. No log, no clock.

given(Seat, Reserved(user="ada")).when("reserve", user="bob").then(Rejected)
given(Seat).when("reserve", user="ada").then(Reserved(user="ada"))
"""

from collections.abc import Sequence
from typing import Any

from headwater.errors import Rejected
from headwater.events.aggregate import Aggregate, Confirmed, Expired
from headwater.events.folding import decide, fold, to_store
from headwater.log.streams.event import Origin, StoredEvent
from headwater.record import Position


class Scenario:
    def __init__(self, aggregate: type[Aggregate], happened: Sequence[object]) -> None:
        definition = aggregate._definition
        for one in happened:
            definition.check_produced(one) if not isinstance(one, tuple) else None
        new = to_store(definition, "1", happened, origin=Origin(), now_ms=0)
        events = [
            StoredEvent(
                definition.stream("1"), row, one.type, one.data, Position("events", 0, row - 1), 0, f"event-{row}",
                schema=one.schema, until_ms=one.until_ms,
            )
            for row, one in enumerate(new, start=1)
        ]  # fmt: skip
        self.state = fold(definition, "1", events).state
        self.happened: list[object] = []
        self.rejected: Rejected | None = None

    def when(self, command: object, /, **arguments: Any) -> "Scenario":
        """Decide a command on the state; several follow each other, each on what the ones before it did."""
        try:
            happened = decide(self.state, command, arguments)
        except Rejected as rejected:
            self.rejected = rejected
            return self
        for one in happened:
            event = getattr(one, "event", one)
            if not isinstance(event, Confirmed | Expired):
                self.state._definition.apply(self.state, event)
            self.state.version += 1
        self.happened += happened
        return self

    def then(self, *expected: object) -> "Scenario":
        """AssertionError unless these events happened; or, for Rejected, unless a command was rejected. A Rejected with
        a text has to be a part of what the command said."""
        refusals = [one for one in expected if one is Rejected or isinstance(one, Rejected)]
        if refusals:
            if self.rejected is None:
                raise AssertionError(f"nothing was rejected; {self.happened} happened")
            text = refusals[0].args[0] if isinstance(refusals[0], Rejected) and refusals[0].args else ""
            if text not in str(self.rejected):
                raise AssertionError(f"it was rejected with {str(self.rejected)!r}, and not {text!r}")
            return self
        if self.rejected is not None:
            raise AssertionError(f"it was rejected: {self.rejected}")
        if self.happened != list(expected):
            raise AssertionError(f"{self.happened} happened, and not {list(expected)}")
        return self

    def then_state(self, **expected: object) -> "Scenario":
        """AssertionError unless these attributes of the state are so."""
        found = {name: getattr(self.state, name) for name in expected}
        if found != expected:
            raise AssertionError(f"the state is {found}, and not {expected}")
        return self


def given(aggregate: type[Aggregate], /, *happened: object) -> Scenario:
    """
    >>> from headwater.events.aggregate import Aggregate
    >>> class Silent(Aggregate): ...
    >>> given(Silent).happened
    []
    """
    return Scenario(aggregate, happened)

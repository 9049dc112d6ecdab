"""Processes: what happened leads to commands, and to time-outs. What they declare; process_runner.py runs them. Pure.

    class Booking(Process):
        follows = (Seat, Payment)
        paid: bool = False

        @react
        def _(self, event: Held, about: Trigger) -> Iterator[Effect]:
            yield do(Payment, about.correlation, "request", seat=about.key)
            yield remind("payment", after=timedelta(minutes=15))

        @react
        def _(self, event: TimedOut, about: Trigger) -> Iterator[Effect]:
            yield do(Payment, self.id, "cancel")

There is one instance for each story (`instance`: the correlation of the event, unless it says otherwise). Its state is
its annotated attributes. A reaction may change them; it is run again after a crash, so that it must do nothing else.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, TypeVar, get_origin, get_type_hints

from headwater.errors import Rejected, UsageError
from headwater.events.aggregate import Aggregate
from headwater.events.codec import of_type, plain
from headwater.log.streams.event import StoredEvent
from headwater.settings import milliseconds

Method = TypeVar("Method", bound=Callable[..., Any])

_reactions: dict[tuple[str, str], list[Callable[..., Any]]] = {}


def react(method: Method) -> Method:
    """A method that is called for each event of the class that the annotation of its first argument names."""
    owner = method.__qualname__.rpartition(".")[0]
    _reactions.setdefault((method.__module__, owner), []).append(method)
    return method


@dataclass(frozen=True)
class Do:
    """A command for an aggregate: it is handled once, also if the process is killed and reacts again."""

    aggregate: type[Aggregate]
    key: str
    command: object
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Remind(NamedTuple):
    """A TimedOut event with this name, so long after the event that is reacted to; it replaces one of the same name."""

    name: str
    after_ms: int


class Forget(NamedTuple):
    """No time-out of this name."""

    name: str


Effect = Do | Remind | Forget


def do(aggregate: type[Aggregate], key: str, command: object, /, **arguments: Any) -> Do:
    return Do(aggregate, key, command, arguments)


def remind(name: str, *, after: timedelta) -> Remind:
    return Remind(name, milliseconds(after))


def forget(name: str) -> Forget:
    return Forget(name)


@dataclass(frozen=True)
class TimedOut:
    name: str


@dataclass(frozen=True)
class Trigger:
    """What is reacted to: the aggregate's key, and the event as it is stored; none for a time-out."""

    key: str
    correlation: str
    time_ms: int
    stored: StoredEvent | None = None


class Process:
    """Extend it. `follows` has the aggregates whose events it may react to."""

    follows: ClassVar[Sequence[type[Aggregate]]] = ()
    _reacting: ClassVar[tuple[Callable[..., Any], ...]] = ()

    id: str

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._reacting = (*cls._reacting, *_reactions.pop((cls.__module__, cls.__qualname__), ()))

    def __init__(self, id: str) -> None:
        self.id = id
        for name in attributes(type(self)):
            if hasattr(type(self), name):
                setattr(self, name, copy.deepcopy(getattr(type(self), name)))

    @classmethod
    def instance(cls, event: object, about: Trigger) -> str:
        """Whose story the event belongs to; "" if it is nobody's."""
        return about.correlation or about.key

    def rejected(self, command: Do, why: Rejected) -> Iterable[Effect]:
        """What to do where an aggregate rejects a command of this process."""
        return ()


def attributes(process: type[Process]) -> dict[str, Any]:
    """The state of a process: annotated attributes, with their types."""
    return {
        name: kind for name, kind in get_type_hints(process).items()
        if name != "id" and not name.startswith("_") and ClassVar not in (kind, get_origin(kind))
    }  # fmt: skip


def reactions(process: type[Process]) -> dict[type, Callable[..., Any]]:
    """What is called for events of each class."""
    found: dict[type, Callable[..., Any]] = {}
    for method in process._reacting:
        names = [*inspect.signature(method).parameters][1:]
        kind = get_type_hints(method).get(names[0]) if names else None
        if not isinstance(kind, type) or len(names) != 2:
            raise UsageError(
                f"{process.__name__}: @react has to say its event: def _(self, event: Held, about: Trigger)"
            )
        found[kind] = method
    return found


@dataclass(frozen=True)
class Instance:
    """The state of one story, as it was after its last reaction, and the time-outs that it waits for."""

    state: Mapping[str, Any]
    timers: Mapping[str, int]

    def restore(self, process: type[Process], id: str) -> Process:
        kinds, made = attributes(process), process(id)
        for name, value in self.state.items():
            if name in kinds:
                setattr(made, name, of_type(kinds[name], value))
        return made


def reacted(process: Process, timers: Mapping[str, int], effects: Iterable[Effect], time_ms: int) -> Instance:
    """The instance after a reaction that had these effects."""
    left = dict(timers)
    for effect in effects:
        if isinstance(effect, Remind):
            left[effect.name] = time_ms + effect.after_ms
        elif isinstance(effect, Forget):
            left.pop(effect.name, None)
    state = {name: plain(getattr(process, name)) for name in attributes(type(process)) if hasattr(process, name)}
    return Instance(state, left)

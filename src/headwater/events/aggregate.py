"""Aggregates: plain Python classes whose state is what their events made of it. Pure.

    class Seat(Aggregate):
        holder: str | None = None

        @command
        def reserve(self, user: str) -> Reserved:
            if self.holder is not None:
                raise Rejected(f"seat {self.id} is taken by {self.holder}")
            return Reserved(user=user)

        @apply
        def _(self, event: Reserved) -> None:
            self.holder = event.user

A command looks at the state and returns what happened: an event, several, or none; it changes nothing. What happened
changes the state, in `apply`, and decides nothing: it runs again whenever the aggregate is loaded. Events are
dataclasses or pydantic models. State is the annotated attributes of the class; `id` and `version` are there by
themselves.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cached_property
from hashlib import blake2b
from types import CodeType
from typing import Any, ClassVar, NamedTuple, TypeVar, get_origin, get_type_hints

from headwater.errors import UsageError
from headwater.events.codec import of_type, plain
from headwater.events.upcasting import Upcast, check_upcasters, schema_version, upcast

Method = TypeVar("Method", bound=Callable[..., Any])
COMMAND = "__headwater_command__"
OWN = ("id", "version", "unconfirmed")
OF_EVENT = ("event_of", "event_key", "event_type")
"""What the value of an event says beside its fields, for those who do not look at keys and headers (projection.py)."""

_appliers: dict[tuple[str, str], list[Callable[..., None]]] = {}
"""Methods decorated in a class body that is being run: several may be called `_`, and only the last keeps the name."""


def command(method: Method) -> Method:
    """A method that may be handled by name, or by the class of its one argument."""
    setattr(method, COMMAND, True)
    return method


def apply(method: Method) -> Method:
    """A method that changes the state as an event says; the annotation of its argument says which."""
    owner = method.__qualname__.rpartition(".")[0]
    _appliers.setdefault((method.__module__, owner), []).append(method)
    return method


class Tentative(NamedTuple):
    """An event that counts at once and is taken out again unless it is confirmed in time."""

    event: object
    within: timedelta


def tentative(event: object, *, within: timedelta) -> Tentative:
    return Tentative(event, within)


@dataclass(frozen=True)
class Confirmed:
    """A tentative event of this aggregate stays; `of` is its id."""

    of: str


@dataclass(frozen=True)
class Expired:
    """A tentative event of this aggregate was not confirmed in time: the state is as if it had not happened."""

    of: str


SETTLING: Mapping[str, Any] = {kind.__name__: kind for kind in (Confirmed, Expired)}
"""Events that every aggregate may have: what became of a tentative one."""


class Unconfirmed(NamedTuple):
    """A tentative event that nothing has confirmed yet."""

    id: str
    event: Any
    until_ms: int


class Aggregate:
    """Extend it. `upcasters` lists changes of the events' shapes; a snapshot is kept every `snapshot_every` events."""

    upcasters: ClassVar[Sequence[Upcast]] = ()
    snapshot_every: ClassVar[int] = 0
    _definition: ClassVar["Definition"]

    id: str
    version: int
    unconfirmed: tuple[Unconfirmed, ...]

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        check_upcasters(cls.upcasters)
        inherited = cls._definition.appliers if hasattr(cls, "_definition") else ()
        cls._definition = Definition(cls, (*inherited, *_appliers.pop((cls.__module__, cls.__qualname__), ())))

    def __init__(self, id: str) -> None:
        self.id, self.version, self.unconfirmed = id, 0, ()
        for name in self._definition.attributes:
            if hasattr(type(self), name):
                setattr(self, name, copy.deepcopy(getattr(type(self), name)))


class Definition:
    """What a class says about its commands, events and state. Annotations are read when they are first needed: a
    class may name events that are defined after it."""

    def __init__(self, aggregate: type[Aggregate], appliers: tuple[Callable[..., None], ...]) -> None:
        self.aggregate, self.appliers = aggregate, appliers

    @property
    def name(self) -> str:
        return self.aggregate.__name__

    def stream(self, id: str) -> str:
        return f"{self.name}-{id}"

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """Annotated attributes that are state, with their types."""
        hints = self._hints(self.aggregate)
        return {
            name: kind for name, kind in hints.items()
            if name not in OWN and not name.startswith("_") and ClassVar not in (kind, get_origin(kind))
        }  # fmt: skip

    @cached_property
    def by_event(self) -> Mapping[str, tuple[type, Callable[..., None]]]:
        """Classes of events and what applies them, by the name of the event."""
        found: dict[str, tuple[type, Callable[..., None]]] = {}
        for method in self.appliers:
            kind = self._argument(method)
            if kind is None:
                raise UsageError(f"{self.name}: @apply has to say its event: def _(self, event: Reserved)")
            found[kind.__name__] = kind, method
        return found

    @cached_property
    def commands(self) -> Mapping[str, Callable[..., Any]]:
        members = inspect.getmembers(self.aggregate, inspect.isfunction)
        return {name: method for name, method in members if hasattr(method, COMMAND)}

    def command_for(self, said: object) -> tuple[Callable[..., Any], tuple[object, ...]]:
        """The method that handles a command, by its name or by its object; and the object, which is its argument."""
        if isinstance(said, str):
            if said in self.commands:
                return self.commands[said], ()
            raise UsageError(f"{self.name} has no command {said!r}; it has {', '.join(self.commands) or 'none'}")
        for method in self.commands.values():
            if self._argument(method) is type(said):
                return method, (said,)
        raise UsageError(f"{self.name} has no command that takes a {type(said).__name__}")

    def _argument(self, method: Callable[..., Any]) -> type | None:
        names = [*inspect.signature(method).parameters][1:2]
        kind = self._hints(method).get(names[0]) if names else None
        return kind if isinstance(kind, type) else None

    def _hints(self, what: Any) -> dict[str, Any]:
        try:
            return get_type_hints(what)
        except NameError as error:
            raise UsageError(f"{self.name}: {error}; define it in the module, not inside a function") from None

    # -- events ------------------------------------------------------------------------------------------------------

    def schema(self, type: str) -> int:
        return schema_version(self.aggregate.upcasters, type)

    def kind(self, name: str) -> type | None:
        """The class of an event, by its name; None if the aggregate has none of this name."""
        return SETTLING.get(name) or self.by_event.get(name, (None,))[0]

    def decoded(self, type: str, schema: int, data: Any) -> Any:
        """The event as an object of its class, from data of any version of its shape."""
        data = {name: one for name, one in data.items() if name not in OF_EVENT}
        if type in SETTLING:
            return of_type(SETTLING[type], data)
        if type not in self.by_event:
            raise UsageError(f"{self.name} has no @apply for {type or 'records without a type'}")
        return of_type(self.by_event[type][0], upcast(self.aggregate.upcasters, type, schema, data))

    def apply(self, state: Aggregate, event: object) -> None:
        self.by_event[type(event).__name__][1](state, event)

    def check_produced(self, event: object) -> None:
        kind = type(event)
        if kind not in (Confirmed, Expired) and self.by_event.get(kind.__name__, (None,))[0] is not kind:
            raise UsageError(f"a command of {self.name} returned a {kind.__name__}, for which it has no @apply")

    # -- state -------------------------------------------------------------------------------------------------------

    def state(self, state: Aggregate) -> dict[str, Any]:
        """The state as JSON has it."""
        return {name: plain(getattr(state, name)) for name in self.attributes if hasattr(state, name)}

    def restore(self, id: str, version: int, said: Mapping[str, Any]) -> Aggregate:
        state = self.aggregate(id)
        state.version = version
        for name, value in said.items():
            setattr(state, name, of_type(self.attributes[name], value))
        return state

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the code of `apply`, an upcaster, or the shape of an event or of the state does. Code that these
        call is not looked at."""
        digest = blake2b(digest_size=16)
        for name, (kind, method) in sorted(self.by_event.items()):
            digest.update(f"{name} {sorted(_shape(kind))}".encode())
            _add_code(digest, method.__code__)
        for one in self.aggregate.upcasters:
            digest.update(f"{one.type} {one.version}".encode())
            _add_code(digest, getattr(one.change, "__code__", None))
        defaults = {name: repr(getattr(self.aggregate, name, None)) for name in self.attributes}
        digest.update(repr([sorted((name, str(kind)) for name, kind in self.attributes.items()), defaults]).encode())
        return digest.hexdigest()


def produced(said: object) -> Iterator[object]:
    """What a command returned, event by event."""
    if said is None:
        return
    if isinstance(said, Tentative) or is_dataclass(said) or hasattr(said, "model_dump"):
        yield said
    elif isinstance(said, Iterable):
        yield from said
    else:
        raise UsageError(f"a command returned {said!r:.80}; it returns an event, several, or None")


def _shape(kind: Any) -> Iterator[tuple[str, str]]:
    if is_dataclass(kind):
        yield from ((field.name, str(field.type)) for field in fields(kind))
    else:
        yield from ((name, str(field)) for name, field in getattr(kind, "model_fields", {}).items())


def _add_code(digest: Any, code: CodeType | None) -> None:
    if code is None:
        return
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())

"""Events, and how they lie in records. Pure.

    key       the stream that the event belongs to, in UTF-8
    value     what happened, in the bytes that the writer chose (JSON, by headwater.events)
    headers   event-type        what happened, by name: Reserved
              event-version     of the stream after it, in decimal; the first event of a stream makes it 1
              event-schema      version of the event's shape, in decimal; left out for 1
              event-id          unique; a UUID where the writer gave none
              event-tag         one header for each tag
              event-until       milliseconds; the event is tentative until then (headwater.events)
              request-id        of the append that stored it: an append that is repeated stores nothing
              correlation-id    of the whole story; causation-id: of the event or command that led to this one
              event-user        who did it
    time      when it was appended

Any Kafka consumer and any flow reads the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import NAMESPACE_OID, uuid4, uuid5

from headwater.errors import UsageError
from headwater.record import Header, Position, Record

TYPE, VERSION, SCHEMA, ID, TAG, UNTIL = (
    "event-type", "event-version", "event-schema", "event-id", "event-tag", "event-until",
)  # fmt: skip
REQUEST, CORRELATION, CAUSATION, USER = "request-id", "correlation-id", "causation-id", "event-user"
STREAM_BYTES_MAX, NAME_BYTES_MAX = 1024, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Why an event was stored, and for whom."""

    correlation: str = ""
    causation: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class NewEvent:
    type: str
    data: bytes
    tags: Sequence[str] = ()
    id: str = ""
    schema: int = 1
    until_ms: int = 0
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event, its stream, and where both are: `version` of the stream after it, `position` of its record."""

    stream: str
    version: int
    type: str
    data: bytes
    position: Position
    time_ms: int
    id: str = ""
    tags: tuple[str, ...] = ()
    schema: int = 1
    until_ms: int = 0
    request: str = ""
    origin: Origin = field(default_factory=Origin)


def check_event(event: NewEvent) -> None:
    """UsageError if it could not be found again by its type or tags."""
    for name in (event.type, *event.tags):
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            raise UsageError(f"{name[:80]!r} cannot name a type or tag of an event: 1 to {NAME_BYTES_MAX} bytes can")


def stream_key(stream: str) -> bytes:
    """
    >>> stream_key("seat-12A")
    b'seat-12A'
    """
    key = stream.encode()
    if not 1 <= len(key) <= STREAM_BYTES_MAX:
        raise UsageError(f"{stream[:80]!r} cannot name a stream: 1 to {STREAM_BYTES_MAX} bytes can")
    return key


def record_of(event: NewEvent, stream: str, *, version: int, request: str, now_ms: int) -> Record:
    id = event.id or (str(uuid5(NAMESPACE_OID, f"{stream}\0{version}\0{request}")) if request else str(uuid4()))
    said = {
        TYPE: event.type,
        VERSION: str(version),
        ID: id,
        SCHEMA: str(event.schema) if event.schema != 1 else "",
        UNTIL: str(event.until_ms) if event.until_ms else "",
        REQUEST: request,
        CORRELATION: event.origin.correlation,
        CAUSATION: event.origin.causation,
        USER: event.origin.user,
    }
    headers: list[Header] = [(name, text.encode()) for name, text in said.items() if text]
    headers += [(TAG, tag.encode()) for tag in event.tags]
    return Record(event.data, stream_key(stream), headers, now_ms)


def said_of(record: Record) -> dict[str, str]:
    """Its headers but for tags, each as text; what is not text is replaced."""
    return {name: (value or b"").decode(errors="replace") for name, value in record.headers if name != TAG}


def tags_of(record: Record) -> tuple[str, ...]:
    return tuple((value or b"").decode(errors="replace") for name, value in record.headers if name == TAG)


def number_in(said: Mapping[str, str], name: str, default: int) -> int:
    """
    >>> number_in({"event-version": "7", "event-schema": "new"}, "event-version", 0)
    7
    >>> number_in({"event-schema": "new"}, "event-schema", 1)
    1
    """
    text = said.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else default


def event_of(record: Record, *, topic: str, partition: int, version: int) -> StoredEvent:
    """Also of a record of a plain producer: it has no type, and no id but its position."""
    said = said_of(record)
    position = Position(topic, partition, record.offset)
    return StoredEvent(
        stream=(record.key or b"").decode(errors="replace"),
        version=version,
        type=said.get(TYPE, ""),
        data=bytes(record.value or b""),
        position=position,
        time_ms=record.timestamp_ms,
        id=said.get(ID) or f"{topic}/{partition}@{record.offset}",
        tags=tags_of(record),
        schema=number_in(said, SCHEMA, 1),
        until_ms=number_in(said, UNTIL, 0),
        request=said.get(REQUEST, ""),
        origin=Origin(
            correlation=said.get(CORRELATION, ""), causation=said.get(CAUSATION, ""), user=said.get(USER, "")
        ),
    )

"""Keys and values of the topic that keeps the registry: JSON, in the layout of Confluent's. Pure.

    key    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    value  {"subject":"orders-value","version":1,"id":7,"schemaType":"JSON","references":[...],"schema":"...",
            "deleted":false}                    schemaType is left out for Avro, references where there are none

    key    {"keytype":"CONFIG","subject":null,"magic":0}           null: of the registry, else of the subject
    value  {"compatibilityLevel":"FULL"}

    key    {"keytype":"LAST_ID","magic":0}      ours: written where the newest schema is deleted for good, so that its
    value  {"id":7}                             id is not given to another

No value deletes the key. Keys of other kinds are skipped.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.errors import CorruptBatch, InvalidCompatibility
from headwater.registry.words import AVRO, Compatibility, Reference, SchemaText, Version


class VersionKey(NamedTuple):
    subject: str
    number: int


class LevelKey(NamedTuple):
    subject: str | None
    """None: what counts where a subject says nothing."""


class LastIdKey(NamedTuple):
    pass


class Entry(NamedTuple):
    """One thing to remember, or with None to forget."""

    key: VersionKey | LevelKey | LastIdKey
    value: Version | Compatibility | int | None


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value of the record. The same key gives the same bytes, or compaction would keep both."""
    match entry.key:
        case VersionKey(subject, number):
            key: dict[str, Any] = {"keytype": "SCHEMA", "subject": subject, "version": number, "magic": 1}
        case LevelKey(subject):
            key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
        case _:
            key = {"keytype": "LAST_ID", "magic": 0}
    value: dict[str, Any] | None = None
    if isinstance(entry.value, Version):
        value = _version(entry.value)
    elif isinstance(entry.value, Compatibility):
        value = {"compatibilityLevel": entry.value.value}
    elif entry.value is not None:
        value = {"id": entry.value}
    return _bytes(key), None if value is None else _bytes(value)


def decode(key: bytes, value: bytes | None) -> Entry | None:
    """Decodes a record; None for kinds of records that are not ours. CorruptBatch if it cannot be read."""
    try:
        named, said = json.loads(key), None if value is None else json.loads(value)
        match named.get("keytype"):
            case "SCHEMA":
                found: VersionKey | LevelKey | LastIdKey = VersionKey(str(named["subject"]), int(named["version"]))
                return Entry(found, None if said is None else _read_version(said))
            case "CONFIG":
                subject = named.get("subject")
                found = LevelKey(None if subject is None else str(subject))
                return Entry(found, None if said is None else Compatibility.called(said.get("compatibilityLevel")))
            case "LAST_ID":
                return Entry(LastIdKey(), None if said is None else int(said["id"]))
    except (ValueError, KeyError, TypeError, AttributeError, InvalidCompatibility) as error:
        raise CorruptBatch(f"a schema record cannot be read: {error}") from None
    return None


def _version(version: Version) -> dict[str, Any]:
    said: dict[str, Any] = {"subject": version.subject, "version": version.number, "id": version.id}
    if version.schema.kind != AVRO:
        said["schemaType"] = version.schema.kind
    if version.schema.references:
        said["references"] = [reference._asdict() for reference in version.schema.references]
    return {**said, "schema": version.schema.text, "deleted": version.deleted}


def _read_version(said: Mapping[str, Any]) -> Version:
    references = tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"])) for one in said.get("references") or ()
    )
    schema = SchemaText(str(said["schema"]), str(said.get("schemaType") or AVRO), references)
    return Version(
        str(said["subject"]), int(said["version"]), int(said["id"]), schema, deleted=bool(said.get("deleted"))
    )


def _bytes(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()

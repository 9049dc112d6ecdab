"""Keys and values of the topic that keeps users, permissions and quotas. Pure.

    ["user","alice"]                {"SCRAM-SHA-256": {"salt": …, "iterations": …, "stored": …, "server": …}}
    ["acl","TOPIC","LITERAL","orders","User:alice","*","READ","ALLOW"]          {}
    ["quota",[["user","alice"]]]    {"producer_byte_rate": 1000000.0}

All are JSON; bytes are in base64. A null value deletes its key, and compaction keeps the newest of each.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from headwater.access.acls import Acl, Operation, Pattern, Permission, ResourceType, problem_of
from headwater.access.quotas import CLIENT, USER, Entity
from headwater.access.scram import MECHANISMS, Credential
from headwater.errors import CorruptBatch

Credentials = Mapping[str, Credential]
"""Of one user, by mechanism."""


class UserKey(NamedTuple):
    name: str


Key = UserKey | Acl | Entity
Value = Credentials | Mapping[str, float] | None
"""None: forget the key. The value of an ACL is empty."""


class Entry(NamedTuple):
    key: Key
    value: Value


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value of a record."""
    key, value = entry
    if isinstance(key, UserKey):
        return _json(["user", key.name]), None if value is None else _json(_credentials_out(value))  # type: ignore[arg-type]
    if isinstance(key, Acl):
        names = [one.name if isinstance(one, ResourceType | Pattern | Operation | Permission) else one for one in key]
        return _json(["acl", *names]), None if value is None else _json({})
    return _json(["quota", key.parts]), None if value is None else _json(dict(value))


def decode(key: bytes, value: bytes | None) -> Entry | None:
    """None for kinds of entries that are not known; CorruptBatch if one cannot be read."""
    try:
        kind, *rest = json.loads(key)
        content = None if value is None else json.loads(value)
        match kind:
            case "user":
                return Entry(UserKey(str(rest[0])), None if content is None else _credentials_in(content))
            case "acl":
                return Entry(_acl_in(rest), content)
            case "quota":
                return Entry(_entity_in(rest[0]), None if content is None else _limits_in(content))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise CorruptBatch(f"an entry of users and permissions cannot be read ({type(error).__name__})") from None
    return None


def _acl_in(fields: list[str]) -> Acl:
    kind, pattern, resource, principal, host, operation, permission = fields
    acl = Acl(
        ResourceType[kind], Pattern[pattern], resource, principal, host, Operation[operation], Permission[permission]
    )
    if problem_of(acl):
        raise ValueError(problem_of(acl))
    return acl


def _entity_in(parts: list[list[str | None]]) -> Entity:
    if not parts or any(kind not in (USER, CLIENT) for kind, _ in parts):
        raise ValueError("no such entity")
    return Entity(tuple(sorted((str(kind), name) for kind, name in parts)))


def _limits_in(content: Mapping[str, float]) -> dict[str, float]:
    limits = {str(key): float(limit) for key, limit in content.items()}
    if any(not math.isfinite(limit) or limit <= 0 for limit in limits.values()):
        raise ValueError("a limit is above zero")
    return limits


def _credentials_in(content: Mapping[str, Mapping[str, str | int]]) -> dict[str, Credential]:
    return {
        name: Credential(
            base64.b64decode(str(said["salt"]), validate=True),
            int(said["iterations"]),
            base64.b64decode(str(said["stored"]), validate=True),
            base64.b64decode(str(said["server"]), validate=True),
        )
        for name, said in content.items()
        if name in MECHANISMS
    }


def _credentials_out(credentials: Credentials) -> dict[str, dict[str, str | int]]:
    return {
        name: {
            "salt": base64.b64encode(one.salt).decode(),
            "iterations": one.iterations,
            "stored": base64.b64encode(one.stored_key).decode(),
            "server": base64.b64encode(one.server_key).decode(),
        }
        for name, one in credentials.items()
    }


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")

"""Requests of the group APIs, in any version, from the fields of all versions together."""

import dataclasses
import typing
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema

from headwater.wire.routes import ROUTES
from tests.wire.raw_client import RawClient

JOINING = {
    "session_timeout": timedelta(seconds=10),
    "rebalance_timeout": timedelta(seconds=10),
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"meta"}],
}


def versions_of(name: str) -> list[int]:
    return next(list(route.versions) for route in ROUTES if route.name == name)


def request(name: str, version: int, **fields: Any) -> Any:
    """A kio request; fields that this version does not have are left out, parts of arrays are given as dictionaries."""
    api_key = next(route.api_key for route in ROUTES if route.name == name)
    return _entity(load_request_schema(api_key, version), fields)


def _entity(kind: Any, fields: dict[str, Any]) -> Any:
    known = {field.name: field for field in dataclasses.fields(kind)}
    return kind(**{name: _value(known[name].type, value) for name, value in fields.items() if name in known})


def _value(annotation: Any, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(_entity(_part(annotation), one) if isinstance(one, dict) else one for one in value)


def _part(annotation: Any) -> Any:
    """The type of an array's elements: tuple[X, ...], perhaps with None as an alternative."""
    arrays = [annotation, *typing.get_args(annotation)]
    return next(typing.get_args(one)[0] for one in arrays if typing.get_origin(one) is tuple)


class Caller:
    """A client that speaks one version of each API, as far as there is one."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def ask(self, name: str, version: int | None = None, **fields: Any) -> Any:
        return self._client.call(request(name, versions_of(name)[-1] if version is None else version, **fields))

    def node(self) -> Any:
        asked = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
        return self.ask("describe_cluster", 0, **asked).brokers[0]

    def ask_and_go_on(self, name: str, version: int, **fields: Any) -> None:
        """Send a request without waiting for its answer."""
        self._client.send_request(request(name, version, **fields))

    def join(self, group: str = "g", member_id: str = "", *, version: int = 9, **fields: Any) -> Any:
        """One answer to one JoinGroup request."""
        return self.ask("join_group", version, group_id=group, member_id=member_id, **{**JOINING, **fields})

    def become_member(self, group: str = "g", *, version: int = 9, **fields: Any) -> Any:
        """Join, a second time with the id that the first answer gave."""
        joined = self.join(group, version=version, **fields)
        if joined.error_code.name == "member_id_required":
            joined = self.join(group, joined.member_id, version=version, **fields)
        assert joined.error_code == 0, joined
        return joined

    def sync(self, joined: Any, group: str = "g", *, version: int = 5, **fields: Any) -> Any:
        """The leader assigns b"all" to every member."""
        shares = [{"member_id": member.member_id, "assignment": b"all"} for member in joined.members]
        return self.ask(
            "sync_group", version, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id,
            **{"assignments": shares, "group_instance_id": None, **fields},
        )  # fmt: skip

    def stable_member(self, group: str = "g", **fields: Any) -> Any:
        joined = self.become_member(group, **fields)
        assert self.sync(joined, group).assignment == b"all"
        return joined

    def commit(self, offsets: dict[tuple[str, int], int], group: str = "g", *, version: int = 9, **fields: Any) -> Any:
        topics = [
            {"name": topic, "partitions": [_partition(number, offset)]} for (topic, number), offset in offsets.items()
        ]
        defaults = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        return self.ask("offset_commit", version, group_id=group, **{**defaults, **fields})


def _partition(number: int, offset: int) -> dict[str, Any]:
    return {"partition_index": number, "committed_offset": offset, "committed_metadata": None}

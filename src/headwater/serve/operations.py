"""GET /groups, /flows, /captures, /alerts, /health and /ready: how things are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headwater.errors import TopicOffline, UnavailableError, UnknownGroup, UnknownPartition, UnknownQueue, UnknownTopic
from headwater.log.groups.member import DescribedGroup
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.record import TopicPartition
from headwater.serve.answers import Asked, Invalid, json_response
from headwater.serve.endpoints import Endpoint, text
from headwater.serve.log_problems import OFFLINE, UNREADABLE, log_problems

GROUP = text("group", "the name of the group", in_path=True)
FLOW = text("flow", "the name of the flow, as APP.JOB", in_path=True)
CAPTURE = text("capture", "the name of the capture", in_path=True)
ALERT = text("alert", "the name of the alert, as APP.ALERT", in_path=True)
SHARE = "share"
OBJECT: dict[str, Any] = {"type": "object"}
LIST: dict[str, Any] = {"type": "array", "items": OBJECT}
GROUP_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "state", "members", "lag", "partitions"],
    "properties": {
        "name": {"type": "string"},
        "state": {"type": "string"},
        "members": {"type": "integer"},
        "lag": {"type": "integer", "description": "records that it has not read yet, all partitions together"},
        "partitions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "topic": {"type": "string"},
                    "partition": {"type": "integer"},
                    "offset": {"type": "integer"},
                    "end": {"type": "integer"},
                    "lag": {"type": "integer"},
                },
            },
        },
    },
}


PROBLEMS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["flow", "kind", "text", "since_ms"],
        "properties": {
            "flow": {"type": "string", "description": "empty if it is not one of a flow"},
            "topic": {"type": "string", "description": "of which something cannot be read; not there if it is a flow"},
            "kind": {"type": "string", "enum": ["failed", "retrying", "warning", OFFLINE, UNREADABLE]},
            "text": {"type": "string", "description": "what is wrong, and the way out"},
            "since_ms": {"type": ["integer", "null"], "description": "when it first failed"},
            "last_ms": {"type": ["integer", "null"], "description": "when it last failed"},
            "count": {"type": "integer", "description": "failures in a row"},
            "next_attempt_ms": {"type": ["integer", "null"]},
        },
    },
}


class Reports(Protocol):
    """Returns the reports of another part as JSON objects. Called on threads."""

    def __call__(self) -> Sequence[Mapping[str, Any]]: ...


class Control(Protocol):
    """Asks something of a flow, or of all of an app; answers their names. Called on threads."""

    def __call__(self, flow: str, what: str) -> Sequence[str]: ...


class RemoveCapture(Protocol):
    """Asks for the end of a capture; with `force` also where its database cannot be reached. Called on threads."""

    def __call__(self, name: str, force: bool) -> None: ...


class Sources(NamedTuple):
    """The functions that report the state of the node's other parts."""

    groups: Callable[[], Sequence[DescribedGroup]]
    flows: Reports
    """Each has a `name`, APP.JOB."""
    captures: Reports
    """Each has a `name`."""
    alerts: Reports = lambda: ()
    """Each has a `name`, APP.ALERT."""
    control: Control | None = None
    problems: Reports = lambda: ()
    """Problems that need attention: each has a `flow`, a `kind` and a `text`."""
    remove_capture: RemoveCapture | None = None


class Operations:
    def __init__(self, log: Log, sources: Sources) -> None:
        self._log, self._sources = log, sources

    def endpoints(self) -> list[Endpoint]:
        missing = (404,)
        listed = {"type": "array", "items": GROUP_SCHEMA}
        return [
            Endpoint("/groups", "All groups and their lag", self.groups, listed, tag="groups", operation="listGroups"),
            Endpoint(
                "/groups/{group}", "One group", self.group, GROUP_SCHEMA, (GROUP,), missing, tag="groups",
                operation="describeGroup",
            ),
            Endpoint("/flows", "All flows: status and accounts", self.flows, LIST, tag="flows", operation="listFlows"),
            Endpoint(
                "/flows/{flow}", "One flow", self.flow, OBJECT, (FLOW,), missing, tag="flows",
                operation="describeFlow",
            ),
            Endpoint(
                "/problems", "Flows that fail, topics with damage, and warnings", self.problems, PROBLEMS, tag="flows",
                operation="listProblems",
            ),
            Endpoint("/captures", "All captures", self.captures, LIST, tag="captures", operation="listCaptures"),
            Endpoint(
                "/captures/{capture}", "One capture", self.capture, OBJECT, (CAPTURE,), missing, tag="captures",
                operation="describeCapture",
            ),
            Endpoint("/alerts", "All alerts, what they hold", self.alerts, LIST, tag="alerts", operation="listAlerts"),
            Endpoint(
                "/alerts/{alert}", "One alert", self.alert, OBJECT, (ALERT,), missing, tag="alerts",
                operation="describeAlert",
            ),
            Endpoint("/health", "Is the process alive", self.health, OBJECT, tag="node", operation="health"),
            Endpoint("/ready", "Can it serve all it has", self.ready, OBJECT, tag="node", operation="ready"),
        ]  # fmt: skip

    def groups(self, asked: Asked) -> list[dict[str, Any]]:
        return [self._group(one) for one in self._sources.groups()]

    def group(self, asked: Asked) -> object:
        found = [one for one in self._sources.groups() if one.id == asked["group"]]
        if not found:
            raise UnknownGroup(asked["group"][:200])
        return self._group(found[0])

    def _committed(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        try:
            return self._log.group_offsets.fetch(group)
        except TopicOffline:
            return {}  # the topic of offsets is offline, which the list of topics reports

    def _group(self, group: DescribedGroup) -> dict[str, Any]:
        if group.kind == SHARE:
            return self._share_group(group)
        partitions = []
        for partition, committed in sorted(self._committed(group.id).items()):
            try:
                end = self._log.partition(*partition).high_watermark
            except (UnknownTopic, UnknownPartition, TopicOffline):
                continue  # just deleted, or reported elsewhere
            lag = max(0, end - committed.offset)
            partitions.append({**partition._asdict(), "offset": committed.offset, "end": end, "lag": lag})
        return {
            "name": group.id,
            "state": str(group.state),
            "members": len(group.members),
            "lag": sum(one["lag"] for one in partitions),
            "partitions": partitions,
        }

    def _share_group(self, group: DescribedGroup) -> dict[str, Any]:
        """Its lag is the messages that are not done."""
        try:
            described = self._log.queues.get(group.id).describe()
        except (UnknownQueue, UnavailableError):
            described = []
        partitions = [
            {"topic": one.topic, "partition": one.partition, "offset": one.start, "end": one.end, "lag": one.depth}
            for one in described
        ]
        consumers = {consumer for one in described for consumer in one.consumers}
        return {
            "name": group.id, "state": str(group.state), "members": len(consumers),
            "lag": sum(one.depth for one in described), "partitions": partitions,
        }  # fmt: skip

    def flows(self, asked: Asked) -> Sequence[Mapping[str, Any]]:
        return self._sources.flows()

    def flow(self, asked: Asked) -> object:
        return _named(self._sources.flows(), asked["flow"], "flow")

    def problems(self, asked: Asked) -> Sequence[Mapping[str, Any]]:
        return [*log_problems(self._log), *self._sources.problems()]

    def captures(self, asked: Asked) -> Sequence[Mapping[str, Any]]:
        return self._sources.captures()

    def capture(self, asked: Asked) -> object:
        return _named(self._sources.captures(), asked["capture"], "capture")

    def alerts(self, asked: Asked) -> Sequence[Mapping[str, Any]]:
        return self._sources.alerts()

    def alert(self, asked: Asked) -> object:
        return _named(self._sources.alerts(), asked["alert"], "alert")

    def health(self, asked: Asked) -> object:
        return {"status": "alive"}

    def ready(self, asked: Asked) -> object:
        offline = [f"{one.topic}/{one.number}" for one in self._log.partitions() if one.offline]
        offline += list(self._log.offline_topics())
        if offline:
            names = ", ".join(offline[:20])
            message = f"{len(offline)} partitions or topics are offline: {names}; the log of the node says why"
            return json_response({"error_code": 503, "error": "PartitionOffline", "message": message}, 503)
        return {"status": "ready", "topics": len(self._log.topics())}


def _named(found: Sequence[Mapping[str, Any]], name: str, kind: str) -> Mapping[str, Any]:
    for one in found:
        if one["name"] == name:
            return one
    known = ", ".join(str(one["name"]) for one in found[:50]) or "none"
    raise Invalid(f"there is no {kind} {name[:80]!r}; there are: {known}", status=404, name=f"Unknown{kind.title()}")

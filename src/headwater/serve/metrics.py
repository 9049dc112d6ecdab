"""GET /metrics: figures as Prometheus reads them.

Topics and groups have the names that the widely used exporter for Kafka gives them, so that dashboards and alerts that
exist work unchanged; what Kafka has no word for is ours and begins with headwater_.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from headwater.log.log import Log
from headwater.serve.answers import Asked
from headwater.serve.endpoints import Endpoint
from headwater.serve.operations import Operations
from headwater.serve.views import Views

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


FLOW_STATES = ("running", "retrying", "failed", "paused", "stopped")


class Sample(NamedTuple):
    name: str
    value: float
    labels: Mapping[str, object] = {}


# Name, kind, and what it means. Only the metrics listed here are exported.
METRICS: dict[str, tuple[str, str]] = {
    "kafka_brokers": ("gauge", "Number of brokers."),
    "kafka_topic_partitions": ("gauge", "Number of partitions of a topic."),
    "kafka_topic_partition_current_offset": ("gauge", "The offset that the next record will have."),
    "kafka_topic_partition_oldest_offset": ("gauge", "The oldest offset that is kept."),
    "kafka_topic_partition_leader": ("gauge", "Id of the broker that leads a partition."),
    "kafka_topic_partition_replicas": ("gauge", "Number of replicas of a partition."),
    "kafka_topic_partition_in_sync_replica": ("gauge", "Number of replicas that are in sync."),
    "kafka_topic_partition_leader_is_preferred": ("gauge", "1 if the preferred broker leads."),
    "kafka_topic_partition_under_replicated_partition": ("gauge", "1 if a replica is missing: here, if it is offline."),
    "kafka_consumergroup_members": ("gauge", "Members of a group."),
    "kafka_consumergroup_current_offset": ("gauge", "The offset at which a group resumes reading."),
    "kafka_consumergroup_current_offset_sum": ("gauge", "The same, all partitions of a topic together."),
    "kafka_consumergroup_lag": ("gauge", "Records that a group has not read yet."),
    "kafka_consumergroup_lag_sum": ("gauge", "The same, all partitions of a topic together."),
    "headwater_topic_bytes": ("gauge", "What a topic takes on the disk."),
    "headwater_flow_running": ("gauge", "1 if the flow runs; 0 if it fails, is paused, or is not started."),
    "headwater_flow_state": ("gauge", "1 for the state that a flow is in, 0 for the others."),
    "headwater_flow_failures_total": ("counter", "How often a flow has failed since it was first run."),
    "headwater_flow_failing_seconds": ("gauge", "When the failures under way began; since 1970. Absent if it works."),
    "headwater_flow_warnings": ("gauge", "Warnings of a flow that need attention."),
    "headwater_topic_offline": ("gauge", "1 for a topic that could not be opened; GET /topics says why."),
    "headwater_partition_unreadable_ranges": ("gauge", "Ranges of offsets that are missing or in quarantine."),
    "headwater_partition_unreadable_offsets": ("gauge", "How many offsets these ranges have."),
    "headwater_flow_batch": ("gauge", "The last batch that is finished."),
    "headwater_flow_lag_records": ("gauge", "Records that a flow has not read yet."),
    "headwater_flow_state_bytes": ("gauge", "What a flow keeps from batch to batch."),
    "headwater_flow_last_batch_age_seconds": ("gauge", "How long ago the last batch ended."),
    "headwater_flow_watermark_seconds": ("gauge", "Nothing before this time is waited for; since 1970."),
    "headwater_flow_rows_total": ("counter", "Rows of an output, by what became of them; in + expanded = all others."),
    "headwater_view_writes_total": ("counter", "Writes that brought rows to a view."),
    "headwater_view_updated_seconds": ("gauge", "When a view was last written; since 1970."),
    "headwater_capture_running": ("gauge", "1 if a capture copies or follows its database."),
    "headwater_capture_lag_seconds": ("gauge", "The lag of a capture behind its database."),
    "headwater_capture_retained_bytes": ("gauge", "What a database keeps of its own log (WAL) for a capture."),
    "headwater_alert_raised_keys": ("gauge", "Keys of which an alert is raised."),
    "headwater_alert_pending_keys": ("gauge", "Keys that meet an alert's condition, but not yet for long enough."),
    "headwater_live_subscribers": ("gauge", "Who follows a topic or a view over HTTP."),
    "headwater_live_catch_up_total": ("counter", "Readings of changes that no subscriber had read yet."),
    "headwater_live_hung_up_total": ("counter", "Subscribers that left their changes unread for too long."),
}


class Metrics:
    def __init__(
        self, log: Log, operations: Operations, views: Views, live: Callable[[], Mapping[str, int]], *, node_id: int = 1
    ) -> None:
        self._log, self._operations, self._views, self._live, self._node_id = log, operations, views, live, node_id

    def endpoint(self) -> Endpoint:
        return Endpoint(
            "/metrics", "Figures for Prometheus", self.answer, {"type": "string"}, media_type="text/plain", tag="node",
            operation="metrics",
        )  # fmt: skip

    def answer(self, asked: Asked) -> Response:
        samples = [*self._topics(), *self._groups(), *self._flows(), *self._others()]
        return Response(exposition(samples), headers={"content-type": MEDIA_TYPE})

    def _topics(self) -> Iterator[Sample]:
        yield Sample("kafka_brokers", 1)
        for topic in self._log.topics():
            yield Sample("kafka_topic_partitions", topic.partitions, {"topic": topic.name})
            size = 0
            for number in range(topic.partitions):
                one = self._log.partition(topic.name, number)
                size += one.size_bytes
                labels = {"topic": topic.name, "partition": number}
                yield Sample("kafka_topic_partition_current_offset", one.high_watermark, labels)
                yield Sample("kafka_topic_partition_oldest_offset", one.start_offset, labels)
                yield Sample("kafka_topic_partition_leader", self._node_id, labels)
                yield Sample("kafka_topic_partition_replicas", 1, labels)
                yield Sample("kafka_topic_partition_in_sync_replica", int(not one.offline), labels)
                yield Sample("kafka_topic_partition_leader_is_preferred", 1, labels)
                yield Sample("kafka_topic_partition_under_replicated_partition", int(one.offline), labels)
                unreadable = one.unreadable
                yield Sample("headwater_partition_unreadable_ranges", len(unreadable), labels)
                offsets = sum(gap.end_offset - gap.first_offset for gap in unreadable)
                yield Sample("headwater_partition_unreadable_offsets", offsets, labels)
            yield Sample("headwater_topic_bytes", size, {"topic": topic.name})
        for name in self._log.offline_topics():
            yield Sample("headwater_topic_offline", 1, {"topic": name})

    def _groups(self) -> Iterator[Sample]:
        for group in self._operations.groups({}):
            name = {"consumergroup": group["name"]}
            yield Sample("kafka_consumergroup_members", group["members"], name)
            sums: dict[str, list[int]] = {}
            for one in group["partitions"]:
                labels = {**name, "topic": one["topic"], "partition": one["partition"]}
                yield Sample("kafka_consumergroup_current_offset", one["offset"], labels)
                yield Sample("kafka_consumergroup_lag", one["lag"], labels)
                offset, lag = sums.get(one["topic"], [0, 0])
                sums[one["topic"]] = [offset + one["offset"], lag + one["lag"]]
            for topic, (offset, lag) in sums.items():
                yield Sample("kafka_consumergroup_current_offset_sum", offset, {**name, "topic": topic})
                yield Sample("kafka_consumergroup_lag_sum", lag, {**name, "topic": topic})

    def _flows(self) -> Iterator[Sample]:
        for flow in self._operations.flows({}):
            name = {"flow": flow["name"]}
            failing_ms = flow.get("failed_first_ms") if flow.get("reason") else None
            known = {
                "headwater_flow_running": int(flow["running"]),
                "headwater_flow_failures_total": flow.get("failures_total"),
                "headwater_flow_failing_seconds": _part(failing_ms, 1e3),
                "headwater_flow_warnings": len(flow.get("warnings", ())),
                "headwater_flow_batch": flow["batch"],
                "headwater_flow_lag_records": flow["lag"],
                "headwater_flow_state_bytes": flow["state_bytes"],
                "headwater_flow_last_batch_age_seconds": _part(flow["since_ms"], 1e3),
                "headwater_flow_watermark_seconds": _part(flow["watermark_us"], 1e6),
            }
            for metric, value in known.items():
                if value is not None:
                    yield Sample(metric, value, name)
            for state in FLOW_STATES:
                yield Sample("headwater_flow_state", int(flow.get("state") == state), {**name, "state": state})
            for output in flow["outputs"]:
                for what, count in output["total"].items():
                    labels = {**name, "output": output["name"], "what": what}
                    yield Sample("headwater_flow_rows_total", count, labels)

    def _others(self) -> Iterator[Sample]:
        for view in self._views.listed({}):
            yield Sample("headwater_view_writes_total", view["change"], {"view": view["name"]})
            yield Sample("headwater_view_updated_seconds", view["updated_ms"] / 1000, {"view": view["name"]})
        for capture in self._operations.captures({}):
            name = {"capture": capture["name"]}
            yield Sample("headwater_capture_running", int(capture["state"] in ("copying", "streaming")), name)
            if isinstance(capture.get("lag_seconds"), int | float):
                yield Sample("headwater_capture_lag_seconds", capture["lag_seconds"], name)
            if isinstance(capture.get("retained_bytes"), int):
                yield Sample("headwater_capture_retained_bytes", capture["retained_bytes"], name)
        for alert in self._operations.alerts({}):
            yield Sample("headwater_alert_raised_keys", alert["raised"], {"alert": alert["name"]})
            yield Sample("headwater_alert_pending_keys", alert["pending"], {"alert": alert["name"]})
        for metric, value in self._live().items():
            yield Sample(metric, value)


def _part(value: Any, divisor: float) -> float | None:
    return None if value is None else float(value) / divisor


def exposition(samples: list[Sample]) -> str:
    """The text that Prometheus reads: samples of one name stand together.

    >>> print(exposition([Sample("kafka_topic_partitions", 4, {"topic": "orders"})]), end="")
    # HELP kafka_topic_partitions Number of partitions of a topic.
    # TYPE kafka_topic_partitions gauge
    kafka_topic_partitions{topic="orders"} 4
    """
    found: dict[str, list[Sample]] = {name: [] for name in METRICS}
    for sample in samples:
        found[sample.name].append(sample)
    lines = []
    for name, (kind, about) in METRICS.items():
        if found[name]:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *map(_line, found[name])]
    return "".join(f"{line}\n" for line in lines)


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in sample.labels.items())
    shown = f"{{{labels}}}" if labels else ""
    return f"{sample.name}{shown} {sample.value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

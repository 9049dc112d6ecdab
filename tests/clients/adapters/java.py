"""Kafka's own Java client, from Maven Central, driven through a small program in ../java that reads commands."""

import base64
import functools
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.brokers.maven import compiled, java_command, kafka_class_path
from tests.clients.client import Client, ClusterDescription, GroupDescription, Refused, TopicDescription
from tests.clients.membership import Membership
from tests.clients.message import PLAINLY, Message, Producing, Receipt
from tests.clients.sharing import JavaSharing, Sharing
from tests.clients.transactional import Transactional
from tests.waiting import Alarm

SOURCES = Path(__file__).parent.parent / "java"
ANSWER_PATIENCE_S = 60
# Starts faster and leaves the cores to the broker; a test runs too short for the second compiler to pay.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto")


def class_path() -> str:
    """Where the compiled program and the client's jars are."""
    return compiled("java-client", tuple(sorted(SOURCES.glob("*.java"))), kafka_class_path())


class Java(Client):
    name = "java"
    features = frozenset({"receipts", "timestamps", "binary", "static", "cooperative", "refusals", "consumer_protocol"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        command = [java_command(), *JVM_OPTIONS, "-cp", class_path(), "ConformanceClient", bootstrap]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def close(self) -> None:
        # Not by the end of its input alone: a client that waits for a broker would be waited for.
        self._process.terminate()
        self._process.communicate()

    def produce(self, topic: str, messages: Sequence[Message], how: Producing = PLAINLY) -> list[Receipt]:
        receipts = self._ask(
            "produce",
            topic=topic,
            messages=[written(message) for message in messages],
            acks={-1: "all"}.get(how.acks, str(how.acks)),
            compression=how.compression,
            idempotent=how.idempotent,
            bytesMax=how.bytes_max,
        )
        return [Receipt(partition, offset) for partition, offset in receipts]

    def fetch(self, topic: str, partition: int, offset: int, count: int, *, seconds: float = 20) -> list[Message]:
        answer = self._ask("fetch", topic=topic, partition=partition, offset=offset, count=count, seconds=seconds)
        return [parsed(message) for message in answer]

    def read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        return [parsed(message) for message in self._ask("readAsGroup", topic=topic, group=group, count=count)]

    def offset_at(self, topic: str, partition: int, place: str | int) -> int | None:
        offset: int = self._ask("offsetAt", topic=topic, partition=partition, place=place)
        return None if offset < 0 else offset

    def offset_of_newest(self, topic: str, partition: int) -> int | None:
        return self.offset_at(topic, partition, "newest")

    def topics(self) -> Mapping[str, int]:
        counts: dict[str, int] = self._ask("topics")
        return counts

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        self._ask(
            "createTopic", topic=name, partitions=partitions, configs=dict(configs or {}), validateOnly=validate_only
        )

    def delete_topic(self, name: str) -> None:
        self._ask("deleteTopic", topic=name)

    def create_partitions(self, name: str, total: int) -> None:
        self._ask("createPartitions", topic=name, total=total)

    def describe_topic(self, name: str) -> TopicDescription:
        partitions = self._ask("describeTopic", topic=name)
        return TopicDescription(
            {index: leader for index, leader, _, _ in partitions},
            {index: replicas for index, _, replicas, _ in partitions},
            {index: in_sync for index, _, _, in_sync in partitions},
        )

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self._ask("deleteRecords", topic=topic, partition=partition, before=before))

    def describe_configs(self, topic: str) -> Mapping[str, str | None]:
        configs: dict[str, str | None] = self._ask("describeConfigs", topic=topic)
        return configs

    def incremental_alter_configs(self, topic: str, changes: Sequence[tuple[str, str, str | None]]) -> None:
        self._ask("alterConfigs", topic=topic, changes=list(changes))

    def describe_node(self) -> Mapping[str, str | None]:
        configs: dict[str, str | None] = self._ask("describeNode")
        return configs

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription(*self._ask("describeCluster"))

    def log_bytes(self, topic: str) -> Mapping[int, int]:
        return with_numbers(self._ask("logBytes", topic=topic))

    def groups(self) -> Sequence[str]:
        return list(self._ask("groups"))

    def groups_in_state(self, state: str) -> Sequence[str]:
        return list(self._ask("groupsInState", state=state))

    def describe_group(self, group: str) -> GroupDescription:
        state, members = self._ask("describeGroup", group=group)
        return GroupDescription(state, [[(topic, partition) for topic, partition in member] for member in members])

    def delete_group(self, group: str) -> None:
        self._ask("deleteGroup", group=group)

    def remove_member(self, group: str, instance_id: str) -> None:
        self._ask("removeMember", group=group, instance=instance_id)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._ask("commit", group=group, topic=topic, offsets=dict(offsets))

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        return with_numbers(self._ask("committed", group=group, topic=topic))

    def delete_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        self._ask("deleteOffsets", group=group, topic=topic, partitions=list(partitions))

    def write_numbered(self, topic: str, partitions: int, count: int) -> None:
        self._ask("writeNumbered", topic=topic, partitions=partitions, count=count)

    def read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        return with_numbers(self._ask("readDigests", topic=topic, partitions=partitions, count=count))

    def share_consumer(
        self, group: str, topic: str, *, explicit: bool = True, strict: bool = True, records_max: int = 500
    ) -> Sharing:
        asked = {"explicit": explicit, "strict": strict, "recordsMax": records_max}
        return JavaSharing(self._ask, self._ask("openShare", group=group, topic=topic, **asked))

    def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        self._ask("configureGroup", group=group, configs=dict(configs))

    def group_configs(self, group: str) -> Mapping[str, str]:
        configs: dict[str, str] = self._ask("groupConfigs", group=group)
        return configs

    def share_groups(self) -> Mapping[str, str]:
        """Share groups and their states."""
        found: dict[str, str] = self._ask("shareGroups")
        return found

    def describe_share_group(self, group: str) -> tuple[str, list[int]]:
        """Its state, and how many partitions each member has."""
        state, sizes = self._ask("describeShareGroup", group=group)
        return state, sizes

    def share_offsets(self, group: str) -> Mapping[str, tuple[int, int] | None]:
        """Start offset and lag."""
        return {
            where: None if found is None else (found[0], found[1])
            for where, found in self._ask("shareOffsets", group=group).items()
        }

    def alter_share_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._ask("alterShareOffsets", group=group, topic=topic, offsets=dict(offsets))

    def delete_share_offsets(self, group: str, topic: str) -> None:
        self._ask("deleteShareOffsets", group=group, topic=topic)

    def delete_share_group(self, group: str) -> None:
        self._ask("deleteShareGroup", group=group)

    def transactional(self, transactional_id: str, *, timeout_s: float = 60) -> Transactional:
        number = self._ask("openTransactional", id=transactional_id, timeoutMs=int(timeout_s * 1000))
        return JavaTransactional(self._ask, number)

    def read_to_end(self, topic: str, partition: int, *, committed: bool) -> list[bytes]:
        found = self._ask("readToEnd", topic=topic, partition=partition, committed=committed)
        return [base64.b64decode(value) for value in found]

    def wait_until_stable(self, topic: str, partition: int) -> None:
        ends = [0, 1]
        while ends[0] != ends[1]:
            ends = [
                self._ask("endOffset", topic=topic, partition=partition, committed=committed)
                for committed in (True, False)
            ]

    def member_command(self, membership: Membership) -> list[str]:
        command = [java_command(), *JVM_OPTIONS, "-cp", class_path(), "GroupMember"]
        return [*command, "--bootstrap", self.bootstrap, *membership.arguments()]

    def _ask(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()
        alarm = Alarm(ANSWER_PATIENCE_S, self._process.kill)
        line = self._process.stdout.readline()
        alarm.cancel()
        assert line, f"the Java client did not answer to {command}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["answer"]


class JavaTransactional:
    """One of the producers that the Java program keeps open."""

    def __init__(self, ask: Callable[..., Any], number: int) -> None:
        self._ask_of = functools.partial(ask, producer=number)

    def begin(self) -> None:
        self._ask_of("beginTransaction")

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        encoded_values = [encoded(value) for value in values]
        self._ask_of("sendInTransaction", topic=topic, values=encoded_values, partition=partition)

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._ask_of("commitOffsetsInTransaction", group=group, topic=topic, offsets=dict(offsets))

    def commit(self) -> None:
        self._ask_of("commitTransaction")

    def abort(self) -> None:
        self._ask_of("abortTransaction")

    def close(self) -> None:
        self._ask_of("closeTransactional")


def with_numbers(answer: Mapping[str, Any]) -> dict[int, Any]:
    """JSON has only text for keys."""
    return {int(partition): value for partition, value in answer.items()}


def written(message: Message) -> dict[str, Any]:
    return {
        "partition": message.partition,
        "timestamp": message.timestamp_ms,
        "key": encoded(message.key),
        "value": encoded(message.value),
        "headers": [[name, encoded(value)] for name, value in message.headers],
    }


def parsed(message: Mapping[str, Any]) -> Message:
    return Message(
        value=decoded(message["value"]),
        key=decoded(message["key"]),
        headers=tuple((name, decoded(value)) for name, value in message["headers"]),
        timestamp_ms=message["timestamp"],
        partition=message["partition"],
        offset=message["offset"],
    )


def encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

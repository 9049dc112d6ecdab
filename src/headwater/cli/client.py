"""What the commands ask of a node, in headwater's words; the only file that knows the Kafka client's admin calls."""

import base64
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from headwater.cli.arguments import Start
from headwater.cli.failure import Failure
from headwater.clock import SystemClock
from headwater.errors import TopicOffline, UnknownGroup, UnknownPartition, UnknownTopic
from headwater.kafka_login import OAUTHBEARER, KafkaLogin, from_environment

TIMEOUT_SECONDS = 30.0
NO_OFFSET = -1
TOKEN_SECONDS = 300.0
"""After so long a token that does not say how long it counts is read again."""


class Setting(NamedTuple):
    name: str
    value: str
    chosen: bool  # it was set for this topic


class Member(NamedTuple):
    id: str
    client_id: str
    host: str
    partitions: list[tuple[str, int]]


class Group(NamedTuple):
    name: str
    state: str
    protocol: str
    members: list[Member]
    kind: str = "classic"  # of the protocol between its members and the node: classic or consumer


def client_settings(address: str) -> dict[str, Any]:
    # Failures reach us as errors and callbacks; the library's own log lines would only mix with our output.
    said = {"bootstrap.servers": address, "client.id": "headwater", "log_level": 0, "socket.timeout.ms": 30_000}
    return {**said, **_login_settings(from_environment())}


def _login_settings(login: KafkaLogin) -> dict[str, Any]:
    """How to log in, if the environment says so; Failure if a password or token cannot be read."""
    if login.misfit:
        raise Failure(login.misfit)
    files = {"ca": login.authority, "certificate": login.certificate, "key": login.key}
    found: dict[str, Any] = {f"ssl.{name}.location": str(file) for name, file in files.items() if file is not None}
    security = "SSL" if found else "PLAINTEXT"
    if login.mechanism == OAUTHBEARER:
        security = f"SASL_{security}"
        found |= {"sasl.mechanism": OAUTHBEARER, "oauth_cb": lambda _: _token(login)}
    elif login.user:
        try:
            password = login.password
        except OSError as error:
            raise Failure(f"{login.password_file} cannot be read: {error.strerror}") from None
        security = f"SASL_{security}"
        found |= {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": password}
    return {**found, "security.protocol": security} if found else {}


def _token(login: KafkaLogin) -> tuple[str, float]:
    """And until when it counts, as it says itself; it is read from its file again then."""
    try:
        token = login.token
    except OSError as error:
        raise Failure(f"{login.token_file} cannot be read: {error.strerror}") from None
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return token, float(claims["exp"])
    except (ValueError, LookupError, TypeError):
        return token, SystemClock().now_ms() / 1000 + TOKEN_SECONDS


def failure_of(error: KafkaError) -> Failure:
    return Failure(error.str() or error.name())


class Client:
    """One connection for the questions of one command."""

    def __init__(self, address: str) -> None:
        self._admin = AdminClient(client_settings(address))

    def topics(self) -> dict[str, int]:
        """Name -> number of partitions, sorted; internal topics included. One that is offline has none."""
        found = self._listed()
        return {name: len(found[name].partitions) for name in sorted(found)}

    def _listed(self) -> Mapping[str, TopicMetadata]:
        try:
            return self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics
        except KafkaException as error:
            raise failure_of(error.args[0]) from None

    def partitions(self, topic: str, chosen: int | None = None) -> list[int]:
        """All partitions of a topic, or the chosen one; what does not exist is an error with a way out."""
        found = self._listed().get(topic)
        if found is None:
            raise UnknownTopic(topic)
        if found.error is not None:
            raise TopicOffline(topic, f"{found.error.str()}; the log of the node says why, and so does GET /topics")
        count = len(found.partitions)
        if chosen is None:
            return list(range(count))
        if chosen >= count:
            raise UnknownPartition(topic, chosen, count=count)
        return [chosen]

    def create_topic(self, topic: str, *, partitions: int = -1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic; without a number of partitions the node chooses."""
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(configs or {}))
        _answer(self._admin.create_topics([wanted], operation_timeout=TIMEOUT_SECONDS)[topic])

    def delete_topic(self, topic: str) -> None:
        """Also one that is offline."""
        if topic not in self._listed():
            raise UnknownTopic(topic)
        _answer(self._admin.delete_topics([topic], operation_timeout=TIMEOUT_SECONDS)[topic])

    def add_partitions(self, topic: str, total: int) -> None:
        _answer(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def alter_topic(self, topic: str, *, configs: Mapping[str, str], unset: Iterable[str]) -> None:
        set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
        changes = [ConfigEntry(name, value, incremental_operation=set_) for name, value in configs.items()]
        changes += [ConfigEntry(name, None, incremental_operation=delete) for name in unset]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        _answer(self._admin.incremental_alter_configs([resource])[resource])

    def settings(self, topic: str) -> list[Setting]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = _answer(self._admin.describe_configs([resource])[resource])
        chosen = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return [Setting(name, entries[name].value or "", entries[name].source == chosen) for name in sorted(entries)]

    def offsets(self, topic: str, partitions: Iterable[int], where: Start) -> dict[int, int]:
        """Returns the offset of a position in each partition; a time after the newest record means its end."""
        if where.offset is not None:
            return dict.fromkeys(partitions, where.offset)
        if where.time_ms is not None:
            spec = OffsetSpec.for_timestamp(where.time_ms)
        else:
            spec = OffsetSpec.earliest() if where.end in ("beginning", "earliest") else OffsetSpec.latest()
        asked = {TopicPartition(topic, number): spec for number in partitions}
        futures = self._admin.list_offsets(asked, request_timeout=TIMEOUT_SECONDS) if asked else {}
        found = {partition.partition: _answer(future).offset for partition, future in futures.items()}
        missing = [number for number, offset in found.items() if offset == NO_OFFSET]
        return {**found, **self.ends(topic, missing)} if missing else found

    def firsts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        return self.offsets(topic, partitions, Start(end="earliest"))

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        return self.offsets(topic, partitions, Start(end="latest"))

    def group_names(self) -> list[str]:
        listed = _answer(self._admin.list_consumer_groups(request_timeout=TIMEOUT_SECONDS))
        if listed.errors:
            # Some versions of the library wrap it, others do not.
            error = listed.errors[0]
            raise failure_of(error.args[0] if isinstance(error, KafkaException) else error)
        return sorted(group.group_id for group in listed.valid)

    def groups(self, names: list[str]) -> list[Group]:
        if not names:
            return []
        futures = self._admin.describe_consumer_groups(names, request_timeout=TIMEOUT_SECONDS)
        return [_group(_answer(futures[name])) for name in names]

    def group(self, name: str) -> Group:
        if name not in self.group_names():
            raise UnknownGroup(name)
        return self.groups([name])[0]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        answer = _answer(self._admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_SECONDS)[group])
        return {(one.topic, one.partition): one.offset for one in answer.topic_partitions if one.offset >= 0}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        partitions = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        answer = _answer(self._admin.alter_consumer_group_offsets(asked, request_timeout=TIMEOUT_SECONDS)[group])
        for one in answer.topic_partitions:
            if one.error:
                raise failure_of(one.error)


def _group(described: Any) -> Group:
    members = [
        Member(
            id=member.member_id,
            client_id=member.client_id,
            host=member.host,
            partitions=sorted((one.topic, one.partition) for one in member.assignment.topic_partitions),
        )
        for member in described.members
    ]
    kind = "consumer" if described.type is ConsumerGroupType.CONSUMER else "classic"
    return Group(described.group_id, described.state.name.lower(), described.partition_assignor, members, kind)


def _answer(future: "Future[Any]") -> Any:
    try:
        return future.result(timeout=TIMEOUT_SECONDS + 5)
    except KafkaException as error:
        raise failure_of(error.args[0]) from None
    except TimeoutError:
        raise Failure(f"the node did not answer within {TIMEOUT_SECONDS:.0f} seconds") from None

"""Real clients log in: librdkafka and aiokafka, each mechanism, plain and encrypted, and what they are refused."""

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAuthorizationFailedError
from confluent_kafka import Consumer, Producer
from confluent_kafka import KafkaError as Codes
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from headwater.access.acls import Operation, ResourceType
from headwater.access.store import AccessStore
from headwater.errors import UnsafeBind
from headwater.log.log import Log
from headwater.node import Node
from headwater.settings import NodeSettings, SecuritySettings, WireSettings
from tests.access.secured import (
    ALL_MECHANISMS,
    PASSWORD,
    WRONG,
    Certificates,
    acl,
    certificates_in,
    prepare,
    secured_node,
)
from tests.waiting import LONG, Deadline, wait_until

SOON = 20.0
PLAINTEXT, ENCRYPTED = "SASL_PLAINTEXT", "SASL_SSL"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates_in(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with secured_node(tmp_path_factory.mktemp("plain"), SecuritySettings(mechanisms=ALL_MECHANISMS)) as node:
        yield node


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Node]:
    with secured_node(tmp_path_factory.mktemp("encrypted"), certificates.settings(mechanisms=ALL_MECHANISMS)) as node:
        yield node


@pytest.fixture
def node(protocol: str, plain: Node, encrypted: Node) -> Node:
    return {PLAINTEXT: plain, ENCRYPTED: encrypted}[protocol]


class LibrdkafkaClient:
    def __init__(
        self, node: Node, protocol: str, mechanism: str, user: str, password: str, certificates: Certificates
    ) -> None:
        self.refusals: list[Codes] = []
        self._settings = {
            "bootstrap.servers": node.kafka_address.replace("127.0.0.1", "localhost"),
            "security.protocol": protocol.lower(), "sasl.mechanism": mechanism, "sasl.username": user,
            "sasl.password": password, "ssl.ca.location": str(certificates.authority), "error_cb": self.refusals.append,
        }  # fmt: skip

    def round_trip(self, topic: str) -> bytes:
        failure = self.failure_to_write(topic)
        assert failure is None, failure
        consumer = Consumer({**self._settings, "group.id": "shop", "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([topic])
            deadline = Deadline(SOON)
            while not deadline.passed:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    return message.value() or b""
        finally:
            consumer.close()
        raise AssertionError(f"nothing was read; {self.refusals}")

    def failure_to_write(self, topic: str) -> str | None:
        delivered: list[Any] = []
        producer = Producer({**self._settings, "message.timeout.ms": 600_000})
        producer.produce(topic, b"some value", on_delivery=lambda error, message: delivered.append(error))
        wait_until(
            lambda: producer.poll(0.1) > 0 and bool(delivered or self._login_failed()), "an answer", seconds=SOON
        )
        failed = self._login_failed()
        producer.purge()
        if failed:
            return "login"
        return None if delivered[0] is None else str(delivered[0].name())

    def _login_failed(self) -> bool:
        return any(one.code() == Codes._AUTHENTICATION for one in self.refusals)


class AiokafkaClient:
    def __init__(
        self, node: Node, protocol: str, mechanism: str, user: str, password: str, certificates: Certificates
    ) -> None:
        self._settings = {
            "bootstrap_servers": node.kafka_address.replace("127.0.0.1", "localhost"), "security_protocol": protocol,
            "sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password,
            "ssl_context": certificates.context() if protocol == ENCRYPTED else None,
        }  # fmt: skip

    def round_trip(self, topic: str) -> bytes:
        return asyncio.run(self._round_trip(topic))

    async def _round_trip(self, topic: str) -> bytes:
        async with AIOKafkaProducer(**self._settings) as producer:
            await producer.send_and_wait(topic, b"some value")
        consumer = AIOKafkaConsumer(topic, group_id="shop", auto_offset_reset="earliest", **self._settings)
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), LONG)
            return message.value or b""

    def failure_to_write(self, topic: str) -> str | None:
        return asyncio.run(self._failure_to_write(topic))

    async def _failure_to_write(self, topic: str) -> str | None:
        producer = AIOKafkaProducer(**self._settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"some value")
        except TopicAuthorizationFailedError:
            return "TOPIC_AUTHORIZATION_FAILED"
        except KafkaConnectionError:
            return "login"
        except KafkaError as error:
            return str(error)
        finally:
            await producer.stop()
        return None


CLIENTS = [pytest.param(LibrdkafkaClient, id="librdkafka"), pytest.param(AiokafkaClient, id="aiokafka")]
Made = Callable[[Node, str, str, str, str, Certificates], LibrdkafkaClient | AiokafkaClient]


@pytest.mark.parametrize("mechanism", ALL_MECHANISMS)
@pytest.mark.parametrize("protocol", [PLAINTEXT, ENCRYPTED])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_user_with_the_password_writes_and_reads(
    client: Made, protocol: str, mechanism: str, node: Node, certificates: Certificates
) -> None:
    logged_in = client(node, protocol, mechanism, "alice", PASSWORD, certificates)
    assert logged_in.round_trip("orders") == b"some value"


@pytest.mark.parametrize("user, password", [("alice", WRONG), ("mallory", PASSWORD)], ids=["password", "user"])
@pytest.mark.parametrize("mechanism", ALL_MECHANISMS)
@pytest.mark.parametrize("protocol", [PLAINTEXT])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_wrong_user_or_password_is_refused(
    client: Made, protocol: str, mechanism: str, user: str, password: str, node: Node, certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG, "headwater")
    assert client(node, protocol, mechanism, user, password, certificates).failure_to_write("orders") == "login"
    said = "".join(record.getMessage() for record in caplog.records if record.name.startswith("headwater"))
    assert f"failed ({mechanism})" in said
    assert password not in said


@pytest.mark.parametrize("topic", ["payroll", "nothing"])
@pytest.mark.parametrize("protocol", [PLAINTEXT])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_without_permission_is_refused_whether_or_not_it_exists(
    client: Made, protocol: str, topic: str, node: Node, certificates: Certificates
) -> None:
    failure = client(node, protocol, "PLAIN", "alice", PASSWORD, certificates).failure_to_write(topic)
    assert failure == "TOPIC_AUTHORIZATION_FAILED"


def test_the_password_is_nowhere_in_the_data_directory(plain: Node) -> None:
    files = [file for file in plain.data.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if PASSWORD.encode() in file.read_bytes()]


# -- client certificates, tokens ---------------------------------------------------------------------------------------


def write_once(settings: dict[str, Any]) -> str | None:
    """None, or the name of the error of the record."""
    delivered: list[Any] = []
    producer = Producer({"message.timeout.ms": 600_000, **settings})
    producer.produce("orders", b"some value", on_delivery=lambda error, message: delivered.append(error))
    wait_until(lambda: producer.poll(0.1) > 0 and bool(delivered), "an answer", seconds=SOON)
    return None if delivered[0] is None else str(delivered[0].name())


@pytest.mark.parametrize("name, failure", [("Alice", None), ("bob", "TOPIC_AUTHORIZATION_FAILED")])
def test_a_client_certificate_says_who_it_is(
    name: str, failure: str | None, certificates: Certificates, tmp_path: Path
) -> None:
    shown = certificates.issue_client(name)
    security = certificates.settings(
        client_authority=certificates.authority, client_certificate_required=True,
        principal_mapping="RULE:^CN=(.*)$/$1/L",
    )  # fmt: skip
    with secured_node(tmp_path, security) as node:
        settings = {
            "bootstrap.servers": node.kafka_address.replace("127.0.0.1", "localhost"), "security.protocol": "ssl",
            "ssl.ca.location": str(certificates.authority), "ssl.certificate.location": str(shown),
            "ssl.key.location": str(shown.with_suffix(".key")),
        }  # fmt: skip
        assert write_once(settings) == failure


def test_without_a_client_certificate_or_with_one_of_another_authority_there_is_no_connection(
    certificates: Certificates, tmp_path: Path
) -> None:
    others = certificates_in(tmp_path / "others")
    of_others = others.issue_client("alice")
    security = certificates.settings(client_authority=certificates.authority, client_certificate_required=True)
    with secured_node(tmp_path / "data", security) as node:
        assert not talks(node, certificates.context())
        assert not talks(node, certificates.context(of_others))
        assert talks(node, certificates.context(certificates.issue_client("carol")))


def talks(node: Node, context: ssl.SSLContext) -> bool:
    """Does the node answer ApiVersions?"""
    from kio.schema.api_versions.v0.request import ApiVersionsRequest

    from tests.wire.raw_client import RawClient, request_frame

    host, _, port = node.kafka_address.rpartition(":")
    with RawClient(host, int(port)) as client:
        try:
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
            client.send(request_frame(ApiVersionsRequest()))
            return client.receive_frame() != b""
        except (ssl.SSLError, ConnectionError):
            return False


def test_a_bearer_token_of_a_known_key_logs_in(tmp_path: Path, certificates: Certificates) -> None:
    key, other = RSAKey.generate_key(2048, {"kid": "ours"}), RSAKey.generate_key(2048, {"kid": "ours"})
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    security = SecuritySettings(mechanisms=("OAUTHBEARER",), oauth_keys=str(keys), oauth_audience="headwater")
    with secured_node(tmp_path / "data", security) as node:
        good = token_settings(node, key, {"sub": "alice", "aud": "headwater", "exp": 2**33})
        assert write_once(good) is None
        refusals: list[Codes] = []
        bad = token_settings(node, other, {"sub": "alice", "aud": "headwater", "exp": 2**33})
        producer = Producer({**bad, "error_cb": refusals.append})
        wait_until(
            lambda: producer.poll(0.1) > 0 and any(one.code() == Codes._AUTHENTICATION for one in refusals), "a refusal"
        )


def token_settings(node: Node, key: RSAKey, claims: dict[str, Any]) -> dict[str, Any]:
    said = jwt.encode({"alg": "RS256", "kid": "ours"}, claims, key)
    return {
        "bootstrap.servers": node.kafka_address, "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (said, float(claims["exp"])),
    }  # fmt: skip


# -- certificates that change, and who may listen ----------------------------------------------------------------------


def test_certificates_are_swapped_under_load_without_a_lost_record(tmp_path: Path) -> None:
    certificates = certificates_in(tmp_path / "certificates")
    with secured_node(tmp_path / "data", certificates.settings(mechanisms=("PLAIN",))) as node:
        load = Load(node, certificates)
        with load:
            seen = {serial_of(node, certificates)}
            for _ in range(3):
                certificates.issue_server()
                wait_until(lambda: serial_of(node, certificates) not in seen, "the new certificate")
                seen.add(serial_of(node, certificates))
        assert load.failures == []
        assert load.written > 0
        assert node.log.partition("orders", 0).end_offset == load.written


def test_a_certificate_that_cannot_be_used_leaves_the_old_one_in_use(tmp_path: Path) -> None:
    certificates = certificates_in(tmp_path / "certificates")
    with secured_node(tmp_path / "data", certificates.settings(mechanisms=("PLAIN",))) as node:
        before = serial_of(node, certificates)
        whole = certificates.server.read_bytes()
        certificates.server.write_bytes(whole[:100])
        assert serial_of(node, certificates) == before
        certificates.issue_server()
        wait_until(lambda: serial_of(node, certificates) != before, "the new certificate")


def serial_of(node: Node, certificates: Certificates) -> str:
    host, _, port = node.kafka_address.rpartition(":")
    from tests.wire.raw_client import RawClient

    with RawClient(host, int(port)) as client:
        secure = certificates.context().wrap_socket(client.socket, server_hostname="localhost")
        client.socket = secure
        shown = secure.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


class Load:
    """A producer after another, each with a connection of its own, as long as the block lasts."""

    def __init__(self, node: Node, certificates: Certificates) -> None:
        self._settings = {
            "bootstrap.servers": node.kafka_address.replace("127.0.0.1", "localhost"), "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": PASSWORD,
            "ssl.ca.location": str(certificates.authority), "enable.idempotence": True,
            "error_cb": lambda error: self.failures.append(error.str()),
        }  # fmt: skip
        self.failures: list[str] = []
        self.written = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def _run(self) -> None:
        while not self._stopping.is_set():
            producer = Producer(self._settings)
            for _ in range(50):
                producer.produce("orders", b"some value", on_delivery=self._delivered)
            if producer.flush(LONG):
                self.failures.append("records are left")

    def _delivered(self, error: Any, message: Any) -> None:
        self.written += 1
        if error is not None:
            self.failures.append(str(error))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.mark.parametrize("logins, encrypted", [(False, False), (True, False), (False, True)])
def test_an_address_of_other_machines_needs_logins_and_encryption(
    logins: bool, encrypted: bool, certificates: Certificates, tmp_path: Path
) -> None:
    security = certificates.settings() if encrypted else SecuritySettings()
    security = replace(security, mechanisms=("PLAIN",) if logins else ())
    settings = NodeSettings(wire=WireSettings(host="0.0.0.0", port=0), security=security)
    with pytest.raises(UnsafeBind):
        Node(tmp_path, settings).start()


def test_with_logins_and_encryption_other_machines_may_be_listened_to(
    certificates: Certificates, tmp_path: Path
) -> None:
    security = certificates.settings(mechanisms=("PLAIN",))
    with Node(tmp_path, NodeSettings(wire=WireSettings(host="0.0.0.0", port=0), security=security)) as node:
        assert node.kafka_address.startswith("0.0.0.0:")


def test_users_and_permissions_survive_a_restart(tmp_path: Path) -> None:
    prepare(tmp_path)
    log = Log.open(tmp_path)
    try:
        store = AccessStore(log)
        store.load()
        assert store.user_names() == ["alice", "bob"]
        assert not store.doubt
        alices = acl("User:alice", Operation.ALL, "shop", ResourceType.GROUP)
        assert alices in store.index
    finally:
        log.close()

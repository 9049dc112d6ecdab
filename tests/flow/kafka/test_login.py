"""The client of flows logs in, at our port and at Apache Kafka; one sentence where it is refused."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from headwater.access.authority import Authority
from headwater.cli.client import Client as Commands
from headwater.cli.failure import Failure
from headwater.clock import ManualClock, SystemClock
from headwater.errors import LoginRefused, UnavailableError, UsageError
from headwater.flow.kafka import sasl
from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.kafka.encoding import encode_records
from headwater.kafka_login import KafkaLogin
from headwater.record import TopicPartition
from tests.access.secured import ALL_MECHANISMS, PASSWORD, WRONG, Certificates, certificates_in, secured_node
from tests.clients.brokers.apache_kafka import start_apache_kafka
from tests.clients.brokers.process import NotAvailable, free_port

ORDERS, PAYROLL = TopicPartition("orders", 0), TopicPartition("payroll", 0)
NOW_MS = time.time_ns() // 1_000_000
PRINCIPALS = "RULE:^CN=([^,]+).*$/$1/"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Ports(NamedTuple):
    """Of a broker: one that asks for a user, and one that asks for a certificate."""

    users: str
    certificates: str


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates_in(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["headwater", pytest.param("kafka", marks=pytest.mark.torture)])
def ports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("broker")
    starter = headwater_ports if request.param == "headwater" else kafka_ports
    try:
        with starter(folder, certificates) as ports:
            yield ports
    except NotAvailable as reason:
        pytest.skip(str(reason))


@contextmanager
def headwater_ports(folder: Path, certificates: Certificates) -> Iterator[Ports]:
    keys = RSAKey.generate_key(2048, {"kid": "ours"})
    (folder / "keys.json").write_text(KeySet([keys]).as_dict(private=False).__repr__().replace("'", '"'))
    users = certificates.settings(
        mechanisms=(*ALL_MECHANISMS, "OAUTHBEARER"), oauth_keys=str(folder / "keys.json"), oauth_audience="headwater"
    )
    shown = certificates.settings(
        client_authority=certificates.authority, client_certificate_required=True, principal_mapping=PRINCIPALS
    )
    claims = {"sub": "alice", "aud": "headwater", "exp": int(time.time()) + 600}
    (certificates.folder / "token").write_text(jwt.encode({"alg": "RS256", "kid": "ours"}, claims, keys))
    with secured_node(folder / "users", users) as one, secured_node(folder / "certificates", shown) as other:
        yield Ports(*(node.kafka_address.replace("127.0.0.1", "localhost") for node in (one, other)))


@contextmanager
def kafka_ports(folder: Path, certificates: Certificates) -> Iterator[Ports]:
    own, users, shown, controller = (free_port() for _ in range(4))
    pair = folder / "pair.pem"
    pair.write_bytes(certificates.server.with_suffix(".key").read_bytes() + certificates.server.read_bytes())
    plain, scram = "org.apache.kafka.common.security.plain.Plain", "org.apache.kafka.common.security.scram.Scram"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{own},SASL_SSL://localhost:{users},SSL://localhost:{shown},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(pair),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": PRINCIPALS,
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM)),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{plain}LoginModule required user_alice="{PASSWORD}";',
        **{f"listener.name.sasl_ssl.{one.lower()}.sasl.jaas.config": f"{scram}LoginModule required;" for one in SCRAM},
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }  # fmt: skip
    broker = start_apache_kafka(folder / "kafka", settings)
    try:
        prepare_kafka(broker.address)
        yield Ports(f"localhost:{users}", f"localhost:{shown}")
    finally:
        broker.stop()


def prepare_kafka(address: str) -> None:
    """What secured.prepare does for a node."""
    with Client(address) as client:
        client.create_topic("orders")
        client.create_topic("payroll")
    admin = AdminClient({"bootstrap.servers": address})
    credentials = [
        UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for one in credentials:  # of one user only one is taken at a time
        admin.alter_user_scram_credentials([one])["alice"].result()
    allowed = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.ALL,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    for done in admin.create_acls([allowed]).values():
        done.result()


def login(certificates: Certificates, mechanism: str = "PLAIN", password: str = PASSWORD) -> KafkaLogin:
    file = certificates.folder / f"password of {mechanism} {password}"
    file.write_text(password)
    token = certificates.folder / "token"
    return KafkaLogin("alice", file, certificates.authority, mechanism, token if mechanism == "OAUTHBEARER" else None)


def shown(certificates: Certificates, pair: Path) -> KafkaLogin:
    return KafkaLogin(authority=certificates.authority, certificate=pair, key=pair.with_suffix(".key"))


def round_trip(address: str, own: KafkaLogin) -> None:
    with Client(address, login=own) as client:
        before = client.offsets({ORDERS: LATEST})[ORDERS]
        producer = client.init_producer_id()
        batches = encode_records(
            None, pa.array([b"one"]), np.array([NOW_MS]), producer_id=producer.producer_id, epoch=producer.epoch,
            base_sequence=0, batch_bytes=1000,
        )  # fmt: skip
        client.produce({ORDERS: batches})
        assert client.offsets({ORDERS: LATEST})[ORDERS] == before + 1
        assert len(client.fetch(ORDERS, before, bytes_max=1000).records) > 0


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM, "OAUTHBEARER"])
def test_each_mechanism_lets_us_in(mechanism: str, ports: Ports, certificates: Certificates, kind: str) -> None:
    if kind == "kafka" and mechanism == "OAUTHBEARER":
        pytest.skip("Apache Kafka validates tokens with a class of the user's")
    round_trip(ports.users, login(certificates, mechanism))


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["ports"])


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM, "OAUTHBEARER", "certificate"])
def test_commands_log_in_by_the_same_variables(
    mechanism: str, ports: Ports, certificates: Certificates, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "kafka" and mechanism == "OAUTHBEARER":
        pytest.skip("Apache Kafka validates tokens with a class of the user's")
    by_certificate = mechanism == "certificate"
    own = shown(certificates, certificates.issue_client("alice")) if by_certificate else login(certificates, mechanism)
    said = {
        "USER": own.user, "PASSWORD_FILE": own.password_file, "MECHANISM": own.mechanism, "TOKEN_FILE": own.token_file,
        "AUTHORITY": own.authority, "CERTIFICATE": own.certificate, "KEY": own.key,
    }  # fmt: skip
    for name, value in said.items():
        monkeypatch.setenv(f"HEADWATER_KAFKA_{name}", str(value or ""))
    address = ports.certificates if by_certificate else ports.users
    assert "orders" in Commands(address).topics()
    with Client(address) as client:
        assert "orders" in client.topics()


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password_is_one_sentence(mechanism: str, ports: Ports, certificates: Certificates) -> None:
    with pytest.raises(LoginRefused, match="user alice or the password is wrong"):
        round_trip(ports.users, login(certificates, mechanism, WRONG))


def test_a_mechanism_that_the_port_does_not_take_is_named(ports: Ports, certificates: Certificates, kind: str) -> None:
    if kind == "headwater":
        pytest.skip("it takes all")
    (certificates.folder / "token").write_text("a.b.c")
    with pytest.raises(LoginRefused, match="it does not take OAUTHBEARER"):
        round_trip(ports.users, login(certificates, "OAUTHBEARER"))


def test_a_certificate_lets_us_in_and_a_new_one_is_used_when_the_old_has_expired(
    ports: Ports, certificates: Certificates
) -> None:
    pair = certificates.issue_client("alice")
    own = shown(certificates, pair)
    round_trip(ports.certificates, own)
    past = ManualClock(SystemClock().now_ms() - 40 * 86_400_000)
    Authority(certificates.folder, past).issue("alice", days=30, client=True)
    # Apache Kafka does not say why.
    with pytest.raises(UnavailableError, match=r"does not accept the certificate \S+alice\S*: (it has|is it) expired"):
        round_trip(ports.certificates, own)
    certificates.issue_client("alice")
    round_trip(ports.certificates, own)


def test_a_port_that_wants_a_certificate_does_not_let_us_in_without(ports: Ports, certificates: Certificates) -> None:
    with pytest.raises(
        UnavailableError, match=r"wants a certificate; HEADWATER_KAFKA_CERTIFICATE and .* name the files"
    ):
        round_trip(ports.certificates, KafkaLogin(authority=certificates.authority))


def test_a_topic_that_is_forbidden_is_said_so(ports: Ports, certificates: Certificates) -> None:
    with Client(ports.users, login=login(certificates)) as client:
        assert "payroll" not in client.topics()
        with pytest.raises(UsageError, match='topic "payroll" was refused: access to the topic is denied'):
            client.offsets({PAYROLL: LATEST})


def test_a_port_of_another_authority_is_not_believed(ports: Ports, certificates: Certificates, tmp_path: Path) -> None:
    other = certificates_in(tmp_path)
    with pytest.raises(UnavailableError, match=r"cannot be reached with encryption .*certificate verify failed"):
        round_trip(ports.users, replace(login(certificates), authority=other.authority))


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"certificate": "nowhere.pem", "key": "nowhere.key"}, "nowhere.pem and .* are no pair in PEM"),
        ({"authority": "nowhere.pem"}, "nowhere.pem is no authority in PEM"),
        ({"password_file": "nowhere"}, "nowhere cannot be read"),
    ],
)
def test_a_file_that_is_not_there_is_named(
    ports: Ports, certificates: Certificates, changed: dict[str, str], said: str, tmp_path: Path
) -> None:
    files: dict[str, Any] = {name: tmp_path / file for name, file in changed.items()}
    own = replace(login(certificates), **files)
    with pytest.raises(LoginRefused, match=said):
        round_trip(ports.users, own)


@pytest.mark.parametrize(
    "said, why",
    [
        ({"MECHANISM": "MAGIC"}, "must be one of PLAIN"),
        ({"MECHANISM": "OAUTHBEARER"}, "logs in with a token"),
        ({"CERTIFICATE": "a.pem", "AUTHORITY": "b.pem"}, "are given together"),
        ({"CERTIFICATE": "a.pem", "KEY": "a.key"}, "whose authority is named"),
    ],
)
def test_variables_that_do_not_fit_together_are_refused(
    said: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in said.items():
        monkeypatch.setenv(f"HEADWATER_KAFKA_{name}", value)
    with pytest.raises(LoginRefused, match=why):
        Client("localhost:1").topics()
    with pytest.raises(Failure, match=why):
        Commands("localhost:1")


# -- SCRAM, against servers that lie -----------------------------------------------------------------------------------


def scram_with(challenge: Callable[[str], str]) -> None:
    exchange = sasl.scram("SCRAM-SHA-256", "alice", PASSWORD, lambda: "ours")
    first = next(exchange).decode()
    assert first == "n,,n=alice,r=ours"
    exchange.send(challenge("ours").encode())
    exchange.send(b"v=" + b"A" * 43 + b"=")


@pytest.mark.parametrize(
    "challenge, why",
    [
        ("r=theirs,s=QQ==,i=4096", "does not continue ours"),
        ("r=ours,s=QQ==,i=4096", "does not continue ours"),
        ("r=oursmore,s=QQ==,i=1", "1 iterations"),
        ("r=oursmore,s=QQ==,i=99999999", "99999999 iterations"),
        ("r=oursmore,s=!,i=4096", "no challenge"),
        ("", "no challenge"),
        ("e=other-error", "no challenge"),
        ("r=oursmore,s=QQ==,i=4096", "does not know the password itself"),
    ],
)
def test_a_server_that_cheats_is_found_out(challenge: str, why: str) -> None:
    with pytest.raises(sasl.Impostor, match=why):
        scram_with(lambda _: challenge)


def test_names_are_escaped() -> None:
    assert next(sasl.scram("SCRAM-SHA-256", "a=b,c", PASSWORD, lambda: "x")) == b"n,,n=a=3Db=2Cc,r=x"

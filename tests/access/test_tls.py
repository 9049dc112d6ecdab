"""What is spoken on an encrypted port: no old version, no weak cipher, no resumed session."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.access.tls import ServerTls
from headwater.errors import InvalidSetting
from headwater.settings import SecuritySettings
from tests.access.secured import Certificates, certificates_in
from tests.waiting import wait_until
from tests.wire.logins import guarded_server
from tests.wire.running import RunningServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates_in(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[RunningServer]:
    with guarded_server(certificates.settings(mechanisms=("PLAIN",))) as server:
        yield server


def spoken(server: RunningServer, context: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher of a connection; ssl.SSLError or ConnectionError if there is none."""
    with (
        socket.create_connection((server.host, server.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        cipher = secure.cipher()
        assert cipher is not None
        return str(secure.version()), cipher[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_today_are_spoken(
    version: ssl.TLSVersion, server: RunningServer, certificates: Certificates
) -> None:
    context = certificates.context()
    context.minimum_version = context.maximum_version = version
    spoken_version, cipher = spoken(server, context)
    assert spoken_version == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
    assert "GCM" in cipher or "CHACHA20" in cipher


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_not(version: ssl.TLSVersion, server: RunningServer, certificates: Certificates) -> None:
    context = certificates.context()
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)):
        spoken(server, context)


@pytest.mark.parametrize(
    "ciphers", ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA", "aNULL", "DHE-RSA-AES128-GCM-SHA256"]
)
def test_ciphers_without_forward_secrecy_or_authentication_are_not(
    ciphers: str, server: RunningServer, certificates: Certificates
) -> None:
    context = certificates.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        spoken(server, context)


def test_a_session_is_not_resumed_after_the_certificate_has_changed(tmp_path: Path) -> None:
    certificates = certificates_in(tmp_path)
    with guarded_server(certificates.settings(mechanisms=("PLAIN",))) as server:
        context = certificates.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        before, session, _ = a_session(server, context)
        certificates.issue_server()
        wait_until(lambda: a_session(server, context)[0] != before, "the new certificate")
        assert not a_session(server, context, session)[2]


def test_a_session_of_tls_13_is_not_resumed(server: RunningServer, certificates: Certificates) -> None:
    context = certificates.context()
    _, session, _ = a_session(server, context)
    assert session is None or not session.has_ticket


def a_session(
    server: RunningServer, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[str, ssl.SSLSession | None, bool | None]:
    """The certificate's number, the session, and whether it was resumed."""
    with (
        socket.create_connection((server.host, server.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as secure,
    ):
        shown = secure.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"]), secure.session, secure.session_reused


@pytest.mark.parametrize("broken", ["missing", "not a certificate", "another key"])
def test_files_that_cannot_be_used_are_named(broken: str, certificates: Certificates, tmp_path: Path) -> None:
    other = certificates_in(tmp_path / "other")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    settings = {
        "missing": SecuritySettings(certificate=tmp_path / "missing.pem"),
        "not a certificate": SecuritySettings(certificate=garbage),
        "another key": SecuritySettings(
            certificate=certificates.server, certificate_key=other.server.with_suffix(".key")
        ),
    }[broken]
    with pytest.raises(InvalidSetting, match=r"\.pem"):
        ServerTls(settings, lambda: 0.0, client_certificates=True)


def test_a_new_certificate_is_looked_for_once_a_second_at_most(tmp_path: Path) -> None:
    certificates = certificates_in(tmp_path)
    now = 0.0
    tls = ServerTls(certificates.settings(), lambda: now, client_certificates=True)
    first = tls.context
    certificates.issue_server()
    assert tls.context is first
    now = 1.0
    assert tls.context is not first

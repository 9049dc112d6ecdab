"""One POST: to an address that was checked, within a time that was set."""

import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from headwater.clock import SystemClock
from headwater.errors import UsageError
from headwater.webhooks.sending import DELIVERED, FAILED, REFUSED, Pinned, Sender, Until, check_url
from tests.waiting import LONG, patience
from tests.webhooks.target import Certificate, certificate_of, closed_port, silent_target, webhook_target

NAME = "hooks.invalid"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate_of(NAME, tmp_path_factory.mktemp("certificate"))


def named(url: str) -> str:
    return url.replace("127.0.0.1", NAME)


def test_what_is_posted_arrives_as_it_is() -> None:
    with webhook_target(204) as target:
        answer = Sender(target.url, allow_private=True).post(b'{"n": 1}', {"webhook-id": "a1"})
    assert (answer.outcome, answer.status) == (DELIVERED, 204)
    [taken] = target.taken
    assert (taken.path, taken.body, taken.headers["webhook-id"]) == ("/alerts?team=a", b'{"n": 1}', "a1")
    assert taken.headers["host"] == target.url.split("/")[2]


def test_a_private_address_is_refused_and_nothing_is_sent() -> None:
    with webhook_target() as target:
        answer = Sender(target.url).post(b"{}", {})
    assert answer.outcome == REFUSED
    assert "127.0.0.1, which is private" in answer.said
    assert target.taken == []


def test_a_name_is_looked_up_once_and_what_was_checked_is_where_it_goes() -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with webhook_target() as target:
        url = target.url.replace("127.0.0.1", "hooks.invalid")
        assert Sender(url, allow_private=True, resolve=resolve).post(b"{}", {}).outcome == DELIVERED
    assert asked == ["hooks.invalid"], "a second look could say another address than the one that was checked"
    assert target.taken[0].headers["host"].startswith("hooks.invalid:")


def test_a_name_that_means_a_private_address_is_refused() -> None:
    sender = Sender("https://metadata.example/latest", resolve=lambda host, port: ["1.1.1.1", "169.254.169.254"])
    assert sender.post(b"{}", {}).outcome == REFUSED


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with webhook_target() as inside, webhook_target((status, "location", inside.url)) as target:
        answer = Sender(target.url, allow_private=True).post(b"{}", {})
    assert (answer.outcome, answer.status) == (REFUSED, status)
    assert inside.taken == []


@pytest.mark.parametrize("status, outcome", [(500, FAILED), (503, FAILED), (429, FAILED), (408, FAILED),
                                             (400, REFUSED), (404, REFUSED), (410, REFUSED)])  # fmt: skip
def test_what_may_be_tried_again_is_distinguished_from_what_may_not(status: int, outcome: str) -> None:
    with webhook_target(status) as target:
        assert Sender(target.url, allow_private=True).post(b"{}", {}).outcome == outcome


def test_a_target_that_sends_retry_after_is_obeyed() -> None:
    with webhook_target((503, "retry-after", "120")) as target:
        assert Sender(target.url, allow_private=True).post(b"{}", {}).retry_after_seconds == 120


@pytest.mark.parametrize("behaviour", [0, -1], ids=["says nothing", "says a byte now and then"])
def test_a_target_that_hangs_is_given_up_in_time(behaviour: int) -> None:
    with webhook_target(behaviour) as target:
        began = patience()
        answer = Sender(target.url, timeout_seconds=0.4, allow_private=True).post(b"{}", {})
        took = patience() - began
    assert answer.outcome == FAILED
    assert "0.4 seconds" in answer.said
    assert took < 3


def test_over_tls_it_goes_only_to_whom_the_certificate_names(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    with webhook_target(certificate=certificate) as target:
        known = Sender(named(target.url), allow_private=True, resolve=_here).post(b"{}", {})
        other = Sender(target.url, allow_private=True).post(b"{}", {})
    assert (known.outcome, other.outcome) == (DELIVERED, FAILED)
    assert "certificate" in other.said
    assert len(target.taken) == 1


def test_an_address_that_does_not_answer_leaves_the_next_its_time(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    addresses = ["127.0.0.3", "127.0.0.2", "127.0.0.1"]
    with webhook_target(certificate=certificate) as target:
        sender = Sender(named(target.url), 3, allow_private=True, resolve=lambda host, port: addresses)
        with silent_target("127.0.0.2", urlsplit(target.url).port or 0):
            began = patience()
            assert sender.post(b"{}", {}).outcome == DELIVERED
            took = patience() - began
    assert len(target.taken) == 1
    assert took < 2.5


def test_a_handshake_that_is_drawn_out_is_cut() -> None:
    with silent_target() as listening, ThreadPoolExecutor(1) as pool:
        until = Until(SystemClock(), 30)
        connection = Pinned(NAME, listening.getsockname()[1], ["127.0.0.1"], tls=True, until=until)
        connecting = pool.submit(connection.connect)
        taken, _ = listening.accept()
        with taken:
            assert taken.recv(1), "the handshake has begun"
            connection.cut()
            assert isinstance(connecting.exception(timeout=LONG), OSError)


@pytest.mark.parametrize("tls", [False, True])
def test_a_delivery_aborted_before_it_connected_does_not_continue(tls: bool) -> None:
    with silent_target() as listening:
        connection = Pinned(NAME, listening.getsockname()[1], ["127.0.0.1"], tls=tls, until=Until(SystemClock(), 5))
        connection.cut()
        with pytest.raises(TimeoutError):
            connection.connect()


def test_a_refused_connection_and_an_unknown_name_are_failures_to_try_again() -> None:
    refused = Sender(f"http://127.0.0.1:{closed_port()}/", allow_private=True).post(b"{}", {})
    unknown = Sender("http://there.invalid/", resolve=_unknown).post(b"{}", {})
    assert (refused.outcome, unknown.outcome) == (FAILED, FAILED)


def test_a_name_server_that_does_not_answer_costs_the_timeout() -> None:
    silent, began = threading.Event(), patience()
    sender = Sender("http://there.invalid/", timeout_seconds=0.3, resolve=lambda host, port: [str(silent.wait(LONG))])
    answer = sender.post(b"{}", {})
    silent.set()
    assert (answer.outcome, "does not answer" in answer.said) == (FAILED, True)
    assert patience() - began < 3


def _here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def _unknown(host: str, port: int) -> list[str]:
    raise OSError("Name or service not known")


@pytest.mark.parametrize("url", ["ftp://x/", "https:///path", "hooks.example", "http://u:p@x/", "http://x/a b", "http://x:0/",
                                 "http://[::1", "http://x/\n", "file:///etc/passwd"])  # fmt: skip
def test_a_url_that_cannot_be_posted_to_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_url(url)
    assert url not in str(refused.value)

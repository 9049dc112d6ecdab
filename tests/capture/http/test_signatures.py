"""Signatures of webhooks: what fits is taken, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.http.refusal import Refusal
from headwater.capture.http.signatures import SCHEMES, delivery_of
from tests.capture.http.signing import SECRET, signed

NOW = 1_800_000_000
BODY = b'{"a": 1}'
TIMED = [scheme for scheme in SCHEMES if scheme != "github"]


def verdict(scheme: str, headers: dict[str, str], body: bytes = BODY, *secrets: str, now: int = NOW) -> str:
    return delivery_of(scheme, secrets or (SECRET,), headers, body, now_ms=1000 * now)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_fits_is_taken_and_named_the_same_when_it_comes_again(scheme: str) -> None:
    headers = signed(scheme, BODY, seconds=NOW)
    assert verdict(scheme, headers) == verdict(scheme, headers, now=NOW + 200)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_another_body_secret_or_signature_does_not_fit(scheme: str) -> None:
    good = signed(scheme, BODY, seconds=NOW)
    tampered = {name: f"{value[:-3]}000" if "signature" in name else value for name, value in good.items()}
    tries = [
        (good, b'{"a": 2}', SECRET),
        (good, BODY, "another secret of some length"),
        (tampered, BODY, SECRET),
        (dict.fromkeys(good, "x"), BODY, SECRET),
        (dict.fromkeys(good, ""), BODY, SECRET),
        ({}, BODY, SECRET),
    ]
    for headers, body, secret in tries:
        with pytest.raises(Refusal) as refused:
            verdict(scheme, headers, body, secret)
        assert refused.value.status == 401


@pytest.mark.parametrize("scheme", TIMED)
@pytest.mark.parametrize("seconds", [NOW - 301, NOW + 301, 0])
def test_what_was_signed_long_ago_or_in_the_future_is_refused(scheme: str, seconds: int) -> None:
    with pytest.raises(Refusal, match="not of the last 300 seconds"):
        verdict(scheme, signed(scheme, BODY, seconds=seconds))


@pytest.mark.parametrize("scheme", TIMED)
def test_a_time_cannot_be_changed_without_the_secret(scheme: str) -> None:
    old = signed(scheme, BODY, seconds=NOW - 1000)
    renewed = {name: value.replace(str(NOW - 1000), str(NOW)) for name, value in old.items()}
    with pytest.raises(Refusal, match="does not fit"):
        verdict(scheme, renewed)


def test_the_id_of_a_standard_webhook_is_signed_and_names_the_delivery() -> None:
    headers = signed("standard", BODY, seconds=NOW, id="msg_9")
    assert verdict("standard", headers) == "msg_9"
    with pytest.raises(Refusal, match="does not fit"):
        verdict("standard", {**headers, "webhook-id": "msg_10"})


def test_a_secret_can_be_changed_while_both_are_in_use() -> None:
    headers = signed("github", BODY, secret="the new secret, twice as long")
    assert verdict("github", headers, BODY, SECRET, "the new secret, twice as long")


def test_the_example_of_the_standard_is_taken() -> None:
    """From the specification of Standard Webhooks' reference libraries: their secret, id, time and signature."""
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert verdict("standard", headers, b'{"test": 2432232314}', secret, now=1614265330) == headers["webhook-id"]


@given(st.sampled_from(list(SCHEMES)), st.binary(max_size=20), st.lists(st.text(max_size=30), min_size=3, max_size=3))
def test_no_header_is_taken_by_chance_or_makes_it_fail(scheme: str, body: bytes, values: list[str]) -> None:
    headers = dict(zip(signed(scheme, b""), values, strict=False))
    with pytest.raises(Refusal):
        verdict(scheme, headers, body)

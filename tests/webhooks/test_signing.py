import pytest

from headwater.capture.http.refusal import Refusal
from headwater.capture.http.signatures import delivery_of
from headwater.errors import UsageError
from headwater.webhooks.signing import secret_bytes, signature_headers

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("secret", ["s3cret", "whsec_aGVsbG8gdGhlcmU="])
def test_what_we_sign_is_what_our_own_hooks_take(secret: str) -> None:
    headers = signature_headers(secret, "a1-raised", b'{"n":1}', now_ms=NOW_MS)
    assert delivery_of("standard", [secret], headers, b'{"n":1}', now_ms=NOW_MS) == "a1-raised"


@pytest.mark.parametrize("changed", ["body", "id", "time", "secret"])
def test_nothing_of_it_can_be_changed_on_the_way(changed: str) -> None:
    headers = signature_headers("s3cret", "a1", b"{}", now_ms=NOW_MS)
    headers |= {"id": {"webhook-id": "a2"}, "time": {"webhook-timestamp": "1700000001"}}.get(changed, {})
    secret, body = ("other" if changed == "secret" else "s3cret"), (b"{ }" if changed == "body" else b"{}")
    with pytest.raises(Refusal, match="does not fit"):
        delivery_of("standard", [secret], headers, body, now_ms=NOW_MS)


def test_a_secret_that_says_base64_and_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="base64"):
        secret_bytes("whsec_?")

"""Whether a webhook was sent by who knows the secret, and lately. Pure.

Each scheme says what is signed, where the signature stands, and what identifies a delivery; all use HMAC-SHA256.

standard   webhook-id, webhook-timestamp, webhook-signature: "v1,BASE64 v1,BASE64"   ID.TIME.BODY
stripe     stripe-signature: "t=TIME,v1=HEX,v1=HEX"                                  TIME.BODY
slack      x-slack-request-timestamp, x-slack-signature: "v0=HEX"                    v0:TIME:BODY
github     x-hub-signature-256: "sha256=HEX"                                         BODY, without a time
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headwater.capture.http.refusal import Refusal

TOLERANCE_SECONDS = 300
SECRET_PREFIX = "whsec_"


class Signed(NamedTuple):
    """The signature headers of a request."""

    message: bytes
    """The signed bytes."""
    signatures: Sequence[bytes]
    """Any of them may fit: a sender that changes its secret sends one for each."""
    time: str | None
    """Seconds since 1970; None where the scheme has no time."""
    id: str | None
    """Of the delivery, the same when it is sent again; None: the signed content identifies it."""


def delivery_of(scheme: str, secrets: Sequence[str], headers: Mapping[str, str], body: bytes, *, now_ms: int) -> str:
    """Returns the id of this delivery. Refusal 401 if it is not signed, not by one of the secrets, or not lately.

    A delivery that is repeated with the same signature has the same name, so that who listened in cannot send it twice.
    """
    claimed = SCHEMES[scheme](headers, body)
    digests = [hmac.new(secret_bytes(one), claimed.message, hashlib.sha256).digest() for one in secrets]
    # All of them are compared, whichever fits: the time it takes says nothing.
    fitting = [hmac.compare_digest(digest, one) for digest in digests for one in claimed.signatures]
    if not any(fitting):
        raise Refusal(401, "the signature does not fit")
    if claimed.time is not None:
        _check_time(claimed.time, now_ms)
    return claimed.id if claimed.id is not None else hashlib.sha256(claimed.message).hexdigest()


def secret_bytes(secret: str) -> bytes:
    """Standard Webhooks writes secrets in base64 after a prefix; others take the text as it is."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)


def _check_time(said: str, now_ms: int) -> None:
    if not said.isascii() or not said.isdecimal() or len(said) > 12:
        raise Refusal(401, "the time of the signature is no number of seconds")
    if abs(int(said) - now_ms // 1000) > TOLERANCE_SECONDS:
        raise Refusal(401, f"the signature is not of the last {TOLERANCE_SECONDS} seconds; compare the clocks")


def _header(headers: Mapping[str, str], name: str) -> str:
    if not headers.get(name):
        raise Refusal(401, f"the request has no header {name}, for its signature")
    return headers[name]


def _standard(headers: Mapping[str, str], body: bytes) -> Signed:
    id_, time = _header(headers, "webhook-id"), _header(headers, "webhook-timestamp")
    listed = [one.partition(",") for one in _header(headers, "webhook-signature").split()]
    signatures = [_base64(text) for version, _, text in listed if version == "v1"]
    return Signed(f"{id_}.{time}.".encode("latin-1", "replace") + body, signatures, time, id_)


def _stripe(headers: Mapping[str, str], body: bytes) -> Signed:
    parts = [part.strip().partition("=") for part in _header(headers, "stripe-signature").split(",")]
    time = next((value for name, _, value in parts if name == "t"), "")
    signatures = [_hex(value) for name, _, value in parts if name == "v1"]
    return Signed(time.encode("latin-1", "replace") + b"." + body, signatures, time, None)


def _slack(headers: Mapping[str, str], body: bytes) -> Signed:
    time = _header(headers, "x-slack-request-timestamp")
    signature = _header(headers, "x-slack-signature").removeprefix("v0=")
    return Signed(f"v0:{time}:".encode("latin-1", "replace") + body, [_hex(signature)], time, None)


def _github(headers: Mapping[str, str], body: bytes) -> Signed:
    return Signed(body, [_hex(_header(headers, "x-hub-signature-256").removeprefix("sha256="))], None, None)


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


SCHEMES: dict[str, Callable[[Mapping[str, str], bytes], Signed]] = {
    "standard": _standard,
    "stripe": _stripe,
    "slack": _slack,
    "github": _github,
}

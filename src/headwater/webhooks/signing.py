"""The signature of a webhook, as Standard Webhooks has it. Pure.

webhook-id: ID
webhook-timestamp: SECONDS
webhook-signature: v1,BASE64(HMAC-SHA256(secret, "ID.SECONDS.BODY"))
"""

import base64
import binascii
import hashlib
import hmac

from headwater.errors import UsageError

SECRET_PREFIX = "whsec_"


def signature_headers(secret: str, id: str, body: bytes, *, now_ms: int) -> dict[str, str]:
    """Returns the headers by which a receiver verifies the sender and the time, and recognizes a duplicate.

    Without a secret it is not signed, and still says its id.

    >>> sorted(signature_headers("", "a-1", b"{}", now_ms=1_700_000_000_000))
    ['webhook-id', 'webhook-timestamp']
    """
    time = str(now_ms // 1000)
    headers = {"webhook-id": id, "webhook-timestamp": time}
    if secret:
        digest = hmac.new(secret_bytes(secret), f"{id}.{time}.".encode() + body, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


def secret_bytes(secret: str) -> bytes:
    """The key of a secret: base64 after `whsec_`, or else the text as it is.

    >>> secret_bytes("whsec_aGVsbG8=")
    b'hello'
    """
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"a secret that begins with {SECRET_PREFIX} continues in base64; this one does not") from None

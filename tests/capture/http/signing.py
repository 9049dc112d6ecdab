"""Requests signed as the senders of webhooks sign them."""

import base64
import hashlib
import hmac

SECRET = "a secret nobody can guess"


def digest(secret: bytes, message: bytes) -> bytes:
    return hmac.new(secret, message, hashlib.sha256).digest()


def signed(scheme: str, body: bytes, *, secret: str = SECRET, seconds: int = 0, id: str = "msg_1") -> dict[str, str]:
    key = secret.encode()
    match scheme:
        case "standard":
            text = base64.b64encode(digest(key, f"{id}.{seconds}.".encode() + body)).decode()
            return {"webhook-id": id, "webhook-timestamp": str(seconds), "webhook-signature": f"v1,{text}"}
        case "stripe":
            return {"stripe-signature": f"t={seconds},v0=00,v1={digest(key, f'{seconds}.'.encode() + body).hex()}"}
        case "slack":
            signature = digest(key, f"v0:{seconds}:".encode() + body).hex()
            return {"x-slack-request-timestamp": str(seconds), "x-slack-signature": f"v0={signature}"}
    return {"x-hub-signature-256": f"sha256={digest(key, body).hex()}"}

"""SCRAM (RFC 5802, RFC 7677): hashed passwords, and the server's side of the exchange. Pure.

    client   n,,n=alice,r=<nonce>
    server   r=<nonce><nonce of ours>,s=<salt>,i=<iterations>
    client   c=biws,r=<both nonces>,p=<proof>
    server   v=<our own proof>

Of a password are kept: salt, iterations, StoredKey, ServerKey. Neither reveals the password, and the client's proof
cannot be made from them. A user who does not exist gets a salt of their own, always the same, so that no client
learns who exists.
"""

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""Kafka's bounds: a client computes so many hashes at each login."""

ITERATIONS = 8192
MESSAGE_BYTES_MAX = 4096
SALT_BYTES = 16


class Mechanism(NamedTuple):
    name: str
    number: int
    """Kafka's, in the API of credentials."""
    digest: str


SHA256 = Mechanism("SCRAM-SHA-256", 1, "sha256")
SHA512 = Mechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS = {one.name: one for one in (SHA256, SHA512)}


class Credential(NamedTuple):
    """What is kept of a password, for one mechanism."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class Refused(Exception):
    """The exchange ends without a login. The text is for the log, not for the client."""


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(errors="replace"), salt, iterations)


def credential_from_salted(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    return Credential(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", mechanism.digest))


def credential_for(mechanism: Mechanism, password: str, salt: bytes, iterations: int = ITERATIONS) -> Credential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_from_salted(mechanism, salted, salt, iterations)


def unknown_users_credential(mechanism: Mechanism, name: str, secret: bytes) -> Credential:
    """One that no password fits, and that looks like any other."""
    seed = hmac.digest(secret, f"{mechanism.name}:{name}".encode(errors="replace"), "sha512")
    size = hashlib.new(mechanism.digest).digest_size
    return Credential(seed[:SALT_BYTES], ITERATIONS, seed[-size:], seed[-size:])


def fits(mechanism: Mechanism, credential: Credential, password: str) -> bool:
    """Is this the password? Costs as many hashes as the credential has iterations."""
    made = credential_for(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)


class ClientFirst(NamedTuple):
    header: str
    bare: str
    user: str
    nonce: str


def parse_first(message: bytes) -> ClientFirst:
    """Refused if it is not what a client begins with, or asks to act for another user."""
    text = _text(message)
    parts = text.split(",", 2)
    if len(parts) != 3 or parts[0] not in ("n", "y") or (parts[1] and not parts[1].startswith("a=")):
        raise Refused("the first message of the client is not one of SCRAM without channel binding")
    fields = _fields(parts[2])
    if list(fields)[:2] != ["n", "r"] or not fields["n"] or not fields["r"]:
        raise Refused("the first message names no user or no nonce")
    if fields.get("tokenauth", "").lower() == "true":
        raise Refused("delegation tokens do not exist here")
    name = _unescaped(fields["n"])
    if parts[1] and _unescaped(parts[1][2:]) != name:
        raise Refused("a user may not act for another")
    return ClientFirst(f"{parts[0]},{parts[1]},", parts[2], name, fields["r"])


class ServerExchange:
    """One exchange, after its first message. `first` goes to the client, then `finish` with its answer."""

    def __init__(self, mechanism: Mechanism, opening: ClientFirst, credential: Credential, nonce: str) -> None:
        self._mechanism, self._opening, self._credential = mechanism, opening, credential
        self._nonce = opening.nonce + nonce
        salt = base64.b64encode(credential.salt).decode()
        self.first = f"r={self._nonce},s={salt},i={credential.iterations}".encode()

    def finish(self, message: bytes) -> bytes:
        """Our proof for the client, once its own is right; Refused if it is not."""
        text = _text(message)
        without_proof, comma, proof_text = text.rpartition(",p=")
        fields = _fields(without_proof)
        if not comma or list(fields)[:2] != ["c", "r"]:
            raise Refused("the last message of the client is not one of SCRAM")
        if _decoded(fields["c"]) != self._opening.header.encode():
            raise Refused("the channel binding is not the one that was said first")
        # Without this check an answer that was recorded in another exchange could be used again.
        if not hmac.compare_digest(fields["r"].encode(), self._nonce.encode()):
            raise Refused("the nonce is not that of this exchange")
        signed = b",".join([self._opening.bare.encode(), self.first, without_proof.encode()])
        signature = hmac.digest(self._credential.stored_key, signed, self._mechanism.digest)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise Refused("the proof has the wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._mechanism.digest, client_key).digest()
        if not hmac.compare_digest(stored_key, self._credential.stored_key):
            raise Refused("wrong user or password")
        proof_of_ours = hmac.digest(self._credential.server_key, signed, self._mechanism.digest)
        return b"v=" + base64.b64encode(proof_of_ours)


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise Refused(f"a message of {len(message)} bytes; {MESSAGE_BYTES_MAX} are allowed")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise Refused("a message is not written in UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name in found:
            raise Refused("a message does not consist of fields")
        found[name] = value
    return found


def _unescaped(name: str) -> str:
    """
    >>> _unescaped("a=2Cb=3D")
    'a,b='
    """
    plain = name.replace("=2C", ",").replace("=2c", ",")
    if "=" in plain.replace("=3D", "").replace("=3d", ""):
        raise Refused("a name has an = that is not escaped")
    return plain.replace("=3D", "=").replace("=3d", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused("a field is not written in base64") from None

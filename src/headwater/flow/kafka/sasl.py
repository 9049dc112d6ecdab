"""How a client proves who it is: a generator for each SASL mechanism yields what is sent, and takes the answers. Pure.

PLAIN           NUL user NUL password
SCRAM           n,,n=user,r=nonce  →  r=nonces,s=salt,i=iterations  →  c=biws,r=nonces,p=proof  →  v=signature
OAUTHBEARER     n,,^Aauth=Bearer token^A^A
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Generator

Exchange = Generator[bytes, bytes, None]

SCRAM_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
"""Fewer make a stolen password file cheap to search; more would keep us busy for as long as the other side likes."""


class Impostor(Exception):
    """The other side does not know the password either, or does not follow the protocol."""


def plain(user: str, password: str) -> Exchange:
    yield b"\0".join([b"", user.encode(), password.encode()])


def bearer(token: str) -> Exchange:
    answer = yield b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    if answer:
        # It says why it refuses, and wants a byte before it says so as an error.
        yield b"\x01"


def scram(mechanism: str, user: str, password: str, nonce: Callable[[], str]) -> Exchange:
    """Impostor if the server cannot show in the end that it knows what the password was hashed to."""
    digest, ours = SCRAM_DIGESTS[mechanism], nonce()
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={ours}"
    challenge = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(challenge)
    try:
        both, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError, binascii.Error):
        raise Impostor(f"it sent no challenge of SCRAM: {challenge[:80]!r}") from None
    if not both.startswith(ours) or len(both) == len(ours):
        raise Impostor("its nonce does not continue ours")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise Impostor(f"it asks for {iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={both}"
    signed = f"{first},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    try:
        shown = base64.b64decode(_fields(last.decode(errors="replace")).get("v", ""), validate=True)
    except (ValueError, binascii.Error):
        shown = b""
    if not hmac.compare_digest(shown, expected):
        raise Impostor("it does not know the password itself")


def _fields(message: str) -> dict[str, str]:
    """
    >>> _fields("r=ab,s=QQ==,i=4096")
    {'r': 'ab', 's': 'QQ==', 'i': '4096'}
    """
    return {name: value for name, equals, value in (part.partition("=") for part in message.split(",")) if equals}

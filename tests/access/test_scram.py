"""SCRAM: the exchanges of the RFCs byte for byte, every way to be refused, and any password."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.access.scram import (
    ITERATIONS,
    ITERATIONS_MIN,
    SHA256,
    SHA512,
    ClientFirst,
    Credential,
    Mechanism,
    Refused,
    ServerExchange,
    credential_for,
    fits,
    parse_first,
    salted_password,
    unknown_users_credential,
)

SHA1 = Mechanism("SCRAM-SHA-1", 0, "sha1")
"""Not offered: RFC 5802 has its example in it."""

EXAMPLES = [
    pytest.param(
        SHA1, "QSXCR+Q6sek8bf92", "fyko+d2lbbFgONRv9qkxdawL", "3rfcNHYJY1ZVvWVs7j",
        "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", "rmF9pqV8S7suAoZWja4dJRkFsKQ=", id="RFC 5802",
    ),
    pytest.param(
        SHA256, "W22ZaJ0SNY7soEsUEjb6gQ==", "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", id="RFC 7677",
    ),
]  # fmt: skip


@pytest.mark.parametrize("mechanism, salt, client_nonce, server_nonce, proof, verifier", EXAMPLES)
def test_the_exchange_of_the_rfc_is_reproduced_byte_for_byte(
    mechanism: Mechanism, salt: str, client_nonce: str, server_nonce: str, proof: str, verifier: str
) -> None:
    credential = credential_for(mechanism, "pencil", base64.b64decode(salt), 4096)
    exchange = ServerExchange(mechanism, parse_first(f"n,,n=user,r={client_nonce}".encode()), credential, server_nonce)
    assert exchange.first == f"r={client_nonce}{server_nonce},s={salt},i=4096".encode()
    last = f"c=biws,r={client_nonce}{server_nonce},p={proof}".encode()
    assert exchange.finish(last) == f"v={verifier}".encode()


def client_last(mechanism: Mechanism, opening: ClientFirst, server_first: bytes, password: str) -> bytes:
    """What a client answers: RFC 5802, section 3, written a second time."""
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = salted_password(mechanism, password, base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    without_proof = f"c={base64.b64encode(opening.header.encode()).decode()},r={fields['r']}"
    signed = f"{opening.bare},{server_first.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(mechanism.digest, client_key).digest(), signed, mechanism.digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@settings(max_examples=25)
@given(name=NAMES, password=PASSWORDS, other=PASSWORDS, mechanism=st.sampled_from([SHA256, SHA512]))
def test_only_the_password_that_was_set_logs_in(name: str, password: str, other: str, mechanism: Mechanism) -> None:
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    opening = parse_first(f"n,,n={escaped},r=abc".encode())
    assert opening.user == name
    credential = credential_for(mechanism, password, b"salt of sixteen.", ITERATIONS_MIN)
    exchange = ServerExchange(mechanism, opening, credential, "xyz")
    assert exchange.finish(client_last(mechanism, opening, exchange.first, password)).startswith(b"v=")
    assert fits(mechanism, credential, password)
    assert fits(mechanism, credential, other) is (other == password)


def an_exchange(password: str = "pencil") -> tuple[ClientFirst, ServerExchange]:
    opening = parse_first(b"n,,n=user,r=abc")
    credential = credential_for(SHA256, password, b"salt", ITERATIONS_MIN)
    return opening, ServerExchange(SHA256, opening, credential, "xyz")


def test_a_wrong_password_is_refused() -> None:
    opening, exchange = an_exchange()
    with pytest.raises(Refused, match="wrong user or password"):
        exchange.finish(client_last(SHA256, opening, exchange.first, "pencils"))


def test_an_answer_of_another_exchange_is_refused() -> None:
    opening, recorded = an_exchange()
    last = client_last(SHA256, opening, recorded.first, "pencil")
    again = ServerExchange(SHA256, opening, credential_for(SHA256, "pencil", b"salt", ITERATIONS_MIN), "other nonce")
    with pytest.raises(Refused, match="nonce"):
        again.finish(last)


@pytest.mark.parametrize(
    "message",
    [b"", b"n", b"n,,", b"n,,n=user", b"n,,n=,r=abc", b"n,,n=user,r=", b"n,,r=abc,n=user", b"p=tls-unique,,n=user,r=a",
     b"x,,n=user,r=abc", b"n,a=other,n=user,r=abc", b"n,user,n=user,r=abc", b"n,,n=user,n=other,r=abc",
     b"n,,m=extension,n=user,r=abc", b"n,,n=us=er,r=abc", b"n,,n=user,r=abc,tokenauth=true", b"n,,n=\xff,r=abc",
     b"n,,n=user,r=" + b"a" * 5000],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(Refused):
        parse_first(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"p=", b"c=biws,r=abcxyz", b"c=biws,p=AAAA", b"r=abcxyz,c=biws,p=AAAA", b"c=biws,r=abcxyz,p=%%%",
     b"c=biws,r=abcxyz,p=AAAA", b"c=eSws,r=abcxyz,p=AAAA", b"c=biws,r=abc,p=AAAA", b"c=biws,c=biws,r=abcxyz,p=AAAA",
     b"c=biws,r=abcxyz,p=" + base64.b64encode(bytes(32)), b"\xff" * 9],
)  # fmt: skip
def test_a_last_message_that_proves_nothing_is_refused(message: bytes) -> None:
    _, exchange = an_exchange()
    with pytest.raises(Refused):
        exchange.finish(message)


@settings(max_examples=100)
@given(
    message=st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: f"n,,n={text},r=".encode("utf-8", "replace"))
)
def test_bytes_of_any_kind_are_refused_or_open_an_exchange(message: bytes) -> None:
    _, exchange = an_exchange()
    with pytest.raises(Refused):
        exchange.finish(message)
    try:
        opening = parse_first(message)
    except Refused:
        return
    assert opening.user
    assert opening.nonce


def test_a_user_who_does_not_exist_looks_like_one_who_does() -> None:
    secret = b"of this node"
    made_up = unknown_users_credential(SHA256, "eve", secret)
    real = credential_for(SHA256, "pencil", b"salt of sixteen.")
    assert [len(made_up.salt), made_up.iterations] == [len(real.salt), ITERATIONS]
    assert [len(made_up.stored_key), len(made_up.server_key)] == [len(real.stored_key), len(real.server_key)]
    assert unknown_users_credential(SHA256, "eve", secret) == made_up
    assert unknown_users_credential(SHA256, "eve", b"of another node").salt != made_up.salt
    assert unknown_users_credential(SHA256, "mallory", secret).salt != made_up.salt


def test_what_is_kept_does_not_contain_the_password_or_what_proves_it() -> None:
    kept = credential_for(SHA512, "correct horse", b"salt of sixteen.", ITERATIONS_MIN)
    salted = salted_password(SHA512, "correct horse", kept.salt, kept.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    assert isinstance(kept, Credential)
    assert not {b"correct horse", salted, client_key} & set(kept)

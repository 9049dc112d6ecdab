"""Bearer tokens: which count, and which do not for every reason there is."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from headwater.access.oauth import READ_SECONDS_MIN, TokenRefused, TokenVerifier, bearer_token
from headwater.clock import ManualClock
from headwater.errors import InvalidSetting
from headwater.settings import SecuritySettings

NOW = 1_700_000_000
OURS, SECRET = RSAKey.generate_key(2048, {"kid": "ours"}), OctKey.generate_key(256, {"kid": "secret"})
CLAIMS: dict[str, Any] = {"sub": "alice", "aud": "headwater", "iss": "shop", "exp": NOW + 60, "iat": NOW}


def signed(claims: dict[str, Any], key: Any = OURS, algorithm: str = "RS256") -> str:
    return jwt.encode({"alg": algorithm, "kid": "ours"}, claims, key, algorithms=[algorithm])


def verifier(folder: Path, *keys: Any, clock: ManualClock | None = None) -> TokenVerifier:
    file = folder / "keys.json"
    file.write_text(json.dumps(KeySet(list(keys or (OURS,))).as_dict(private=False)))
    settings = SecuritySettings(oauth_keys=str(file), oauth_audience="headwater", oauth_issuer="shop")
    return TokenVerifier(settings, clock or ManualClock(NOW * 1000))


def test_a_token_of_a_known_key_says_who_it_is_and_until_when(tmp_path: Path) -> None:
    assert verifier(tmp_path).verify(signed(CLAIMS)) == ("alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    "why, changed",
    [
        ("expired", {"exp": NOW - 31}),
        ("expired", {"exp": None}),
        ("expired", {"exp": "tomorrow"}),
        ("expired", {"exp": 2**70}),
        ("later time", {"nbf": NOW + 60}),
        ("later time", {"iat": NOW + 60}),
        ("another issuer", {"iss": "others"}),
        ("another audience", {"aud": "others"}),
        ("another audience", {"aud": None}),
        ("another audience", {"aud": ["others"]}),
        ("names a user", {"sub": ""}),
        ("names a user", {"sub": 7}),
    ],
)
def test_a_token_whose_claims_do_not_fit_is_refused(why: str, changed: dict[str, Any], tmp_path: Path) -> None:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}
    with pytest.raises(TokenRefused, match=why):
        verifier(tmp_path).verify(signed(claims))


def b64(said: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()


def with_claims(said: str, claims: Any) -> str:
    head, _, signature = said.split(".")
    return f"{head}.{b64(claims)}.{signature}"


FORGED = {
    "another key of the same name": lambda: signed(CLAIMS, RSAKey.generate_key(2048, {"kid": "ours"})),
    "a key of another kind": lambda: signed(CLAIMS, ECKey.generate_key("P-256", {"kid": "ours"}), "ES256"),
    "a shared secret": lambda: signed(CLAIMS, SECRET, "HS256"),
    "no signature": lambda: f"{b64({'alg': 'none'})}.{b64(CLAIMS)}.",
    "no algorithm": lambda: f"{b64({})}.{b64(CLAIMS)}.AAAA",
    "other claims than signed": lambda: with_claims(signed(CLAIMS), {**CLAIMS, "sub": "admin"}),
    "nothing": lambda: "",
    "three dots": lambda: "...",
}  # fmt: skip


@pytest.mark.parametrize("forged", FORGED)
def test_a_token_that_is_not_signed_by_a_known_key_is_refused(forged: str, tmp_path: Path) -> None:
    said = FORGED[forged]()
    with pytest.raises(TokenRefused) as refused:
        verifier(tmp_path, OURS, SECRET).verify(said)
    assert not said or said not in str(refused.value)


def test_keys_are_read_again_for_a_key_that_is_not_known_and_not_too_often(tmp_path: Path) -> None:
    clock = ManualClock(NOW * 1000)
    one = verifier(tmp_path, clock=clock)
    fresh = RSAKey.generate_key(2048, {"kid": "fresh"})
    said = jwt.encode({"alg": "RS256", "kid": "fresh"}, CLAIMS, fresh)
    with pytest.raises(TokenRefused):
        one.verify(said)
    (tmp_path / "keys.json").write_text(json.dumps(KeySet([OURS, fresh]).as_dict(private=False)))
    with pytest.raises(TokenRefused):
        one.verify(said)
    clock.advance(int(READ_SECONDS_MIN * 1000))
    assert one.verify(said)[0] == "alice"


@pytest.mark.parametrize("where", ["", "http://keys.example/jwks", "ftp://127.0.0.1/jwks"])
def test_keys_come_from_a_file_or_an_encrypted_address(where: str) -> None:
    with pytest.raises(InvalidSetting, match="oauth keys"):
        TokenVerifier(SecuritySettings(oauth_keys=where, oauth_audience="headwater"), ManualClock())


def test_an_audience_is_demanded(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="audience"):
        TokenVerifier(SecuritySettings(oauth_keys=str(tmp_path / "keys.json")), ManualClock())


@given(message=st.binary(max_size=80))
def test_a_message_of_any_bytes_has_a_token_or_is_refused(message: bytes) -> None:
    with pytest.raises(TokenRefused):
        bearer_token(b"n,,\x01" + message.replace(b"auth=", b"") + b"\x01")

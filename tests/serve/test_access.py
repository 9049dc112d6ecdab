"""Who may ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.serve.access import Access, host_name

LOOPBACK = Access("127.0.0.1", ["Registry.example"])

KNOWN = ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "registry.example:8080"]
UNKNOWN = [
    "",
    "evil.example",
    "evil.example:8080",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "203.0.113.7:80",
    "[::1].evil.com",
    "localhost:evil.com",
    "127.0.0.1:17501, evil.com",
    "localhost:8080:evil.com",
    "localhost@evil.com",
    "[::1]evil.com:80",
    "[localhost]",
]


@pytest.mark.parametrize("host", KNOWN)
def test_a_name_that_is_known_may_ask(host: str) -> None:
    assert LOOPBACK.refusal(host, None) == ""


@pytest.mark.parametrize("host", [None, *UNKNOWN])
def test_a_name_that_was_rebound_to_this_address_may_not(host: str | None) -> None:
    assert "allow it with --http-host" in LOOPBACK.refusal(host, None)


def test_on_a_public_port_any_address_may_stand_in_host_but_not_any_name() -> None:
    public = Access("0.0.0.0", public=True)
    assert public.refusal("203.0.113.7:8080", None) == ""
    assert public.refusal("[2001:db8::1]", None) == ""
    assert public.refusal("evil.example", None) != ""


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://localhost:8081", "http://localhost:8080.evil.example"]
)
def test_a_page_of_another_site_may_not_ask(origin: str) -> None:
    assert LOOPBACK.refusal("localhost:8080", origin) == "a page of another site may not ask this"


def test_a_page_of_our_own_may_ask() -> None:
    assert LOOPBACK.refusal("localhost:8080", "http://LocalHost:8080") == ""


@given(st.text(max_size=20), st.none() | st.text(max_size=20))
def test_no_header_makes_it_fail(host: str, origin: str | None) -> None:
    assert isinstance(LOOPBACK.refusal(host, origin), str)
    assert host_name(host) == host_name(host).lower()

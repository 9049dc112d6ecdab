import pytest

from headwater.webhooks.addresses import is_public, refusal

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", f"{10}.0.0.1", f"{172}.16.0.1", f"{192}.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1",
    "fec0::1", "feff::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::",
    "not an address", "",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_inside_a_network_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_that_everybody_reaches_is_public(address: str) -> None:
    assert is_public(address)


def test_one_private_address_among_others_is_reason_enough_to_refuse() -> None:
    assert "fd00::7" in refusal("hooks.example", ["1.1.1.1", "fd00::7"], allow_private=False)
    assert refusal("hooks.example", ["1.1.1.1", "2606:4700::1111"], allow_private=False) == ""


def test_a_host_without_an_address_is_not_refused_for_being_private() -> None:
    assert refusal("hooks.example", [], allow_private=False) == ""

from ipaddress import IPv4Address, IPv6Address
from random import Random

import pytest

from headwater.webhooks.addresses import GLOBAL_6, SPECIAL_4, SPECIAL_6, is_public, refusal

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", f"{10}.0.0.1", f"{172}.16.0.1", f"{192}.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1",
    "fec0::1", "feff::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::",
    "192.88.99.1", "3fff::1", "192.0.0.9", "192.31.196.1", "192.52.193.1", "192.175.48.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "240.0.0.1", "100::1", "100:0:0:1::1", "64:ff9b:1::1", "2001::1", "2001:1::1", "2001:2::1",
    "2001:3::1", "2001:4:112::1", "2001:20::1", "2001:30::1", "2001:db8::1", "2002:101:101::", "2620:4f:8000::1",
    "3ffe::1", "5f00::1", "4000::1", "::1.1.1.1", "not an address", "",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_inside_a_network_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_globally_reachable_address_is_public(address: str) -> None:
    assert is_public(address)


def test_one_private_address_among_others_is_reason_enough_to_refuse() -> None:
    assert "fd00::7" in refusal("hooks.example", ["1.1.1.1", "fd00::7"], allow_private=False)
    assert refusal("hooks.example", ["1.1.1.1", "2606:4700::1111"], allow_private=False) == ""


def test_a_host_without_an_address_is_not_refused_for_being_private() -> None:
    assert refusal("hooks.example", [], allow_private=False) == ""


def edges() -> list[IPv4Address | IPv6Address]:
    """Both ends of every network of our tables, and their neighbours outside."""
    found: list[IPv4Address | IPv6Address] = []
    for four in SPECIAL_4:
        ends = (int(four.network_address), int(four.broadcast_address))
        found += [IPv4Address(max(0, min(2**32 - 1, end + step))) for end in ends for step in (-1, 0, 1)]
    for six in (*SPECIAL_6, GLOBAL_6):
        ends = (int(six.network_address), int(six.broadcast_address))
        found += [IPv6Address(end + step) for end in ends for step in (-1, 0, 1)]
    return found


def test_nothing_is_public_that_python_knows_to_be_special() -> None:
    """Python's tables are older than ours, so they know fewer; but none of theirs is missing in ours."""
    dice = Random(5)
    anywhere = [IPv4Address(dice.getrandbits(32)) for _ in range(2_000)]
    networks = [IPv4Address(number << 20) for number in range(2**12)] + [
        IPv4Address(f"{start}.{third}.170") for start in ("192.0", "192.88", "198.51", "203.0") for third in range(256)
    ]
    for address in (*edges(), *anywhere, *networks):
        if is_public(str(address)):
            assert address.is_global, address
            assert not address.is_multicast, address
            assert not address.is_reserved, address

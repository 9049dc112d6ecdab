import asyncio

import pytest

from headwater.errors import UnsafeBind
from headwater.wire.bind import check_bind


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_safe(host: str) -> None:
    asyncio.run(check_bind(host, insecure=False))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "::ffff:192.0.2.1"])
def test_an_address_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(UnsafeBind, match="refusing to listen"):
        asyncio.run(check_bind(host, insecure=False))


def test_an_explicit_insecure_bind_is_allowed() -> None:
    asyncio.run(check_bind("0.0.0.0", insecure=True))

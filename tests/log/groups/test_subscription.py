import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.groups.subscription import subscribed_topics
from tests.log.groups.conversation import subscription


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_are_read_from_every_version(version: int) -> None:
    assert subscribed_topics(subscription("orders", "clicks", version=version)) == frozenset({"orders", "clicks"})


def test_no_topics_are_no_topics() -> None:
    assert subscribed_topics(subscription()) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x01\x7f\xff\xff\xff",
        b"\x00\x01\xff\xff\xff\xff",
        b"\x00\x01\x00\x00\x00\x01\x7f\xffabc",
        b"\x00\x01\x00\x00\x00\x01\xff\xffabc",
        b"\x00\x01\x00\x00\x00\x01\x00\x01\xff",
        b"\xff\xff\x00\x00\x00\x00",
    ],
)
def test_what_is_no_subscription_is_unknown(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise(metadata: bytes) -> None:
    subscribed_topics(metadata)

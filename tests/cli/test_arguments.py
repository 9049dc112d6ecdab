import pytest

from headwater.cli.arguments import address, duration_seconds, moment_ms, number, positive, setting, start


@pytest.mark.parametrize("text", ["9092", ":9092", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536"])
def test_an_address_needs_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT, such as"):
        address(text)


def test_an_address_is_spelled_as_it_was_typed() -> None:
    assert str(address("localhost:0")) == "localhost:0"
    assert str(address("[::1]:9092")) == "[::1]:9092"


@pytest.mark.parametrize("text, seconds", [("250ms", 0.25), ("60s", 60), ("5m", 300), ("1.5h", 5400), ("2d", 172800)])
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["60", "s", "-1s", "1 s", "1w"])
def test_a_duration_without_a_unit_we_know_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds(text)


@pytest.mark.parametrize(
    "text, ms",
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("1700000000000ms", 1_700_000_000_000),
    ],
)
def test_a_time_is_iso_8601_in_utc_or_milliseconds(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


def test_a_bare_number_is_an_offset_and_never_a_time() -> None:
    assert start("beginning", "end")("1700000000000").offset == 1_700_000_000_000


def test_a_starting_point_that_means_nothing_is_refused_with_what_would() -> None:
    with pytest.raises(ValueError, match="'yesterday' is not beginning, end, an offset such as 42, or a time such as"):
        start("beginning", "end")("yesterday")


def test_a_setting_keeps_what_follows_the_first_equals_sign() -> None:
    assert setting("name=a=b") == ("name", "a=b")
    assert setting("name=") == ("name", "")


@pytest.mark.parametrize("text", ["name", "=value", ""])
def test_a_setting_needs_a_name_and_an_equals_sign(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAME=VALUE"):
        setting(text)


def test_numbers_are_not_negative() -> None:
    with pytest.raises(ValueError, match="zero or more"):
        number("-1")
    with pytest.raises(ValueError, match="above zero"):
        positive("0")

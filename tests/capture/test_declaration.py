"""What an app says of a capture."""

from dataclasses import replace
from pathlib import Path

import pytest

import headwater as hw
from headwater.capture.declaration import apart, definitions_of, size_bytes
from headwater.capture.definition import Definitions
from headwater.capture.postgresql.source import PostgresSource
from headwater.errors import CaptureExists, InvalidCapture, InvalidDeclaration


def test_the_name_in_the_front_door_is_the_function_whatever_was_loaded() -> None:
    assert PostgresSource.__module__.startswith("headwater.capture.")
    assert hw.capture.postgres("postgresql://db/shop", table="users").tables == ("users",)


def test_a_declaration_becomes_a_capture_into_the_topic_of_its_table() -> None:
    declared = hw.capture.postgres("postgresql://ada:hush@db/shop", table="public.users", max_retained="2GiB")
    definition = declared.definition("users")
    assert (definition.topic_template, definition.retained_bytes_max) == ("users", 2**31)
    assert "hush" not in repr(declared) + repr(definition)


@pytest.mark.parametrize("url", ["mongodb://db/shop", "shop", ""])
def test_a_url_of_no_database_we_know_is_refused_where_it_is_said(url: str) -> None:
    with pytest.raises(InvalidCapture, match="no database that can be captured"):
        hw.capture.postgres(url, table="users")


def test_a_database_of_sqlite_is_named_by_its_whole_path() -> None:
    declared = hw.capture.sqlite("shop.db", table="users")
    assert declared.definition("users").url == f"sqlite:///{Path('shop.db').absolute()}"


@pytest.mark.parametrize("text", ["2 elephants", "GiB", "-1GiB", ""])
def test_a_size_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(InvalidCapture, match="is no size"):
        size_bytes(text)


def test_a_captured_table_is_read_from_its_envelope() -> None:
    app = hw.App("shop")
    capture = hw.capture.postgres("postgresql://db/shop", table="users")
    app.table("users", "id int", key="id", capture=capture)
    assert app.sources["users"].format == "debezium"
    assert app.captures == {"users": capture}


def test_a_topic_is_captured_from_one_source_only() -> None:
    app = hw.App("shop")
    app.table("users", "id int", key="id", capture=hw.capture.postgres("postgresql://db/shop", table="users"))
    other = hw.capture.postgres("postgresql://db/shop", table="others")
    with pytest.raises(InvalidDeclaration, match="captured from two places"):
        app.table("users", "id int", key="id", name="again", capture=other)


def test_an_envelope_is_no_stream() -> None:
    with pytest.raises(InvalidDeclaration, match=r"app\.table"):
        hw.App("shop").stream("users", "id int", format="debezium")


URL = "postgresql://ada:hush@db/shop"


def test_tables_that_are_declared_with_one_name_are_one_capture() -> None:
    users, orders = (hw.capture.postgres(URL, table=f"public.{name}", name="shop") for name in ("users", "orders"))
    made = definitions_of({"people": users, "orders": orders})
    assert list(made) == ["shop"]
    assert made["shop"].tables == ("public.orders", "public.users")
    assert made["shop"].topic_template == "public.orders=orders,public.users=people"


def test_tables_that_share_a_capture_must_agree_on_it() -> None:
    users = hw.capture.postgres(URL, table="users", name="shop")
    orders = hw.capture.postgres(URL, table="orders", partitions=4, name="shop")
    with pytest.raises(InvalidCapture, match="topic orders declares capture shop otherwise"):
        definitions_of({"users": users, "orders": orders})


def test_tables_of_one_database_with_captures_of_their_own_are_reported() -> None:
    users, orders = hw.capture.postgres(URL, table="users"), hw.capture.postgres(URL, table="orders")
    other = hw.capture.postgres("postgresql://db/other", table="stock")
    assert apart({"users": users, "orders": orders, "stock": other}) == [("users", "orders")]
    together = [hw.capture.postgres(URL, table=name, name="shop") for name in ("users", "orders")]
    assert apart({"users": together[0], "orders": together[1]}) == []


def test_a_shared_capture_grows_with_the_app_keeps_what_it_has_and_its_password(tmp_path: Path) -> None:
    definitions = Definitions(tmp_path)
    users, orders = (hw.capture.postgres(URL, table=name, name="shop") for name in ("users", "orders"))
    first = definitions.add(definitions_of({"users": users})["shop"])
    grown = definitions.add(definitions_of({"orders": replace(orders, url="postgresql://ada@db/shop")})["shop"])
    assert grown.tables == ("orders", "users")
    assert (grown.token, grown.url) == (first.token, URL)
    assert definitions.get("shop") == grown
    assert definitions.add(definitions_of({"users": users})["shop"]) == grown
    with pytest.raises(CaptureExists):
        definitions.add(definitions_of({"users": replace(users, partitions=7)})["shop"])

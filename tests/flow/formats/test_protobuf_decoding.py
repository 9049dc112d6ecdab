from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import InvalidFormat
from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl
from tests.flow.formats.messages import DESCRIPTOR, order_class

ORDER = {"descriptor": DESCRIPTOR, "message": "shop.Order"}
DDL = """id bigint, name string, tags array<string>, place struct<city: string>, at timestamp, status string,
         note string, price double, places array<struct<city: string>>, counts map<string, int>"""


def decode(ddl: str, *values: bytes) -> Decoded:
    return decoder_for("protobuf", parse_ddl(ddl), ORDER).decode(pa.array(values, type=pa.binary()))


def full_order() -> Any:
    order = order_class()(id=5, name="x", tags=["a", "b"], status=1, note="", counts={"k": 3})
    order.place.city = "Bonn"
    order.at.FromJsonString("2024-02-29T12:00:00.000005Z")
    order.price.value = 1.5
    order.places.add(city="Rome")
    return order


def test_a_message_is_read_by_name() -> None:
    decoded = decode(DDL, full_order().SerializeToString())
    assert decoded.reasons == []
    assert decoded.columns.to_pylist() == [{
        "id": 5, "name": "x", "tags": ["a", "b"], "place": {"city": "Bonn"},
        "at": datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC), "status": "PAID", "note": "", "price": 1.5,
        "places": [{"city": "Rome"}], "counts": [("k", 3)],
    }]  # fmt: skip


def test_what_was_not_sent_is_null_if_it_can_be_told_and_else_its_default() -> None:
    (row,) = decode(DDL, b"").columns.to_pylist()
    assert row == {
        "id": 0, "name": "", "tags": [], "place": None, "at": None, "status": "NEW", "note": None, "price": None,
        "places": [], "counts": [],
    }  # fmt: skip


def test_an_enumeration_is_its_number_in_an_integer_column() -> None:
    order = order_class()(status=1)
    assert decode("status int", order.SerializeToString()).columns.column(0).to_pylist() == [1]


@pytest.mark.parametrize(
    ("ddl", "value", "reason"),
    [
        ("id bigint", b"\xff", "not a shop.Order: "),
        ("id tinyint", order_class()(id=300).SerializeToString(), "id: 300 does not fit tinyint"),
        ("note string NOT NULL", b"", "note: null, and the schema says NOT NULL"),
        ("name string", b"\x12\x01\xff", "not a shop.Order: "),
    ],
)
def test_a_bad_row_has_a_reason(ddl: str, value: bytes, reason: str) -> None:
    decoded = decode(ddl, value)
    assert decoded.bad.tolist() == [0]
    assert decoded.reasons[0].startswith(reason)


def test_a_time_that_python_cannot_hold_is_bad() -> None:
    order = order_class()()
    order.at.seconds = 10**17
    assert decode("at timestamp", order.SerializeToString()).bad.tolist() == [0]


@pytest.mark.parametrize(
    ("ddl", "options", "sentence"),
    [
        ("id bigint", {"message": "shop.Order"}, "format protobuf needs the option descriptor"),
        ("id bigint", {**ORDER, "descriptor": "??"}, "the option descriptor is not a FileDescriptorSet in base64"),
        (
            "id bigint",
            {**ORDER, "descriptor": "/////w=="},
            "the option descriptor is not a FileDescriptorSet in base64",
        ),
        ("id bigint", {**ORDER, "message": "shop.Ordr"}, 'has no message "shop.Ordr". Did you mean shop.Order?'),
        ("idd bigint", ORDER, 'message shop.Order has no field "idd". Did you mean id?'),
        ("id string", ORDER, "field shop.Order.id is of kind int64, which does not fit a column string"),
        (
            "tags string",
            ORDER,
            "field shop.Order.tags is of kind string (repeated), which does not fit",
        ),
        ("place string", ORDER, "field shop.Order.place is of kind shop.Place, which does not fit a column string"),
    ],
)
def test_mistakes_are_told_before_any_row(ddl: str, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidFormat) as caught:
        decoder_for("protobuf", parse_ddl(ddl), options)
    assert sentence in str(caught.value)

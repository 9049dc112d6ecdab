"""A certificate of a proved view holds on any machine that has the same log, and on none whose log says otherwise."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import FlowError
from headwater.flow.declare.stream import Table
from headwater.flow.proof.certificate import Certificate, content_of, read_certificates, write_certificates
from headwater.flow.proof.proofs import Checked, certificate_of, check_each, prove_each
from headwater.flow.proof.verification import Verified, Wanted
from headwater.flow.run.app_tester import AppTester

app = hw.App("shop")
orders = app.stream("orders", "id long, currency string, amount decimal(12,2), weight double, at timestamp", time="at")


@app.view(key="currency")
def revenue() -> Table:
    return orders.by("currency").agg("count(*) as n", "sum(amount) as revenue", "sum(weight) as heavy")


def order(id: int, currency: str | None, amount: str) -> dict[str, object]:
    return {"id": id, "currency": currency, "amount": amount, "weight": 0.1, "at": "2026-03-01T09:00:00Z"}


def certified(tester: AppTester) -> Certificate:
    data, address = tester.node.data, tester.node.kafka_address
    (found,) = prove_each(app, ["revenue"], tester.session, data, address, direct=True, wanted=Wanted(certificate=True))
    assert isinstance(found, Verified)
    made = certificate_of(app.name, found)
    assert made is not None
    return made


def checked(tester: AppTester, certificate: Certificate) -> Checked:
    data, address = tester.node.data, tester.node.kafka_address
    (found,) = check_each(app, [certificate], tester.session, data, address, direct=True)
    assert isinstance(found, Checked)
    return found


def test_a_certificate_holds_after_the_view_went_on(tester: Callable[[hw.App], AppTester], tmp_path: Path) -> None:
    shop = tester(app)
    shop.feed("orders", [order(1, "EUR", "2.50"), order(2, "SEK", "18.00"), order(3, None, "1.00")])
    shop.run()
    write_certificates(tmp_path / "shop.json", [certified(shop)])
    (certificate,) = read_certificates(tmp_path / "shop.json")
    assert (certificate.content.rows, certificate.content.columns) == (3, ["currency", "n", "revenue"])
    assert certificate.content.left_out == ["heavy"], "floating-point sums depend on the order of additions"
    shop.feed("orders", [order(4, "EUR", "7.00")])
    shop.run()
    assert checked(shop, certificate).holds
    assert certified(shop).content.digest != certificate.content.digest


def test_a_log_that_says_otherwise_is_found(tester: Callable[[hw.App], AppTester]) -> None:
    shop = tester(app)
    shop.feed("orders", [order(1, "EUR", "2.50"), order(2, "SEK", "18.00")])
    shop.run()
    certificate = certified(shop)
    longer = {"orders": {part: max(end - 1, 0) for part, end in certificate.position["orders"].items()}}
    assert not checked(shop, replace(certificate, position=longer)).holds
    wrong = replace(certificate.content, digest=f"{int(certificate.content.digest, 16) ^ 1:064x}")
    assert not checked(shop, replace(certificate, content=wrong)).holds


def test_the_digest_is_of_rows_in_any_order_and_of_how_often_they_are_there(spark: SparkSession) -> None:
    rows = [(1, "a", [1, 2]), (2, None, None), (2, "null", []), (3, "", [None])]
    schema = "id long, name string, parts array<int>"

    def digest(some: list[tuple[object, ...]]) -> str:
        return content_of(spark.createDataFrame(some, schema)).digest

    assert digest(list(reversed(rows))) == digest(list(rows))
    others = [rows[:3], [*rows, rows[0]], [*rows[:3], (3, None, [None])], [*rows[:3], (3, "", [])]]
    assert len({digest(list(one)) for one in [rows, *others]}) == len(others) + 1


def test_values_do_not_run_into_one_another(spark: SparkSession) -> None:
    one = spark.createDataFrame([('a","v', "b")], "x string, y string")
    other = spark.createDataFrame([("a", 'v","b')], "x string, y string")
    assert content_of(one).digest != content_of(other).digest


def test_an_empty_view_has_a_digest(spark: SparkSession) -> None:
    nothing = content_of(spark.range(3).where(f.lit(False)))
    assert (nothing.rows, nothing.digest) == (0, "0" * 64)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "views": [{}]}', '{"format": 2, "views": []}'])
def test_a_file_that_is_no_certificate_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "shop.json").write_text(text)
    with pytest.raises(FlowError, match=r"shop\.json is (no|a) certificate"):
        read_certificates(tmp_path / "shop.json")

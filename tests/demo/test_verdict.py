from dataclasses import replace

import pytest

from headwater.demo.verdict import Verdict
from headwater.flow.commit.accounts import Account
from headwater.flow.proof.verification import Verified

ACCOUNT = Account(rows_in=10, rows_out=7, filtered=1, late=1, poisoned=1)
PROOF = Verified("sales", {}, 3, 0, [])
GOOD = Verdict({"sales": ACCOUNT}, [PROOF], frozenset({"sales"}))


def test_books_in_order_are_good() -> None:
    assert GOOD.good
    assert replace(GOOD, proofs=[replace(PROOF, rows=0)]).good, "a view may be empty, if the log says so"
    assert GOOD.to_json()["accounts"]["sales"]["balanced"] is True


def test_views_that_rest_on_late_rows_are_accepted_and_named_apart_from_the_proved_ones() -> None:
    late = Verified("rooms", {}, 3, 0, [], late=2, otherwise=1)
    both = replace(GOOD, proofs=[PROOF, late], views=frozenset({"sales", "rooms"}))
    assert (both.good, both.unproved, both.resting_on_late) == (True, [], ["rooms"])
    assert both.to_json()["views"]["rooms"]["result"] == "rests on late rows"
    assert GOOD.views_in_words() == "and 1 view is exactly what the log says"
    assert both.views_in_words() == (
        "1 view is exactly what the log says, and 1 (rooms) is what it says without rows that were late. "
        "The demo sends some late on purpose, and accepts that"
    )


@pytest.mark.parametrize(
    "what, verdict, out_of_balance, unproved",
    [
        ("a row too few", replace(GOOD, accounts={"sales": replace(ACCOUNT, rows_out=6)}), ["sales"], []),
        ("a row too many", replace(GOOD, accounts={"sales": replace(ACCOUNT, late=2)}), ["sales"], []),
        ("no rows at all", replace(GOOD, accounts={"sales": Account()}), ["sales"], []),
        ("no accounts", replace(GOOD, accounts={}), [], []),
        ("a view that differs", replace(GOOD, proofs=[replace(PROOF, different=1)]), [], ["sales"]),
        ("a view that was not compared", replace(GOOD, views=frozenset({"sales", "rooms"})), [], ["rooms"]),
    ],
)  # fmt: skip
def test_what_is_not_in_order_is_named(
    what: str, verdict: Verdict, out_of_balance: list[str], unproved: list[str]
) -> None:
    assert not verdict.good, what
    assert (verdict.out_of_balance, verdict.unproved) == (out_of_balance, unproved)

"""The sum that every batch must come out at."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.commit.accounts import Account

counts = st.integers(0, 1000)
accounts = st.builds(Account, *[counts] * 8)


@given(accounts, accounts)
def test_adding_up_adds_every_column(one: Account, other: Account) -> None:
    total = one + other
    assert total.rows_in == one.rows_in + other.rows_in
    assert total.late == one.late + other.late
    if one.balanced and other.balanced:
        assert total.balanced


@given(accounts)
def test_an_account_survives_json(account: Account) -> None:
    assert Account.from_json(account.to_json()) == account


def test_every_row_must_be_somewhere() -> None:
    assert Account(rows_in=10, rows_out=5, filtered=2, late=1, poisoned=1, duplicates=1).balanced
    assert not Account(rows_in=10, rows_out=5, filtered=2, late=1, poisoned=1).balanced
    assert Account(rows_in=1, expanded=4, rows_out=5).balanced, "one row became five"
    assert Account(rows_in=1, rows_out=1, lost=7).balanced, "what was gone before it was read never came in"


def test_what_did_not_happen_is_not_mentioned() -> None:
    assert str(Account(rows_in=1200, rows_out=1000, poisoned=200)) == "1,200 in: 1,000 out, 200 poisoned"

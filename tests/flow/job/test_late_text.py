"""What is said of a late row is added to, and the row stays as it was, to the last digit."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.commit.report_records import records
from headwater.flow.late.late_text import exact, said_and_row, with_row
from headwater.flow.proof.rebuilt_late import AttemptSink
from headwater.flow.sinks.discard import DiscardSink
from headwater.views.mark import Mark

TEXTS = st.text() | st.sampled_from([', "row": ', '"row": {}', "}", '\\", "row": '])
SAID = st.dictionaries(TEXTS.filter(lambda name: name != "row"), TEXTS | st.integers() | st.none(), min_size=1)


@given(SAID, SAID)
def test_what_is_said_and_the_row_are_told_apart_whatever_they_hold(said: dict[str, Any], row: dict[str, Any]) -> None:
    text = json.dumps(row, ensure_ascii=False)
    value = with_row(said, text)
    assert json.loads(value) == {**said, "row": row}
    assert said_and_row(value) == (said, text)


def test_a_number_keeps_every_digit_when_an_attempt_is_noted() -> None:
    class Kept(DiscardSink):
        def write(self, mark: Mark, rows: pa.Table) -> bool:
            kept.extend(rows["_value"].to_pylist())
            return True

    kept: list[bytes] = []
    value = with_row({"operator": "totals", "batch": 3}, '{"amount":12345678901234567.89,"tiny":1E-400}')
    AttemptSink(Kept("late"), "attempt", 12).write(Mark("job", 0), records([None], [value], [0]))
    assert b'"row": {"amount":12345678901234567.89,"tiny":1E-400}' in kept[0]
    read = json.loads(kept[0], parse_float=exact)
    assert (read["batch"], read["rebuilt"], read["row"]["amount"]) == (12, "attempt", "12345678901234567.89")


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_that_is_shown_is_the_one_that_was_written(number: Decimal) -> None:
    shown = exact(str(number))
    assert Decimal(shown if isinstance(shown, str) else repr(shown)) == number

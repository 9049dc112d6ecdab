"""What headwater verify says of views, and how it ends."""

import json
from pathlib import Path

import pytest

from headwater.cli.verify import exit_code, show, summary
from headwater.flow.proof.proofs import Unproved
from headwater.flow.proof.verification import DeclaredLate, Difference, Verified
from tests.cli.conftest import Terminal

SHOP = """
CREATE STREAM orders (id BIGINT, amount BIGINT) FROM TOPIC orders;
CREATE MATERIALIZED VIEW revenue KEY (id) AS SELECT id, sum(amount) AS revenue FROM orders GROUP BY id;
"""
POSITION = {"orders": {0: 4}}
GOOD = Verified("revenue", POSITION, 2, 0, [])
LATE = [DeclaredLate("orders/0@3", 7, "its window was over")]
RESTS = Verified("sales", POSITION, 2, 0, [], 1, LATE, 1)
WRONG = Verified("prices", POSITION, 2, 1, [Difference({"id": 1}, {"id": 1, "n": 1}, None, [])], 1, LATE)
UNKNOWN = Unproved("named", "a join depends on when rows came")


def test_all_views_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    every: list[Verified | Unproved] = [GOOD, RESTS, WRONG, UNKNOWN]
    for one in every:
        show(one, as_json=False)
    output = capsys.readouterr().out
    assert "revenue: 2 rows as the log says, at" in output
    assert "sales: 2 rows as the log says but for 1 row declared late, at" in output
    assert "rests on 1 row declared late; with them 1 key would be otherwise" in output
    assert "orders/0@3 in batch 7: its window was over" in output
    assert "named: cannot be proved: a join depends on when rows came" in output
    expected = "4 views: 1 proved, 1 rests on late rows (sales), 1 different (prices), 1 unprovable (named)"
    assert summary(every) == expected


def test_json_output_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    every: tuple[Verified | Unproved, ...] = (GOOD, RESTS, WRONG, UNKNOWN)
    for one in every:
        show(one, as_json=True)
    decoder, text, found = json.JSONDecoder(), capsys.readouterr().out.strip(), []
    while text:
        said, end = decoder.raw_decode(text)
        found.append(said)
        text = text[end:].strip()
    assert [one["result"] for one in found] == ["proved", "rests on late rows", "different", "unprovable"]
    assert (found[1]["late"], found[1]["otherwise"]) == (1, 1)
    assert found[1]["late_rows"] == [{"record": "orders/0@3", "batch": 7, "reason": "its window was over"}]
    assert found[3]["why"] == UNKNOWN.why


@pytest.mark.parametrize(
    ("results", "allow_late", "code"),
    [
        ([GOOD], False, 0),
        ([GOOD, RESTS], False, 1),
        ([GOOD, RESTS], True, 0),
        ([GOOD, UNKNOWN], False, 3),
        ([RESTS, UNKNOWN], False, 1),
        ([RESTS, UNKNOWN], True, 3),
        ([WRONG, UNKNOWN], True, 1),
    ],
)
def test_the_exit_code_says_whether_anything_differs_or_is_unknown(
    results: list[Verified | Unproved], allow_late: bool, code: int
) -> None:
    assert exit_code([one.result for one in results], allow_late=allow_late) == code


def test_a_file_in_the_place_of_a_view_is_named_with_the_option_for_it(terminal: Terminal) -> None:
    said = terminal.type("verify", "shop.sql")
    assert (said.code, said.errors) == (
        1, "headwater: shop.sql is the file of an app, and no view. Write --file shop.sql, and names of views if any.\n"
    )  # fmt: skip


def test_a_view_that_there_is_not_is_one_sentence_before_spark_is_started(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "shop.sql"
    file.write_text(SHOP)
    said = terminal.type("verify", "--file", str(file), "revenu")
    assert said.code == 1
    assert said.errors == "headwater: app shop has no view revenu. It has: revenue.\n"

"""What a re-implementation of row pattern recognition gets wrong first, each with what it must be."""

from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from tests.flow.operators.patterns.running import LETTERS, Row, RunningPattern, declared, kinds, row


def running(pattern: str, define: dict[str, str] | None = None, **words: Any) -> RunningPattern:
    own = LETTERS if define is None else define
    used = {name: text for name, text in own.items() if name in pattern.replace("PERMUTE", "")}
    return RunningPattern(declared(**{"pattern": pattern, "define": used, "measures": {"m": "count(*)"}} | words))


def found(result: RunningPattern) -> list[tuple[str, Any]]:
    """Where each match begins, and how many rows it has."""
    return sorted((one["match_id"], one["m"]) for one in result.result.values())


def one_batch(given: list[Row], pattern: str, **words: Any) -> RunningPattern:
    made = running(pattern, **words)
    made.come(given, 1_000)
    return made


# -- WITHIN ------------------------------------------------------------------------------------------------------------


def test_a_row_just_before_the_end_of_within_counts() -> None:
    assert found(one_batch([row(0, "a"), row(9, "b")], "a b", within="10 us")) == [("events/0@0", 2)]


def test_a_row_at_the_end_of_within_does_not_count() -> None:
    assert found(one_batch([row(0, "a"), row(10, "b")], "a b", within="10 us")) == []


def test_a_greedy_match_that_within_cuts_is_emitted_when_the_watermark_is_exactly_there() -> None:
    made = running("a b+", within="10 us")
    made.come([row(0, "a"), row(5, "b")], 9)
    assert found(made) == []
    made.batch([], 10)
    assert found(made) == [("events/0@0", 2)]


def test_an_idle_key_times_out_though_no_row_of_it_ever_comes() -> None:
    made = running("a b+", within="10 us")
    made.come([row(0, "a"), row(1, "b")], 2)
    made.come([row(50, "d", "bob")], 50)
    assert found(made) == [("events/0@0", 2)]
    made.batch([], 100)
    assert made.kept == 0


# -- greedy and reluctant ----------------------------------------------------------------------------------------------


def test_a_greedy_last_variable_waits_for_a_row_that_could_be_its_next() -> None:
    made = running("a b+")
    made.come(kinds("abb"), 3)
    assert found(made) == []
    made.come([row(3, "c")], 4)
    assert found(made) == [("events/0@0", 3)]


def test_a_greedy_last_variable_that_has_all_its_rows_does_not_wait() -> None:
    made = running("a b{1,2}")
    made.come(kinds("abb"), 3)
    assert found(made) == [("events/0@0", 3)]


def test_a_reluctant_last_variable_does_not_wait() -> None:
    made = running("a b+?")
    made.come(kinds("abb"), 3)
    assert found(made) == [("events/0@0", 2)]


def test_rows_that_the_watermark_has_not_passed_wait_for_earlier_ones() -> None:
    made = running("a b")
    made.come([row(5, "a"), row(7, "b")], 6)
    made.come([row(6, "c")], 8)
    assert found(made) == []


@pytest.mark.parametrize(
    ("pattern", "text", "rows"),
    [
        ("a b*? c", "abbc", 4), ("(a | a b) c", "abc", 3), ("(a b | a) b", "abb", 3), ("a?? b", "ab", 2),
        ("a (b c)+", "abcbcd", 5), ("(a*)* b", "aab", 3), ("a{,2} b", "aab", 3), ("PERMUTE(a, b, c)", "cab", 3),
        ("a {- b* -} c", "abbc", 4), ("(a | b)+? c", "abac", 4), ("a{2}", "aa", 2), ("(a+ b?){2} c", "aabac", 5),
    ],
)  # fmt: skip
def test_preferment_is_that_of_the_standard(pattern: str, text: str, rows: int) -> None:
    assert found(one_batch(kinds(text), pattern))[0] == ("events/0@0", rows)


def test_the_first_alternative_is_preferred_though_the_second_is_longer() -> None:
    assert found(one_batch(kinds("abc"), "(a | a b)"))[0] == ("events/0@0", 1)


def test_nested_quantifiers_take_time_in_proportion_to_their_rows() -> None:
    made = one_batch(kinds("a" * 300 + "d"), "(a+)+ b", skip="to next row")
    assert (found(made), made.failures) == ([], [])


# -- what comes after a match ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "begins"),
    [("past last row", [0, 3]), ("to next row", [0, 1, 3]), ("to first b", [0, 3]), ("to last b", [0, 3])],
)
def test_the_search_resumes_where_it_is_told(skip: str, begins: list[int]) -> None:
    made = one_batch(kinds("aabab"), "a+ b", skip=skip)
    assert [name for name, _ in found(made)] == [f"events/0@{one}" for one in begins]


def test_skipping_to_the_first_row_of_the_match_is_a_failure_with_a_sentence_and_no_endless_loop() -> None:
    made = one_batch(kinds("abab"), "a b", skip="to first a")
    assert found(made) == []
    assert set(made.failures) == {
        "after match skips to the first row of the match, from where it would be found again without end"
    }


def test_skipping_to_a_variable_without_rows_is_a_failure_with_a_sentence() -> None:
    made = one_batch(kinds("acac"), "a b? c", skip="to first b")
    assert set(made.failures) == {"after match skips to a variable of which the match has no row"}


def test_a_pattern_that_explodes_is_given_up_and_said() -> None:
    made = one_batch(
        [*(row(time, "a", n=1) for time in range(40)), row(40, "d")], "(a+)+ b", tries=1_000,
        define={"a": "n = first(n)", "b": "n > first(n)"},
    )  # fmt: skip
    assert "more partial matches were tried for it than tries= allows" in made.failures


# -- names, numbers, labels --------------------------------------------------------------------------------------------


def test_a_match_is_named_by_its_first_row_whatever_the_batches() -> None:
    whole = one_batch(kinds("abxab"), "a b")
    parts = running("a b")
    for time, one in enumerate(kinds("abxab")):
        parts.batch([one], time, again=2)
    parts.batch([], 5)
    assert found(whole) == found(parts) == [("events/0@0", 2), ("events/0@3", 2)]


def test_matches_of_each_key_are_numbered_over_batches() -> None:
    made = running("a", measures={"m": "match_number()"})
    made.come([row(0, "a"), row(1, "a", "bob", 7)], 2)
    made.come([row(3, "a", offset=9)], 4)
    assert found(made) == [("events/0@0", 1), ("events/0@7", 1), ("events/0@9", 2)]


def test_running_and_final_differ_in_rows_before_the_last() -> None:
    made = one_batch(
        [row(0, "a", n=1), row(1, "b", n=2), row(2, "b", n=3)], "a b{2}", rows="all",
        measures={"running": "sum(n)", "final": "final sum(n)", "label": "classifier()", "last": "last(b.n)"},
    )  # fmt: skip
    rows = sorted(made.result.values(), key=lambda one: str(one["row_id"]))
    assert [(one["running"], one["final"], one["label"], one["last"]) for one in rows] == [
        (1, 6, "a", None), (3, 6, "b", 2), (6, 6, "b", 3)
    ]  # fmt: skip


def test_last_of_the_own_variable_is_the_row_at_hand() -> None:
    made = one_batch(
        [row(0, n=1), row(1, n=5)], "a b", define={"b": "last(b.n) > last(a.n) and last(b.n) = n"}
    )  # fmt: skip
    assert found(made) == [("events/0@0", 2)]


def test_excluded_rows_are_matched_and_not_shown() -> None:
    made = one_batch(kinds("abbc"), "a {- b+ -} c", rows="all", measures={"m": "count(*)"})
    assert sorted((one["row_id"], one["m"]) for one in made.result.values()) == [("events/0@0", 1), ("events/0@3", 4)]


@pytest.mark.parametrize(("rows", "shown"), [("all", [0, 1, 2]), ("all omit empty", [1]), ("one", [0, 1, 2])])
def test_empty_matches_are_shown_unless_they_are_omitted(rows: str, shown: list[int]) -> None:
    made = one_batch(kinds("bac"), "a?", rows=rows)
    assert sorted(name for name, _ in found(made)) == [f"events/0@{one}" for one in shown]


def test_rows_without_a_match_are_shown_once_with_nothing() -> None:
    made = one_batch(kinds("cabd"), "a b", rows="all with unmatched")
    assert sorted((one["row_id"], one["match_id"] is None) for one in made.result.values()) == [
        ("events/0@0", True), ("events/0@1", False), ("events/0@2", False), ("events/0@3", True)
    ]  # fmt: skip


def test_a_subset_stands_for_all_of_its_variables() -> None:
    made = one_batch(
        [row(0, "a", n=1), row(1, "b", n=2), row(2, "c", n=4)], "a b c", subset={"s": ("a", "c")},
        measures={"m": "sum(s.n)"},
    )  # fmt: skip
    assert found(made) == [("events/0@0", 5)]


def test_the_anchor_is_the_first_row_that_a_key_ever_had() -> None:
    made = running("^ a")
    made.come(kinds("ab"), 5)
    made.come([row(7, "a"), row(8, "a", "bob", 20)], 9)
    assert found(made) == [("events/0@0", 1), ("events/0@20", 1)]


# -- beyond the standard -----------------------------------------------------------------------------------------------


def test_what_must_not_follow_is_known_when_within_is_over() -> None:
    made = running("a !b", within="10 us")
    made.come([row(0, "a"), row(4, "c"), row(5, "a", "bob", 20), row(9, "b", "bob", 21)], 12)
    assert found(made) == [("events/0@0", 1)]


def test_what_began_and_could_not_end_in_time_is_shown_once() -> None:
    made = running("a b", within="10 us", timeouts=True, measures={"m": "count(*)"})
    made.come([row(0, "a"), row(20, "a"), row(21, "b")], 30)
    assert sorted((one["match_id"], one["timed_out"]) for one in made.result.values()) == [
        ("events/0@0", True), ("events/0@20", False)
    ]  # fmt: skip


def test_the_bound_of_rows_ends_a_match_as_within_does() -> None:
    made = running("a b+", max_rows=3)
    made.come(kinds("abbb"), 4)
    assert found(made) == [("events/0@0", 3)]


# -- late rows ---------------------------------------------------------------------------------------------------------


def test_a_late_row_retracts_a_match_and_replaces_it_under_its_name() -> None:
    made = running("a b+", within="10 us", corrections="20 us")
    made.come([row(0, "a"), row(5, "b", offset=1)], 12)
    assert found(made) == [("events/0@0", 2)]
    made.batch([row(3, "b", offset=2)], 12)
    assert found(made) == [("events/0@0", 3)]
    made.batch([row(2, "d", offset=3)], 12)
    assert found(made) == []


def test_a_row_that_is_late_for_corrections_too_is_counted() -> None:
    made = running("a b", within="10 us", corrections="20 us")
    made.come([row(100, "a")], 100)
    made.batch([row(79, "b"), row(80, "b")], 100)
    assert made.late == 1


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"pattern": "a $"}, r"character 3: \$ is the last row of a key, and a stream has none"),
        ({"pattern": "a (b"}, r"stands where \) is expected"),
        ({"pattern": "a{3,2}"}, "can never hold"),
        ({"pattern": "a !b"}, "does not say until when nothing must follow"),
        ({"pattern": "a", "define": {"x": "n > 1"}}, "define names x, which is not in the pattern"),
        ({"pattern": "a", "order": "n"}, "in the order of n, which is not the time of the stream"),
        ({"pattern": "a b", "define": {"b": "upper(last(a.kind)) = kind"}}, r"looks back, and has upper\("),
        ({"pattern": "a b", "define": {"b": "a.n + b.n + sum(a.n * b.n) > 1"}}, "of more than one variable"),
        ({"pattern": "a", "skip": "somewhere"}, "skip='somewhere' is unknown"),
        ({"pattern": "a", "corrections": "1 hour"}, "has corrections=, and no within="),
        ({"pattern": "a", "define": {"a": "n + 1"}}, "the condition of a is bigint, and not true or false"),
        ({"pattern": "a b", "define": {"b": "nn > a.n"}}, "nn"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_had_is_refused_with_its_reason(words: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said) as refused:
        RunningPattern(declared(**words))
    assert isinstance(refused.value, InvalidDeclaration) or "nn" in said


@pytest.mark.parametrize("step", ["window", "dedupe", "match"])
def test_what_goes_by_time_is_not_given_matches_that_may_come_at_any_time(step: str) -> None:
    events = hw.App("test").stream("events", "user string, n long, at timestamp", time="at")
    matches = events.match(by="user", pattern="a b+", define={"b": "n > prev(n)"})
    words: dict[str, Any] = {
        "window": {"window": hw.tumbling("1 hour")}, "dedupe": {"within": "1 hour"},
        "match": {"by": "user", "pattern": "a"},
    }  # fmt: skip
    with pytest.raises(InvalidDeclaration, match=rf"{step}\(\) at .* is of matches that may come at any time"):
        getattr(matches, step)(**words[step])

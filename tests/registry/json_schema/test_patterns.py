"""Patterns as JavaScript has them, matched in linear time."""

import pytest

from headwater.registry.json_schema.patterns import compiled

MATCHING = [
    (r"^\d+$", "12", "١٢"),  # digits are ASCII, unlike in Python
    (r"^x$", "x", "x\n"),  # $ is the very end, unlike in Python
    (r"^.$", "x", "\u2028"),
    (r"^\s$", "\u00a0", "\u180e"),
    (r"^[\s\S]$", "\n", ""),
    (r"^[\S]$", "x", "\u3000"),
    (r"^\u00e4$", "ä", "a"),
    (r"^\u{1f600}$", "😀", "x"),
    (r"^\ud83d\ude00$", "😀", "x"),
    (r"^\cA$", "\x01", "A"),
    (r"^[^]$", "\n", ""),
    (r"^[[:alpha:]]$", "a]", "b]x"),  # a class of [ : a l p h, and then a bracket
    (r"^(?<year>\d{4})-(?:\d\d)$", "2026-11", "26-11"),
    (r"^\p{L}+$", "äb", "1"),
    (r"^a{,3}$", "a{,3}", "aa"),
    (r"^[\b]$", "\b", "b"),
    (r"^\-\/\_\ü$", "-/_ü", "x"),
]
REFUSED = [
    (r"^(?!x)", "looks ahead"), (r"(?<=x)y", "looks ahead"), (r"(a)\1", "refers back"), (r"a{2000}", "repetition"),
    (r"\A", r"\A is not known"), (r"\Qa\E", r"\Q is not known"), ("(?i)a", "a group that"), ("[a", "not closed"),
    ("a\\", "backslash"), (r"\ud800", "surrogate"), ("\ud800", "surrogate"), ("a" * 2001, "2000 characters"),
    (r"[\pL]{500}", "not known"), (r"[^\s]{900}" * 3, "too large"),
]  # fmt: skip


@pytest.mark.parametrize("pattern, yes, no", MATCHING)
def test_it_means_what_javascript_means(pattern: str, yes: str, no: str) -> None:
    assert compiled(pattern).why == ""
    assert compiled(pattern).matches(yes)
    assert not compiled(pattern).matches(no)


@pytest.mark.parametrize("pattern, why", REFUSED)
def test_what_cannot_be_matched_says_why(pattern: str, why: str) -> None:
    assert why in compiled(pattern).why
    assert not compiled(pattern).matches("a")


def test_a_name_with_half_a_surrogate_pair_is_matched_all_the_same() -> None:
    assert compiled("^a").matches("a\ud800")

"""Who the owner of a certificate is, by Kafka's rules."""

import pytest

from headwater.access.principals import parse_principal, parse_rules, principal_of_subject
from headwater.errors import InvalidSetting

SUBJECT = "CN=Alice,OU=services,O=Example,C=DE"
MAPPED = [
    ("DEFAULT", f"User:{SUBJECT}"),
    ("", f"User:{SUBJECT}"),
    ("RULE:^CN=(.*?),OU=services.*$/$1/", "User:Alice"),
    ("RULE:^CN=(.*?),.*$/$1/L", "User:alice"),
    ("RULE:^CN=(.*?),.*$/$1/U", "User:ALICE"),
    ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/L", "User:services-alice"),
    ("RULE:^CN=(.*?),OU=others.*$/$1/", None),
    ("RULE:^CN=(.*?),OU=others.*$/$1/,DEFAULT", f"User:{SUBJECT}"),
    ("RULE:^CN=(.*?),OU=others.*$/other/, RULE:^CN=(.*?),.*$/$1/L", "User:alice"),
    ("RULE:^CN=Ali$/wrong/", None),
    ("RULE:^CN=.*$/$7/", None),
]


@pytest.mark.parametrize("rules, principal", MAPPED)
def test_the_first_rule_that_fits_says_who_it_is(rules: str, principal: str | None) -> None:
    found = principal_of_subject(SUBJECT, parse_rules(rules))
    assert (None if found is None else str(found)) == principal


@pytest.mark.parametrize(
    "rules", ["RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "other", "RULE:(/x/", "DEFAULT DEFAULT"]
)
def test_rules_that_are_none_are_refused(rules: str) -> None:
    with pytest.raises(InvalidSetting, match="principal mapping"):
        parse_rules(rules)


@pytest.mark.parametrize("said", ["", "alice", ":alice", "User:"])
def test_a_principal_has_a_type_and_a_name(said: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_principal(said)


def test_a_pattern_that_would_take_forever_does_not() -> None:
    rules = parse_rules("RULE:^CN=(a+)+$/$1/")
    assert principal_of_subject("CN=" + "a" * 5000 + "!", rules) is None

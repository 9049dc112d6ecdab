from headwater.log.groups.ballot import Ballot
from headwater.log.groups.member import Member, Protocol


def member(name: str, *protocols: str) -> Member:
    offered = tuple(Protocol(protocol, b"") for protocol in protocols)
    return Member(name, None, "", "", 10_000, 10_000, offered, 0)


def ballot_of(*members: Member) -> Ballot:
    ballot = Ballot()
    for one in members:
        ballot.add(one.protocols)
    return ballot


def test_the_favourite_of_most_wins() -> None:
    members = [member("a", "range", "sticky"), member("b", "sticky", "range"), member("c", "sticky", "range")]
    assert ballot_of(*members).choose(members) == "sticky"


def test_a_favourite_that_not_all_speak_does_not_count() -> None:
    members = [member("a", "cooperative", "range"), member("b", "cooperative", "range"), member("c", "range")]
    assert ballot_of(*members).choose(members) == "range"


def test_on_a_tie_the_eldest_decides() -> None:
    members = [member("a", "range", "sticky"), member("b", "sticky", "range")]
    assert ballot_of(*members).choose(members) == "range"


def test_a_newcomer_must_speak_what_all_speak() -> None:
    ballot = ballot_of(member("a", "range", "sticky"), member("b", "range"))
    assert ballot.agrees([Protocol("range", b"")], members=2)
    assert not ballot.agrees([Protocol("sticky", b"")], members=2)


def test_who_offers_something_else_is_not_held_to_its_old_offer() -> None:
    lonely = member("a", "range")
    assert ballot_of(lonely).agrees([Protocol("sticky", b"")], members=1, instead_of=lonely.protocols)


def test_who_left_no_longer_votes() -> None:
    members = [member("a", "range", "sticky"), member("b", "range")]
    ballot = ballot_of(*members)
    ballot.remove(members[1].protocols)
    assert ballot.spoken_by(1) == {"range", "sticky"}


def test_a_protocol_offered_twice_counts_once() -> None:
    twice = member("a", "range", "range")
    assert ballot_of(twice).spoken_by(1) == {"range"}

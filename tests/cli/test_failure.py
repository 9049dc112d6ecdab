from headwater.cli.failure import Failure, sentence_of
from headwater.errors import UnknownTopic


def test_a_failure_is_one_line_that_ends_as_a_sentence() -> None:
    assert sentence_of(Failure("the node\nwent  away")) == "the node went away."


def test_our_errors_bring_their_way_out() -> None:
    assert sentence_of(UnknownTopic("oders")).endswith('list what exists with "headwater topic list".')


def test_an_error_of_the_operating_system_names_the_file() -> None:
    assert sentence_of(PermissionError(13, "Permission denied", "/data")) == "Permission denied: /data."


def test_an_error_without_words_has_at_least_its_name() -> None:
    assert sentence_of(TimeoutError()) == "TimeoutError."

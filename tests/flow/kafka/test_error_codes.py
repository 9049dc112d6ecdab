import pytest

from headwater import errors
from headwater.flow.kafka.error_codes import error_for


@pytest.mark.parametrize(
    "code, kind",
    [
        (2, errors.CorruptBatch),
        (3, errors.UnknownTopic),
        (5, errors.UnavailableError),
        (10, errors.BatchTooLarge),
        (17, errors.InvalidTopicName),
        (22, errors.ConflictError),
        (24, errors.InvalidGroup),
        (29, errors.UsageError),
        (32, errors.InvalidTimestamp),
        (36, errors.TopicExists),
        (37, errors.InvalidPartitions),
        (40, errors.InvalidSetting),
        (45, errors.OutOfOrderSequence),
        (46, errors.DuplicateSequence),
        (47, errors.StaleProducerEpoch),
        (56, errors.UnavailableError),
        (87, errors.InvalidRecord),
        (12345, errors.UsageError),
    ],
)
def test_a_code_becomes_the_error_that_says_whether_to_try_again(code: int, kind: type[Exception]) -> None:
    error = error_for(code, what='Produce of "orders/0"', topic="orders")
    assert isinstance(error, kind)
    assert "orders" in str(error)


def test_what_the_broker_says_itself_goes_into_the_sentence() -> None:
    assert "replication factor 3" in str(error_for(38, what="creation", message="replication factor 3 is too large"))

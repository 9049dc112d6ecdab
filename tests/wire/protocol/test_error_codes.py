from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from headwater import errors
from headwater.wire.protocol.error_codes import BRANCHES, CODES, error_code

Kind = type[errors.HeadwaterError]


def leaves(kind: Kind = errors.HeadwaterError) -> Iterator[Kind]:
    below = kind.__subclasses__()
    if not below:
        yield kind
    for child in below:
        yield from leaves(child)


def test_every_error_has_a_code() -> None:
    elsewhere = {
        *leaves(errors.FlowError),
        *leaves(errors.SchemaError),
        *leaves(errors.CaptureError),
        errors.RequestRefused,
    }  # never travels over the port
    ours = {kind for kind in leaves() if kind.__module__ == errors.__name__} - elsewhere
    assert ours - CODES.keys() == set()


def test_no_error_that_is_foreseen_is_an_unknown_one() -> None:
    # On it, idempotent producers take a new epoch and send again what may have been stored.
    assert ErrorCode.unknown_server_error not in {*CODES.values(), *BRANCHES.values()}


def test_what_may_be_tried_again_has_a_code_that_clients_try_again() -> None:
    lasting = {errors.TopicFull}  # a topic that rejects says no
    ours = [kind for kind in leaves(errors.UnavailableError) if kind.__module__ == errors.__name__]
    codes = {kind: CODES[kind] for kind in ours if kind not in lasting}
    assert {kind: code for kind, code in codes.items() if not code.retriable} == {}


def test_a_special_kind_of_an_error_has_the_code_of_its_kind() -> None:
    class VeryFull(errors.DiskFull):
        pass

    assert error_code(VeryFull("orders", 0)) is ErrorCode.kafka_storage_error


def test_an_error_that_is_only_its_branch_has_a_code_too() -> None:
    assert error_code(errors.UsageError("no records")) is ErrorCode.invalid_request
    assert error_code(errors.HeadwaterError("anything")) is ErrorCode.unknown_server_error

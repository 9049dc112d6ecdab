"""Every answer of every handler can be written in every version, and is what its schema says.

Requests and responses are made by Hypothesis from the schemas; errors are those of our tree, each with a text that is
longer than old versions can carry and cannot be written as it is.
"""

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Iterator
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader as kio_reader
from kio.static.primitive import Records

from headwater import errors
from headwater.errors import HeadwaterError
from headwater.wire.answers import NO_ANSWER, Later
from headwater.wire.context import Context, Node
from headwater.wire.dispatch import Call, read_call, write_answer
from headwater.wire.protocol import fetch, produce
from headwater.wire.protocol.entities import entity_reader
from headwater.wire.protocol.metadata import MetadataAnswer, TopicAnswer, write_response
from headwater.wire.protocol.reader import decode
from headwater.wire.routes import FETCH, METADATA, PRODUCE, ROUTES, Route, find_route
from tests.waiting import Deadline
from tests.wire.raw_client import batch, read_response, request_frame
from tests.wire.running import RunningServer, running_server

HOSTILE = "\udc80 é " + "long " * 20_000
BY_HAND = (PRODUCE, FETCH, METADATA)
EVERY = [pytest.param(route, version, id=f"{route.name}-{version}") for route in ROUTES for version in route.versions]
FROM_SCHEMAS = [
    pytest.param(route, version, id=f"{route.name}-{version}")
    for route in ROUTES
    if route.api_key not in BY_HAND
    for version in route.versions
]
few = settings(
    max_examples=int(os.environ.get("HEADWATER_RESPONSE_EXAMPLES", "2")),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
by_hand = settings(few, max_examples=10 * few.max_examples)
st.register_type_strategy(Records, st.sampled_from([batch(b"x"), batch(b"x" * 1000, compression="zstd"), b"", b"none"]))


# Responses made from their schemas


@pytest.mark.parametrize("route, version", FROM_SCHEMAS)
def test_what_a_schema_allows_is_written_and_read_back(route: Route, version: int) -> None:
    response_type: Any = load_response_schema(route.api_key, version)

    @few
    @given(st.from_type(response_type))
    def check(response: Any) -> None:
        (data,) = route.codec(version).write(response)
        assert isinstance(data, bytes)
        assert bytes(route.codec(version).write(decode(entity_reader(response_type), memoryview(data)))[0]) == data  # type: ignore[arg-type]

    check()


@pytest.mark.parametrize("route, version", FROM_SCHEMAS)
@pytest.mark.parametrize("text", [None, HOSTILE], ids=["null", "hostile"])
def test_a_text_that_a_version_cannot_carry_is_said_as_it_can(route: Route, version: int, text: str | None) -> None:
    response_type: Any = load_response_schema(route.api_key, version)

    @few
    @given(st.from_type(response_type))
    def check(response: Any) -> None:
        (data,) = route.codec(version).write(with_texts(response, text))
        assert isinstance(data, bytes)
        decode(entity_reader(response_type), memoryview(data))

    check()


def with_texts(entity: Any, text: str | None) -> Any:
    """The entity with every text in it replaced."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, str):
            changes[field.name] = text
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = tuple(with_texts(one, text) for one in value)
    return dataclasses.replace(entity, **changes)


topics = st.builds(
    TopicAnswer,
    name=st.none() | st.text(max_size=20),
    id=st.uuids(),
    error_code=st.sampled_from([0, 3, 100]),
    internal=st.booleans(),
    partitions=st.integers(0, 20),
    operations=st.sampled_from([-(2**31), 1]),
)


@pytest.mark.parametrize("version", range(14))
@few
@given(found=st.lists(topics, max_size=5))
def test_metadata_is_written_as_its_schema_says(version: int, found: list[TopicAnswer]) -> None:
    data = write_response(MetadataAnswer(1, "127.0.0.1", 9092, "a-cluster", found, 7), version)
    response_type: Any = load_response_schema(METADATA, version)
    response = decode(entity_reader(response_type), memoryview(data))
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert [(one.error_code.value, len(one.partitions)) for one in response.topics] == [
        (one.error_code, one.partitions) for one in found
    ]
    assert [one.name for one in response.topics] == [one.name if version >= 12 else one.name or "" for one in found]
    rewritten = write_with_kio(response)
    assert rewritten == data


def write_with_kio(response: Any) -> bytes:
    import io

    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    return buffer.getvalue()


# Produce and Fetch, whose responses are written by hand

numbers = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(-1, 2**63 - 1)
codes = st.sampled_from([code.value for code in ErrorCode])
times_ms = st.integers(-1, 4_000_000_000_000)
texts = st.text(max_size=40) | st.just(HOSTILE)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.just("x" * (2**15 - 1))
produced = st.builds(
    produce.PartitionAnswer, numbers, codes, offsets, times_ms, offsets, message=st.none() | texts
)  # fmt: skip
records = st.lists(st.binary(min_size=1, max_size=300), max_size=3)
fetched = st.builds(
    lambda number, code, end, start, some, stable: fetch.PartitionAnswer(
        number, code, end, start, some, sum(map(len, some)), stable
    ),
    numbers, codes, offsets, offsets, records, offsets,
)  # fmt: skip


def named(version: int, ids_from: int) -> "st.SearchStrategy[str | UUID]":
    return st.uuids() if version >= ids_from else names


def read_with_kio(data: bytes, api_key: int, version: int) -> Any:
    """All of it, and what kio writes of that is the same."""
    response_type: Any = load_response_schema(api_key, version)
    response, size = kio_reader(response_type)(data, 0)
    assert size == len(data)
    assert write_with_kio(response) == data
    return response


def topic_of(answer: Any) -> Any:
    """Whatever the version calls it, its first field."""
    return getattr(answer, dataclasses.fields(answer)[0].name)


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_any_produce_response_is_what_its_schema_says(version: int) -> None:
    topic = st.builds(produce.TopicAnswer, named(version, produce.TOPIC_IDS_FROM), st.lists(produced, max_size=4))

    @by_hand
    @given(st.lists(topic, max_size=3))
    def check(topics: list[produce.TopicAnswer]) -> None:
        response = read_with_kio(produce.write_response(topics, version), PRODUCE, version)
        assert [topic_of(one) for one in response.responses] == [one.topic for one in topics]
        for read, given_ in zip(response.responses, topics, strict=True):
            for found, answer in zip(read.partition_responses, given_.partitions, strict=True):
                assert (found.index, found.error_code.value, found.base_offset) == answer[:3]
                time = found.log_append_time
                assert (-1 if time is None else round(time.timestamp() * 1000)) == answer.append_time_ms
                if version >= produce.START_OFFSET_FROM:
                    assert found.log_start_offset == answer.start_offset
                if version >= produce.MESSAGES_FROM:
                    assert said_as_can_be(found.error_message, answer.message)

    check()


def said_as_can_be(read: str | None, given: str | None) -> bool:
    """The text, as far as the version has room for it; what is no text is replaced."""
    if read is None or given is None:
        return read is given
    return given.encode(errors="replace").decode().startswith(read) and (len(read) > 30_000 or given != HOSTILE)


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_any_fetch_response_is_what_its_schema_says(version: int) -> None:
    topic = st.builds(fetch.TopicAnswer, named(version, fetch.TOPIC_IDS_FROM), st.lists(fetched, max_size=4))

    @by_hand
    @given(st.builds(fetch.FetchResponse, st.lists(topic, max_size=3), codes, numbers, st.booleans()))
    def check(given_: fetch.FetchResponse[bytes]) -> None:
        parts: list[bytes] = fetch.write_response(given_, version)
        response = read_with_kio(b"".join(parts), FETCH, version)
        if version >= fetch.SESSIONS_FROM:
            assert (response.error_code.value, response.session_id) == (given_.error_code, given_.session_id)
        assert [topic_of(one) for one in response.responses] == [one.topic for one in given_.topics]
        for read, asked in zip(response.responses, given_.topics, strict=True):
            for found, answer in zip(read.partitions, asked.partitions, strict=True):
                assert (found.partition_index, found.error_code.value, found.high_watermark) == answer[:3]
                assert found.last_stable_offset == answer.last_stable_offset
                assert found.aborted_transactions == (() if given_.committed_only else None)
                assert bytes(found.records or b"") == b"".join(answer.records)
                if version >= fetch.START_OFFSET_FROM:
                    assert found.log_start_offset == answer.start_offset

    check()


# Responses of handlers


@pytest.fixture(scope="module")
def served() -> Iterator[RunningServer]:
    from datetime import timedelta

    quick = timedelta(0)
    with running_server(group_initial_delay=quick, fetch_wait_max=quick, auto_created_topics_max=300) as server:
        server.log.create_topic("orders", partitions=2)
        server.log.partition("orders", 0).append(bytearray(batch(b"a", b"b")), durable=False)
        yield server


async def unless_it_waits(answer: Awaitable[Any]) -> Any:
    """CancelledError if nothing happens for a moment: it waits for records, or for members of a group."""
    task, deadline = asyncio.ensure_future(answer), Deadline(0.1)
    while not task.done() and not deadline.passed:
        await asyncio.wait({task}, timeout=0.1)
    task.cancel()
    return await task


def answered(server: RunningServer, frame: bytes, *, log: Any = None, groups: Any = None) -> bytes | None:
    """The bytes of the answer; None if there is none, or it waits for others. Declared errors close a connection."""

    async def answer() -> bytes | None:
        port = server.shared_port
        call = read_call(memoryview(bytearray(frame[4:])))
        assert isinstance(call, Call)
        context = Context(
            api_version=call.start.api_version, client_id="test", client_host="127.0.0.1", log=log or port.log,
            groups=groups or port.groups, settings=port.settings, node=Node(1, "127.0.0.1", 9092),
            executor=port.executor, shared=port.shared,
        )  # fmt: skip
        try:
            response = await unless_it_waits(call.route.handle(call.request, context))
            response = await unless_it_waits(response.finish()) if isinstance(response, Later) else response
        except (asyncio.CancelledError, HeadwaterError):
            return None
        if response is NO_ANSWER:
            return None
        parts = write_answer(call.start, call.route, response)
        return b"".join(part if isinstance(part, bytes) else part.file.read_at(*part[1:]) for part in parts)

    return server.run(answer())


@pytest.mark.parametrize("route, version", EVERY)
def test_whatever_is_asked_the_answer_is_what_the_schema_says(
    route: Route, version: int, served: RunningServer
) -> None:
    @few
    @given(st.from_type(load_request_schema(route.api_key, version)))
    def check(request: Any) -> None:
        for asked in (request, with_texts(request, "orders")):
            try:
                answer = answered(served, request_frame(asked))
            except errors.ProtocolError:
                continue  # kio's type allows what our reader refuses
            if answer is not None:
                read_response(answer[4:], route.api_key, version)

    check()


def leaves(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    below = kind.__subclasses__()
    for one in below:
        yield from leaves(one)
    if not below:
        yield kind


def hostile_error(kind: type[HeadwaterError]) -> HeadwaterError:
    error = kind.__new__(kind)
    Exception.__init__(error, HOSTILE)
    for name in ("member_id", "topic", "name"):
        setattr(error, name, HOSTILE)
    error.blocking = False  # type: ignore[attr-defined]
    return error


class Failing:
    """Whatever is asked of it fails; plain values are those of the real one."""

    def __init__(self, real: Any, error: Exception, plain: tuple[str, ...]) -> None:
        self._real, self._error, self._plain = real, error, plain

    def __getattr__(self, name: str) -> Any:
        if name in self._plain:
            return getattr(self._real, name)
        if isinstance(getattr(type(self._real), name, None), property):
            raise self._error
        if asyncio.iscoroutinefunction(getattr(type(self._real), name)):
            return self._later
        return self._now

    def _now(self, *_: Any, **__: Any) -> Any:
        raise self._error

    async def _later(self, *_: Any, **__: Any) -> Any:
        raise self._error


ERRORS_FOR_CLIENTS = [
    kind for branch in (errors.UsageError, errors.ConflictError, errors.UnavailableError) for kind in leaves(branch)
]


@pytest.mark.parametrize("route, version", EVERY)
def test_every_error_can_be_said_in_every_version(route: Route, version: int, served: RunningServer) -> None:
    @settings(few, max_examples=2 * few.max_examples)
    @given(st.from_type(load_request_schema(route.api_key, version)), st.sampled_from(ERRORS_FOR_CLIENTS))
    def check(request: Any, kind: type[HeadwaterError]) -> None:
        port, error = served.shared_port, hostile_error(kind)
        log = Failing(port.log, error, ("cluster_id", "settings", "path", "clock", "topic_count"))
        groups = Failing(port.groups, error, ())
        try:
            answer = answered(served, request_frame(request), log=log, groups=groups)
        except errors.ProtocolError:
            return
        if answer is not None:
            read_response(answer[4:], route.api_key, version)

    check()


@pytest.mark.parametrize("version", range(10, 14))
def test_metadata_by_an_id_that_no_topic_has_is_answered(version: int, served: RunningServer) -> None:
    from uuid import uuid4

    request_type: Any = load_request_schema(METADATA, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0].__args__[0]
    asked = uuid4()
    more = {"include_cluster_authorized_operations": False} if version == 10 else {}
    request = request_type(
        topics=(topic_type(topic_id=asked, name=None),), include_topic_authorized_operations=False, **more
    )
    answer = answered(served, request_frame(request))
    assert answer is not None
    (found,) = read_response(answer[4:], METADATA, version).topics
    assert (found.topic_id, found.error_code.name) == (asked, "unknown_topic_id")


def test_a_planted_null_is_found() -> None:
    """These tests can fail: without what fits a response to its version, a null is a TypeError."""
    route = find_route(15)
    assert route is not None
    with patch("headwater.wire.protocol.entities.fitted", side_effect=TypeError), pytest.raises(TypeError):
        test_a_text_that_a_version_cannot_carry_is_said_as_it_can(route, 0, None)

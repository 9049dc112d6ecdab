"""Confluent's REST interface: paths, statuses and codes as its clients expect them, whatever comes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import errors
from headwater.errors import HeadwaterError, SchemaError
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.registry.journal import TopicJournal
from headwater.registry.registry import Registry
from headwater.registry.rest import CODES, ROUTES, Rest

A = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}'
B = '{"type":"record","name":"R","fields":[{"name":"y","type":"int"}]}'


@pytest.fixture
def rest() -> Rest:
    return Rest(Registry(TopicJournal(Log.open("data", storage=MemoryStorage()))))


def ask(rest: Rest, method: str, target: str, body: Any = None) -> tuple[int, Any]:
    path, _, said = target.partition("?")
    query = dict(one.split("=") for one in said.split("&") if one)
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return rest.answer(method, path.split("/"), query, sent)


def given_two(rest: Rest) -> None:
    for subject in ("orders-value", "other"):
        assert ask(rest, "POST", f"subjects/{subject}/versions", {"schema": A}) == (200, {"id": 1})


def test_a_schema_is_found_by_subject_version_id_and_text(rest: Rest) -> None:
    given_two(rest)
    whole = {"subject": "orders-value", "id": 1, "version": 1, "schema": A}
    assert ask(rest, "GET", "subjects") == (200, ["orders-value", "other"])
    assert ask(rest, "GET", "subjects/orders-value/versions") == (200, [1])
    assert ask(rest, "GET", "subjects/orders-value/versions/latest") == (200, whole)
    assert ask(rest, "GET", "subjects/orders-value/versions/1/schema") == (200, A)
    assert ask(rest, "POST", "subjects/orders-value", {"schema": A}) == (200, whole)
    assert ask(rest, "GET", "schemas/ids/1") == (200, {"schema": A})
    assert ask(rest, "GET", "schemas/ids/1/subjects") == (200, ["orders-value", "other"])
    assert ask(rest, "GET", "schemas/ids/1/versions?limit=1")[0] == 200
    assert ask(rest, "GET", "schemas?subjectPrefix=oth") == (200, [whole | {"subject": "other"}])
    assert ask(rest, "GET", "schemas/types") == (200, ["AVRO", "JSON", "PROTOBUF"])
    assert ask(rest, "GET", "mode") == (200, {"mode": "READWRITE"})


def test_the_type_of_a_schema_is_said_unless_it_is_avro(rest: Rest) -> None:
    ask(rest, "POST", "subjects/j/versions", {"schema": "{}", "schemaType": "JSON"})
    assert ask(rest, "GET", "subjects/j/versions/1")[1]["schemaType"] == "JSON"


def test_compatibility_is_answered_with_reasons_if_they_are_wanted(rest: Rest) -> None:
    given_two(rest)
    path = "compatibility/subjects/other/versions/latest"
    assert ask(rest, "POST", path, {"schema": B}) == (200, {"is_compatible": False})
    status, said = ask(rest, "POST", f"{path}?verbose=true", {"schema": B})
    assert (status, said["is_compatible"], len(said["messages"])) == (200, False, 1)
    assert ask(rest, "POST", "compatibility/subjects/other/versions", {"schema": A})[1] == {"is_compatible": True}
    assert ask(rest, "POST", "compatibility/subjects/new/versions", {"schema": A})[1] == {"is_compatible": True}


def test_levels_are_set_and_given_up(rest: Rest) -> None:
    assert ask(rest, "GET", "config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(rest, "GET", "config/other")[1]["error_code"] == 40408
    assert ask(rest, "GET", "config/other?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(rest, "PUT", "config/other", {"compatibility": "NONE"}) == (200, {"compatibility": "NONE"})
    assert ask(rest, "DELETE", "config/other") == (200, {"compatibilityLevel": "NONE"})
    assert ask(rest, "PUT", "config", {"compatibility": "FULL"}) == (200, {"compatibility": "FULL"})


REFUSED: list[tuple[str, str, Any, int, int]] = [
    ("GET", "subjects/no/versions", None, 404, 40401),
    ("GET", "subjects/other/versions/9", None, 404, 40402),
    ("GET", "subjects/other/versions/0", None, 422, 42202),
    ("GET", "subjects/other/versions/²", None, 422, 42202),
    ("GET", "subjects/other/versions/99999999999999999999", None, 422, 42202),
    ("POST", "subjects/other", {"schema": B}, 404, 40403),
    ("GET", "schemas/ids/9", None, 404, 40403),
    ("GET", "schemas/ids/x", None, 404, 40403),
    ("POST", "subjects/other/versions", {"schema": B}, 409, 409),
    ("POST", "subjects/other/versions", {"schema": "{"}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": {}}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": A, "schemaType": "XML"}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": A, "schemaType": 3}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": A, "references": [1]}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": A, "references": "x"}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": A, "references": 7}, 422, 42201),
    ("POST", "subjects/other/versions", {"schema": A, "ruleSet": {"x": 1}}, 422, 42201),
    ("POST", "subjects/other/versions", b"not JSON", 400, 400),
    ("POST", "subjects/other/versions", b"[]", 400, 400),
    ("POST", "subjects/other/versions", b"[" * 100_000, 400, 400),
    ("PUT", "config", {"compatibility": "UP"}, 422, 42203),
    ("PUT", "config", {}, 422, 42203),
    ("PUT", "config/orders", {"compatibility": None}, 422, 42203),
    ("PUT", "config", {"compatibility": "FULL", "alias": "x"}, 422, 42203),
    ("DELETE", "subjects/other?permanent=true", None, 404, 40405),
    ("DELETE", "subjects/other/versions/1?permanent=true", None, 404, 40407),
    ("PUT", "subjects", None, 405, 405),
    ("GET", "contexts", None, 404, 404),
]


@pytest.mark.parametrize("method, target, body, status, code", REFUSED)
def test_what_is_refused_has_the_code_that_clients_know(
    rest: Rest, method: str, target: str, body: Any, status: int, code: int
) -> None:
    given_two(rest)
    before = rest._registry.versions("other")
    found, said = ask(rest, method, target, body)
    assert (found, said["error_code"]) == (status, code)
    assert said["message"]
    assert rest._registry.versions("other") == before


def test_what_was_deleted_before_has_its_own_codes(rest: Rest) -> None:
    given_two(rest)
    assert ask(rest, "DELETE", "subjects/other") == (200, [1])
    assert ask(rest, "DELETE", "subjects/other")[1]["error_code"] == 40404
    assert ask(rest, "DELETE", "subjects/other/versions/1")[1]["error_code"] == 40406
    assert ask(rest, "GET", "subjects?deletedOnly=true") == (200, ["other"])
    assert ask(rest, "DELETE", "subjects/other/versions/1?permanent=true") == (200, 1)


def test_every_error_about_schemas_has_a_code() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SchemaError)]
    assert [one.__name__ for one in kinds if one is not SchemaError and one not in CODES] == []
    assert all(issubclass(one, HeadwaterError) for one in CODES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    ["type", "name", "record", "fields", "items", "array", "map", "values", "enum", "symbols", "int", "$ref", "#/",
     "properties", "allOf", "anyOf", "not", "required", "pattern", "x", "R", "message", "syntax", "=", "{", "}", "1"]
)  # fmt: skip
SCHEMAS = st.recursive(
    WORDS | st.integers(-2, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
BODIES = (
    st.binary(max_size=20)
    | JSON.map(lambda said: json.dumps(said).encode())
    | st.builds(
        lambda schema, kind, more: json.dumps({"schema": schema, "schemaType": kind, **more}).encode(),
        SCHEMAS.map(json.dumps) | st.lists(WORDS, max_size=12).map(" ".join) | JSON,
        st.sampled_from(["AVRO", "JSON", "PROTOBUF"]) | JSON,
        st.fixed_dictionaries({}, optional={"references": JSON, "compatibility": JSON, "metadata": JSON}),
    )
)
PATHS = st.sampled_from([route.path for route in ROUTES]).flatmap(
    lambda path: st.lists(st.sampled_from(["s", "1", "latest", "-1", "é"]) | st.text(max_size=5), max_size=3).map(
        lambda names: _filled(path, names)
    )
)
QUERIES = st.dictionaries(
    st.sampled_from(["deleted", "permanent", "verbose", "offset", "limit", "format", "subject", "subjectPrefix"]),
    st.sampled_from(["true", "false", "1", "-1", "serialized", "²", "9" * 30, ""]),
    max_size=3,
)


def _filled(path: str, names: list[str]) -> list[str]:
    given = iter(names)
    return [next(given, "s") if part == "{}" else part for part in path.split("/")]


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]), PATHS, QUERIES, BODIES), max_size=4)
)
def test_no_request_is_answered_with_anything_but_a_status_and_json(
    requests: list[tuple[str, list[str], dict[str, str], bytes]],
) -> None:
    rest = Rest(Registry(TopicJournal(Log.open("data", storage=MemoryStorage()))))
    for method, path, query, body in requests:
        status, said = rest.answer(method, path, query, body)
        assert status in (200, 400, 404, 405, 409, 422), (said, path, body)
        json.dumps(said)

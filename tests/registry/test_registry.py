"""Subjects, versions, ids, levels and deletion; and that all of it is there after a restart."""

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headwater.errors import (
    AlreadyDeleted,
    IncompatibleSchema,
    InvalidSchemaText,
    NoOwnCompatibility,
    NotYetDeleted,
    RegistryUnavailable,
    SchemaReferenced,
    UnavailableError,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
)
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.record import Record
from headwater.registry.journal import TOPIC, TopicJournal
from headwater.registry.json_schema import kind as json_kind
from headwater.registry.records import Entry
from headwater.registry.registry import Registry
from headwater.registry.words import LATEST, Compatibility, Reference, SchemaText
from tests.waiting import LONG


def avro(*fields: Any, name: str = "Order") -> SchemaText:
    return SchemaText(json.dumps({"type": "record", "name": name, "fields": list(fields)}))


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


A, B = avro(field("x")), avro(field("x"), field("y", default=0))
BREAKING = avro(field("z"))


@pytest.fixture
def log() -> Iterator[Log]:
    with Log.open("data", storage=MemoryStorage()) as opened:
        yield opened


@pytest.fixture
def registry(log: Log) -> Registry:
    return Registry(TopicJournal(log))


def compact(log: Log) -> None:
    before = len(list(log.read(TOPIC)))
    log.alter_topic(TOPIC, {"min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"})
    log.partition(TOPIC, 0).roll()
    log.maintain()
    assert len(list(log.read(TOPIC))) < before


def test_a_node_without_schemas_has_no_topic_for_them(log: Log, registry: Registry) -> None:
    assert registry.subjects() == []
    assert log.topics() == []


def test_versions_count_from_one_and_ids_over_all_subjects(registry: Registry) -> None:
    assert [registry.register("orders-value", schema).number for schema in (A, B)] == [1, 2]
    assert registry.register("other", avro(field("q"), name="Q")).id == 3
    assert registry.register("third", B).id == 2


def test_the_same_schema_however_it_is_written_is_the_same_version(registry: Registry) -> None:
    written = '{ "fields": [{"type": "int", "name": "x"}],\n "name": "Order", "type": "record" }'
    assert registry.register("orders-value", A) == registry.register("orders-value", SchemaText(written))


def test_a_namespace_may_stand_in_the_name(registry: Registry) -> None:
    inside = SchemaText('{"type":"record","name":"shop.Order","fields":[]}')
    beside = SchemaText('{"type":"record","name":"Order","namespace":"shop","fields":[]}')
    assert registry.register("a", inside).id == registry.register("b", beside).id


def test_what_a_subject_does_not_have_is_reported(registry: Registry) -> None:
    with pytest.raises(UnknownSubject, match='no subject "orders-value"'):
        registry.versions("orders-value")
    registry.register("orders-value", A)
    with pytest.raises(UnknownVersion, match="no version 7"):
        registry.version("orders-value", 7)
    with pytest.raises(UnknownSchema):
        registry.find("orders-value", B)
    with pytest.raises(UnknownSchema, match="id 99"):
        registry.with_id(99)


def test_a_change_that_the_rule_forbids_is_refused_and_leaves_nothing(registry: Registry) -> None:
    registry.register("orders-value", A)
    with pytest.raises(IncompatibleSchema, match="z: the field is not written"):
        registry.register("orders-value", BREAKING)
    assert [version.number for version in registry.versions("orders-value")] == [1]


LEVELS = [
    # level, then which of: drop a field without default, add one with default, add one without
    ("NONE", True, True, True),
    ("BACKWARD", True, True, False),
    ("FORWARD", False, True, True),
    ("FULL", False, True, False),
]


@pytest.mark.parametrize("level, drop, add_default, add_plain", LEVELS)
def test_each_level_lets_through_what_it_says(
    registry: Registry, level: str, drop: bool, add_default: bool, add_plain: bool
) -> None:
    both = avro(field("x"), field("y"))
    registry.set_level("s", Compatibility(level))
    registry.register("s", both)
    tried = [
        avro(field("x")),
        avro(field("x"), field("y"), field("n", default=1)),
        avro(field("x"), field("y"), field("n")),
    ]
    assert [registry.check("s", schema, LATEST).compatible for schema in tried] == [drop, add_default, add_plain]


@pytest.mark.parametrize("kind", ["BACKWARD", "FORWARD", "FULL"])
def test_a_transitive_level_looks_at_all_versions_and_a_plain_one_at_the_last(registry: Registry, kind: str) -> None:
    # Of the first version only the type of y is not as in the third, and the second has no y.
    steps = [
        avro(field("x"), field("y", "string", default="")),
        avro(field("x")),
        avro(field("x"), field("y", default=0)),
    ]
    for level in (kind, f"{kind}_TRANSITIVE"):
        subject = f"s-{level}"
        registry.set_level(subject, Compatibility(level))
        registry.register(subject, steps[0])
        registry.register(subject, steps[1])
        verdict = registry.check(subject, steps[2], None)
        assert verdict.compatible == (not level.endswith("TRANSITIVE"))
        assert verdict.version == (1 if level.endswith("TRANSITIVE") else 0)


def test_a_schema_of_another_kind_cannot_follow(registry: Registry) -> None:
    registry.register("s", A)
    with pytest.raises(IncompatibleSchema, match="of kind JSON"):
        registry.register("s", SchemaText("{}", "JSON"))


def test_a_subject_without_a_level_has_that_of_the_registry(registry: Registry) -> None:
    assert registry.level("s") is Compatibility.BACKWARD
    with pytest.raises(NoOwnCompatibility):
        registry.own_level("s")
    registry.set_level(None, Compatibility.FULL)
    assert registry.level("s") is Compatibility.FULL
    registry.set_level("s", Compatibility.NONE)
    assert registry.set_level("s", None) is Compatibility.NONE
    assert registry.level("s") is Compatibility.FULL


def test_a_deleted_version_is_hidden_but_its_id_still_answers(registry: Registry) -> None:
    first, second = registry.register("s", A), registry.register("s", B)
    assert registry.delete_version("s", 2) == 2
    assert [version.number for version in registry.versions("s")] == [1]
    assert registry.version("s", LATEST) == first
    assert registry.with_id(second.id)[0].deleted
    with pytest.raises(AlreadyDeleted):
        registry.delete_version("s", 2)


def test_a_deleted_schema_that_is_registered_again_is_a_new_version_with_its_old_id(registry: Registry) -> None:
    first = registry.register("s", A)
    registry.delete_version("s", 1)
    again = registry.register("s", A)
    assert (again.number, again.id) == (2, first.id)


def test_only_what_is_deleted_can_be_deleted_for_good(registry: Registry) -> None:
    registry.register("s", A)
    with pytest.raises(NotYetDeleted):
        registry.delete_subject("s", permanent=True)
    with pytest.raises(NotYetDeleted):
        registry.delete_version("s", 1, permanent=True)
    assert registry.delete_subject("s") == [1]
    assert registry.delete_subject("s", permanent=True) == [1]
    assert registry.subjects(deleted=True) == []


def test_an_id_is_never_given_to_another_schema(log: Log, registry: Registry) -> None:
    lost = registry.register("s", A).id
    registry.delete_subject("s")
    registry.delete_subject("s", permanent=True)
    with pytest.raises(UnknownSchema):
        registry.with_id(lost)
    compact(log)
    assert Registry(TopicJournal(log)).register("s", B).id == lost + 1
    assert registry.register("t", B).id > lost


def test_a_schema_can_be_built_on_another(registry: Registry) -> None:
    money = SchemaText('{"type":"record","name":"shop.Money","fields":[{"name":"cents","type":"long"}]}')
    registry.register("money", money)
    order = SchemaText(
        '{"type":"record","name":"shop.Order","fields":[{"name":"price","type":"shop.Money"}]}',
        references=(Reference("shop.Money", "money", 1),),
    )
    made = registry.register("orders-value", order)
    assert registry.referring_to("money", 1) == [made.id]
    with pytest.raises(SchemaReferenced, match=f"referenced by schema {made.id}"):
        registry.delete_version("money", 1)
    registry.delete_subject("orders-value")
    registry.delete_version("money", 1)


def test_a_reference_that_leads_nowhere_is_refused(registry: Registry) -> None:
    schema = SchemaText('"shop.Money"', references=(Reference("shop.Money", "money", 1),))
    with pytest.raises(InvalidSchemaText, match=r'reference "shop\.Money" leads nowhere'):
        registry.register("s", schema)


def test_everything_is_there_after_a_restart(log: Log, registry: Registry) -> None:
    registry.register("s", A)
    registry.register("s", B)
    registry.delete_version("s", 1)
    registry.set_level("s", Compatibility.FULL)
    again = Registry(TopicJournal(log))
    assert again.versions("s", deleted=True) == registry.versions("s", deleted=True)
    assert again.level("s") is Compatibility.FULL
    assert again.register("t", A).id == 1


def test_everything_is_there_after_compaction(log: Log, registry: Registry) -> None:
    for level in Compatibility:
        registry.set_level("s", level)
    registry.register("s", A)
    registry.delete_version("s", 1)
    compact(log)
    again = Registry(TopicJournal(log))
    assert again.versions("s", deleted=True) == registry.versions("s", deleted=True)
    assert again.level("s") is Compatibility.FULL_TRANSITIVE


class FailingJournal:
    damage = ""

    def read(self) -> Iterator[Entry]:
        return iter(())

    def write(self, entries: Sequence[Entry]) -> None:
        raise UnavailableError("the disk is full")


def test_what_could_not_be_made_durable_has_no_effect() -> None:
    registry = Registry(FailingJournal())
    with pytest.raises(UnavailableError):
        registry.register("s", A)
    assert registry.subjects() == []


def test_a_registry_that_cannot_read_all_it_wrote_takes_no_changes(log: Log, registry: Registry) -> None:
    registry.register("s", A)
    log.append(TOPIC, Record(b"not JSON", b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}'))
    damaged = Registry(TopicJournal(log))
    with pytest.raises(RegistryUnavailable, match="damaged"):
        damaged.subjects()
    with pytest.raises(RegistryUnavailable, match="damaged"):
        damaged.register("s", B)


def test_what_may_stand_in_what_is_damaged_is_not_said_to_be_missing(log: Log, registry: Registry) -> None:
    kept = registry.register("s", A)
    log.append(TOPIC, Record(b"not JSON", b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}'))
    damaged = Registry(TopicJournal(log))
    assert damaged.with_id(kept.id) == [kept], "what is found is right"
    asked = (lambda: damaged.versions("s"), lambda: damaged.version("t", 1), lambda: damaged.with_id(kept.id + 1))
    for ask in asked:
        with pytest.raises(RegistryUnavailable, match="a part of it is damaged"):
            ask()


def test_names_of_subjects_have_limits(registry: Registry) -> None:
    for name in ("", "a" * 501, "a\nb"):
        with pytest.raises(InvalidSchemaText, match="cannot name a subject"):
            registry.register(name, A)


def json_schema(said: Any) -> SchemaText:
    return SchemaText(json.dumps(said), "JSON")


def test_who_looks_something_up_does_not_wait_for_schemas_that_are_compared(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparing, go_on = threading.Event(), threading.Event()

    def unreadable(reader: object, writer: object, budget: object) -> list[str]:
        comparing.set()
        assert go_on.wait(LONG)
        return []

    first = registry.register("a", json_schema({"type": "integer"}))
    monkeypatch.setattr(json_kind, "KIND", json_kind.KIND._replace(unreadable=unreadable))
    with ThreadPoolExecutor() as threads:
        try:
            slow = threads.submit(registry.register, "a", json_schema({"type": "number"}))
            assert comparing.wait(LONG)
            looked_up = threads.submit(registry.with_id, first.id).result(LONG), registry.versions("a")
            threads.submit(registry.set_level, "other", Compatibility.NONE).result(LONG)
        finally:
            go_on.set()
        assert slow.result(LONG).number == 2
    assert looked_up == ([first], [first])


def test_a_subject_that_changes_while_schemas_are_compared_is_looked_at_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("a", json_schema({"type": "integer"}))
    compared: list[int] = []

    def unreadable(reader: Any, writer: Any, budget: object) -> list[str]:
        compared.append(len(registry.versions("a")))
        if len(compared) == 1:
            registry.set_level("a", Compatibility.FULL)
        return []

    monkeypatch.setattr(json_kind, "KIND", json_kind.KIND._replace(unreadable=unreadable))
    assert registry.register("a", json_schema({"type": "number"})).number == 2
    assert len(compared) == 3, "once backward, then both ways"


def test_schemas_that_are_too_large_to_compare_are_refused_and_the_next_is_not(registry: Registry) -> None:
    def choice(word: str) -> SchemaText:
        kinds = [{"type": "object", "properties": {"a": {word: number}}, "required": ["a"]} for number in range(2000)]
        return json_schema({"oneOf": kinds})

    registry.register("large", choice("minimum"))
    with pytest.raises(IncompatibleSchema, match="too large to be compared; make them smaller"):
        registry.register("large", choice("maximum"))
    assert registry.register("small", A).number == 1


def test_a_schema_with_more_than_a_megabyte_is_refused(registry: Registry) -> None:
    with pytest.raises(InvalidSchemaText, match="characters"):
        registry.register("a", json_schema({"title": "x" * 1024**2}))


@pytest.mark.parametrize(
    "said", ['{"minimum": 1e999}', '{"maxItems": 1e999}', '{"minimum": NaN}', '{"dependentRequired": []}']
)
def test_what_cannot_be_compared_is_refused_when_it_is_registered(registry: Registry, said: str) -> None:
    with pytest.raises(InvalidSchemaText):
        registry.register("a", SchemaText(said, "JSON"))


def test_a_schema_that_is_nested_too_deeply_is_refused_with_a_sentence(registry: Registry) -> None:
    default: Any = 1
    for _ in range(450):
        default = {"f": default}
    a_record = {"type": "record", "name": "A", "fields": [field("f", ["null", "A"])]}
    with pytest.raises(InvalidSchemaText, match="nested too deeply"):
        registry.register("a", avro(field("x", a_record), field("y", "A", default=default)))

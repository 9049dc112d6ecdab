"""What is written of users, ACLs and quotas is what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.access.acls import OPERATIONS, Acl, Pattern, Permission, problem_of
from headwater.access.quotas import KEYS, Entity
from headwater.access.records import Entry, Key, UserKey, Value, decode, encode
from headwater.access.scram import MECHANISMS, Credential
from headwater.errors import CorruptBatch

texts = st.text(min_size=1, max_size=30)
credentials = st.builds(
    Credential,
    st.binary(min_size=1, max_size=64),
    st.integers(4096, 16384),
    st.binary(max_size=64),
    st.binary(max_size=64),
)
users = st.tuples(st.builds(UserKey, texts), st.none() | st.dictionaries(st.sampled_from([*MECHANISMS]), credentials))
acls = st.sampled_from([(kind, one) for kind, all_of in OPERATIONS.items() for one in all_of]).flatmap(
    lambda what: st.builds(
        Acl, st.just(what[0]), st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]), texts,
        texts.map(lambda name: f"User:{name}"), texts, st.just(what[1]),
        st.sampled_from([Permission.ALLOW, Permission.DENY]),
    )
).filter(lambda acl: not problem_of(acl))  # fmt: skip
entities = st.dictionaries(st.sampled_from(["user", "client-id"]), st.none() | texts, min_size=1).map(
    lambda parts: Entity(tuple(sorted(parts.items())))
)
limits = st.dictionaries(st.sampled_from([*KEYS]), st.floats(0.001, 1e12), min_size=1)
entries: st.SearchStrategy[tuple[Key, Value]] = (
    users | st.tuples(acls, st.none() | st.just({})) | st.tuples(entities, st.none() | limits)
)


@given(entry=entries.map(lambda pair: Entry(*pair)))
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert decode(*encode(entry)) == entry


@given(key=st.binary(max_size=60), value=st.none() | st.binary(max_size=60))
def test_other_bytes_are_reported_and_nothing_else(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="cannot be read"):
        decode(b"[" + key, value)


def test_kinds_of_later_versions_are_skipped() -> None:
    assert decode(b'["token","x"]', b"{}") is None

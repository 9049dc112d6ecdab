import json
import keyword
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidSchema
from headwater.flow.formats.schema import KNOWN_TYPES, SIMPLE_TYPES, Field, Schema, parse_ddl, to_ddl

EVERYTHING = """
    a boolean, b byte, c tinyint, d short, e smallint, f int, g integer, h long, i bigint, j float, k real, l double,
    m string, n binary, o date, p timestamp, q timestamp_ntz, r timestamp_ltz, s decimal, t decimal(12), u dec(12,2),
    v numeric(38, 38), w array<string>, x map<string, array<bigint>>, y struct<a: int, b: struct<c: string>>,
    z struct<a int NOT NULL, `b c` STRING COMMENT 'it is, isn\\'t it'>,
    aa BIGINT NOT NULL COMMENT "the, first", `bb ``cc` Decimal ( 5 , 1 ) not null,
    dd array<map<string, struct<e: array<array<date>>, f: decimal(1,1)>>>, `ünder the moon` int, not string, date date
"""

names = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=6).filter(
        lambda name: not name.startswith("_")
    ),
)
decimals = st.integers(1, 38).flatmap(lambda digits: st.builds(pa.decimal128, st.just(digits), st.integers(0, digits)))


def _structs(types):
    fields = st.lists(st.tuples(names, types, st.booleans()), min_size=1, max_size=3, unique_by=lambda f: f[0].lower())
    return fields.map(lambda them: pa.struct([pa.field(name, kind, nullable=null) for name, kind, null in them]))


types = st.recursive(
    st.one_of(st.sampled_from(list(SIMPLE_TYPES.values())), decimals),
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        st.tuples(inner, inner).map(lambda pair: pa.map_(pair[0], pa.field("value", pair[1]))),
        _structs(inner),
    ),
    max_leaves=6,
)
schemas = st.lists(
    st.builds(Field, names, types, st.booleans()), min_size=1, max_size=5, unique_by=lambda field: field.name.lower()
).map(lambda fields: Schema(tuple(fields)))


def message_of(text: str) -> str:
    with pytest.raises(InvalidSchema) as caught:
        parse_ddl(text)
    return str(caught.value)


@given(schemas)
def test_a_schema_is_the_same_after_being_written_and_read(schema: Schema) -> None:
    assert parse_ddl(schema.ddl) == schema
    assert to_ddl(schema.arrow) == schema.ddl


@given(st.text(st.sampled_from("abint <>(),:`'\"0_é"), max_size=30))
def test_any_text_is_a_schema_or_a_sentence(text: str) -> None:
    try:
        found = parse_ddl(text).ddl
    except InvalidSchema as error:
        found = str(error)
    assert found


def test_other_names_of_types_mean_the_same() -> None:
    assert parse_ddl("a LONG, b integer, c numeric").ddl == "a bigint, b int, c decimal(10,0)"


def test_a_name_that_is_no_plain_word_stands_in_back_ticks() -> None:
    assert parse_ddl("`a b` int, `c``d` int").names == ("a b", "c`d")
    assert parse_ddl("`a b` int, `c``d` int").ddl == "`a b` int, `c``d` int"


def test_a_comment_is_read_and_dropped() -> None:
    assert parse_ddl("a int NOT NULL COMMENT 'x, y', b int").ddl == "a int NOT NULL, b int"


def test_nested_types_keep_not_null_inside() -> None:
    inner = parse_ddl("a struct<b: int NOT NULL, c: int>").field("a").type
    assert [field.nullable for field in inner.fields] == [False, True]


def test_wide_texts_of_other_libraries_are_texts() -> None:
    assert to_ddl(pa.schema({"a": pa.large_string(), "b": pa.large_list(pa.large_binary())})) == (
        "a string, b array<binary>"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id bigintt", '"bigintt" at character 4 is not a type. Did you mean bigint?'),
        ("id int, tags aray<string>", '"aray" at character 14 is not a type. Did you mean array?'),
        ("a array<string", 'the schema ends at character 15, where ">" was expected to close the "<" at character 8.'),
        ("a struct<b: int, c: string", '"," or ">" was expected to close the "<" at character 9.'),
        ("a decimal(12,2", 'where ")" was expected to close the "(" at character 10.'),
        ("a int>", 'the schema has ">" at character 6, where "," or the end was expected.'),
        ("a map<string>", 'the schema has ">" at character 13, where "," was expected'),
        ("a int, A string", 'there are two columns "a" and "A"; Spark does not distinguish them.'),
        ("a struct<b: int, b: int>", 'there are two columns "b" and "b"'),
        ("_key binary", 'column "_key" begins with _, which is reserved for _key, _offset and the like. Call it key.'),
        ("", "the schema ends at character 1, where the name of a column was expected."),
        ("a", "the schema ends at character 2, where a type was expected."),
        ("a int b int", 'the schema has "b" at character 7, where "," or the end was expected.'),
        ("a decimal(39,2)", "decimal(39,2) at character 3 cannot be. It has 1 to 38 digits"),
        ("a decimal(2,3)", "decimal(2,3) at character 3 cannot be."),
        ("a-b int", "the schema has '-' at character 2, which has no meaning there. A name that is not a plain word"),
        ("a int not", "where NULL after NOT was expected."),
        ("a int comment b", 'the schema has "b" at character 15, where a text in quotes after COMMENT was expected.'),
        ("a " + "array<" * 200, "types are nested deeper than 100 at character"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_place_and_a_way_out(text: str, sentence: str) -> None:
    assert sentence in message_of(text)


def test_a_column_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidSchema, match=r'there is no column "amont". Did you mean amount\?'):
        parse_ddl("id int, amount int").field("amont")


def test_an_arrow_type_without_a_spark_type_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="Spark has no type for Arrow's uint8"):
        to_ddl(pa.schema({"a": pa.uint8()}))


@pytest.mark.slow
def test_every_schema_is_what_spark_makes_of_the_same_text(spark: Any) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    texts = [EVERYTHING, *(f"{word} int, b {word}" for word in SIMPLE_TYPES), *(f"{word} int" for word in KNOWN_TYPES)]
    texts += [f"{word} int" for word in keyword.kwlist]
    for text in texts:
        ours = parse_ddl(text)
        theirs = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(text).json()
        again = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ours.ddl).json()
        schema = _without_comments(json.loads(theirs))
        assert schema == json.loads(again)
        assert ours.arrow == to_arrow_schema(StructType.fromJson(schema), timezone="UTC")


def _without_comments(part):
    if isinstance(part, dict):
        return {key: {} if key == "metadata" else _without_comments(value) for key, value in part.items()}
    return [_without_comments(each) for each in part] if isinstance(part, list) else part

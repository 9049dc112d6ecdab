"""JSON decoding beside Spark's from_json: alike on a table of interesting values, or different on purpose.

Where Spark gives null for a row that does not fit, we say so: the row is bad. Both count as "refused" here.
"""

from datetime import date, datetime
from typing import cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.flow.formats.decoding import decoder_for
from headwater.flow.formats.schema import parse_ddl
from tests.flow.formats.test_json_decoding import same

REFUSED = "refused"
BERLIN = datetime(2024, 2, 29, 11, 34, 56, tzinfo=ZoneInfo("UTC"))
NUMBERED = datetime(2023, 11, 14, 22, 13, 20, tzinfo=ZoneInfo("UTC"))

ALIKE: dict[str, list[str]] = {
    "bigint": ["1", "-1", "0", "9223372036854775807", "-9223372036854775808", "1.0", "1e3", '"1"', "true", "[1]",
               "9223372036854775808", "null", "{}", '""'],
    "int": ["2147483647", "2147483648", "-2147483648", "1.5", '"a"'],
    "tinyint": ["-128", "127", "01", "+1", "NaN"],
    "smallint": ["32767", "-32768", "32768", "40000"],
    "double": ["1", "1.5", "-0.0", "1e-3", "1E5", "0.1", "123456789012345678901234567890", "1.7976931348623157e308",
               "4.9e-324", '"NaN"', '"Infinity"', '"-Infinity"', '"+INF"', '"INF"', '"1.5"', "true", '""',
               "0.84442185152504812", "1e400"],
    "float": ["1.5", "0.1", "16777217", "1.00000029802322387695312500001", "1e39", "1e-45", '"NaN"'],
    "boolean": ["true", "false", "null", "1", '"true"', "0"],
    "decimal(5,2)": ["1", "1.5", "1.005", "-1.005", "1.004", "999.99", "999.994", "999.995", "1000", '"1.5"', '"x"',
                     "1e2", "12e-3", "true", '""', '"+1.5"', '".5"', '"5."', "0e5"],
    "decimal(38,10)": ["1234567890123456789012345678.0123456789", "0.00000000005", "-0.00000000004",
                       "12345678901234567890123456789"],
    "string": ['"a"', '""', "1", "true", "false", "null", '{"b":1}', "[1,2]", '"\\u00e9\\ud83d\\ude00"',
               '"\\/"', '"é"', "123456789012345678901234567890"],
    "timestamp": ['"2024-02-29T12:34:56.1234567890Z"', '"2024-02-29T12:34:56Z"',
                  '"2024-02-29T12:34:56.123456Z"', '"2024-02-29 12:34:56+02:00"', '"2024-02-29"',
                  '"2024-02-29T12:34:56.123456789Z"', '"2023-02-29T00:00:00Z"', '"2024-02-29T12:34"', '"x"', "true",
                  '"1900-01-01T00:00:00-05:30"', '"2024-02-29T24:00:00Z"'],
    "timestamp_ntz": ['"2024-02-29T12:34:56"', '"2024-02-29T12:34:56.5"', '"x"', "1700000000",
                      '"2024-02-29T12:34:56Z"'],
    "date": ['"2024-02-29"', '"2023-02-29"', '"x"', "19000", "true"],
    "binary": ['"YWJj"', '"YQ=="', '"YQ"', '""', "1", '"?"', '"\\u0059Q=="'],
    "array<bigint>": ["[1,2]", "[]", "[null]", "null", "{}", '["x"]', "1"],
    "array<string>": ['["a","b\\n"]', '[1,true,null,"x"]', "[[1]]"],
    "map<string,int>": ['{"a":1,"b":null}', "{}", "[]", '{"a":"x"}'],
    "struct<b: int, c: string>": ['{"b":1,"c":"x"}', "{}", '{"c":2}', '{"b":"x"}', "[]"],
}  # fmt: skip

ON_PURPOSE: list[tuple[str, str, object, object, str]] = [
    ("tinyint", "128", REFUSED, -128, "Spark takes a byte up to 255 and lets it run over into another number"),
    ("string", r'"\ud800"', REFUSED, "?", "half a surrogate pair is no text, and a question mark is an invention"),
    ("string", "'a'", REFUSED, "a", "RFC 8259 knows no other quotes"),
    ("string", "1.50", "1.50", "1.5", "the text is what stands in the value, to the letter"),
    ("string", "1E5", "1E5", "100000.0", "the same"),
    ("string", "-0", "-0", "0", "the same"),
    ("string", '{"b": 1}', '{"b": 1}', '{"b":1}', "the same"),
    ("timestamp", "1700000000", REFUSED, NUMBERED,
     "a number does not say what it counts: the option timestamp does"),
    ("timestamp", '"2024-2-29 11:34:56"', REFUSED, BERLIN, "each part has all its digits"),
    ("timestamp", '"2024-02-29T12:34:56 Europe/Berlin"', REFUSED, BERLIN,
     "what a zone's name means changes with its rules; an offset does not"),
    ("date", '"2024-2-9"', REFUSED, date(2024, 2, 9), "each part has all its digits"),
    ("date", '"2024-02-29T10:00:00"', REFUSED, date(2024, 2, 29), "a moment is not a day: the zone would decide"),
]  # fmt: skip
"""Type, value, what we give, what Spark gives, and why we differ."""


def ours(kind: str, value: str) -> object:
    schema = parse_ddl(f"a {kind}")
    decoded = decoder_for("json", schema).decode(pa.array([f'{{"a":{value}}}'.encode()], type=pa.binary()))
    return REFUSED if len(decoded.bad) else decoded.columns.column(0)[0].as_py()


def theirs(spark: SparkSession, kind: str, values: list[str]) -> list[object]:
    """What from_json gives; refused where it calls the row corrupt."""
    schema = cast(StructType, StructType.fromDDL(f"a {kind}, _corrupt string"))
    rows = spark.createDataFrame([(f'{{"a":{value}}}',) for value in values], "value string")
    options = {"columnNameOfCorruptRecord": "_corrupt"}
    parsed = rows.select(f.from_json("value", schema, options).alias("r")).select("r.*").toArrow()
    return [
        REFUSED if corrupt is not None else value
        for value, corrupt in zip(parsed["a"].to_pylist(), parsed["_corrupt"].to_pylist(), strict=True)
    ]


def asked(kind: str) -> list[str]:
    return ALIKE.get(kind, []) + [value for other, value, *_ in ON_PURPOSE if other == kind]


@pytest.mark.slow
def test_values_are_what_from_json_makes_of_them_but_for_those_that_are_listed(spark: SparkSession) -> None:
    found = {
        (kind, value): (ours(kind, value), spark_says)
        for kind in ALIKE
        for value, spark_says in zip(asked(kind), theirs(spark, kind, asked(kind)), strict=True)
    }
    for kind, value, we_say, spark_says, _ in ON_PURPOSE:
        assert same(list(found.pop((kind, value))), [we_say, spark_says])
    assert [f"{place}: {pair}" for place, pair in found.items() if not same(*pair)] == []

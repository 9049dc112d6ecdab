"""Every translated function gives what Spark gives, and fails in the rows in which Spark fails."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.expressions.evaluated import Evaluated
from headwater.flow.expressions.evaluation import evaluate_column
from headwater.flow.expressions.spark.expressions import Reader
from headwater.flow.expressions.spark.types import sequence
from headwater.flow.expressions.tree import Expression, Untranslatable
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.state.runs.equality import Mask, equal
from tests.flow.expressions.values import SCHEMA, rows

ROWS = 300
AT_ONCE = 40

TRANSLATED = r"""
b and b2 | b or b2 | not b | b is null | i is not null | isnan(d) | isnan(f) | i + i2 | i - i2 | i * i2 | l + l2
l - l2 | l * l2 | t + t | t * t | s + s | s - s | -i | -l | -t | abs(i) | abs(l) | abs(d) | d + d2 | d - d2 | d * d2
d / d2 | i / i2 | l / l2 | f + f | f * f | -d | -f | i div i2 | l div l2 | i % i2 | l % l2 | d % d2 | pmod(i, i2)
pmod(l, 7) | pmod(d, 3) | i % 3 | l % -1 | t % 3 | m + m | m - m | m * m2 | m + m2 | m2 - m | m + 1 | m * 2 | -m
abs(m) | i = i2 | i < i2 | i <= i2 | i > i2 | i >= i2 | i <> i2 | i <=> i2 | l = i | l > 5 | i = 3 | d = d2 | d < d2
d <= d2 | d > d2 | d >= d2 | d <=> d2 | d <> d2 | f = d | f < d | d > 1 | m = m2 | m < m2 | m > 1 | m >= 1.10
m = 1.1 | n = n2 | n < n2 | n >= n2 | n <=> n2 | n = 'abc' | b = b2 | b < b2 | day = day2 | day < day2 | at = at2
at < at2 | at > '2000-01-01' | at >= timestamp'1970-01-01 00:00:00' | day > '2000-01-01'
near > timestamp_ntz'2000-01-01 00:00:00' | y = y | i between 1 and 7 | at between '1970-01-01' and '2025-01-01'
l not between 0 and 5 | i in (1, 3) | i in (1, null) | n in ('a', 'abc') | n not in ('a', '')
d in (0.0, 1.0, double('nan')) | m in (1.10, 123.45) | b in (true) | l in (1, 10000000000) | day in (date'1970-01-01')
n like 'a%' | n like '%b%' | n like '_' | n like 'x\\%y' | n like 'x\\_y' | n like '%' | n like '' | n like 'a_b%'
n not like '%a%' | startswith(n, 'a') | endswith(n, 'c') | contains(n, 'b') | n like 'abc' | n like 'x_y'
coalesce(i, i2) | coalesce(i, 0) | coalesce(n, n2, 'none') | nvl(d, d2) | ifnull(l, 7) | nullif(i, 1)
nullif(n, 'abc') | nvl2(i, n, n2) | case when i > 0 then 'plus' when i < 0 then 'minus' else 'zero' end
case when b then i end | if(b, l, 0) | if(i > 3, n, 'x') | case when i2 <> 0 then i / i2 else 0 end
case when d2 <> 0 then d / d2 end | case i when 1 then 'one' when 2 then 'two' end | coalesce(i, 1 / (i2 - i2))
b and (i / i2 > 0) | b or (i % i2 = 0) | if(b, 1 / d, 2 / d2) | greatest(i, i2) | least(i, i2, 5) | greatest(d, d2)
least(d, d2) | greatest(n, n2) | least(at, at2) | greatest(m, m2) | upper(n) | lower(n) | trim(n) | ltrim(n)
rtrim(n) | length(n) | length(digits) | length(y) | char_length(n) | concat(n, n2) | n || '-' || digits
concat(n, 'x') | concat('a', n) | substring(n, 1, 2) | substring(n, 2, 100) | substring(n, 0, 2) | substring(n, -2, 1)
substring(n, -3, 2) | substr(n, 2) | substring(n, 2, 0) | substring(n, -100, 99) | left(n, 2) | right(n, 2)
replace(n, 'a', 'bb') | replace(n, 'x') | replace(n, '', 'z') | split(n, ',') | floor(d) | ceil(d) | floor(i)
sqrt(d) | year(at) | month(at) | day(at) | dayofmonth(day) | hour(at) | minute(at) | second(at) | quarter(day)
dayofyear(at) | weekofyear(day) | dayofweek(day) | year(day) | month(day) | weekofyear(at) | year(near) | hour(near)
date_trunc('hour', at) | date_trunc('DAY', at) | date_trunc('week', at) | date_trunc('month', at)
date_trunc('quarter', at) | date_trunc('year', at) | date_trunc('minute', at) | date_trunc('second', at)
date_trunc('millisecond', at) | to_date(at) | date(at) | date_add(day, 3) | date_sub(day, 40) | datediff(day, day2)
at + interval 1 day | at - interval 90 minutes | at + interval '1 02:03:04.5' day to second | unix_micros(at)
unix_millis(at) | unix_seconds(at) | timestamp_micros(l) | timestamp_millis(l) | timestamp_seconds(l)
timestamp_seconds(i) | unix_seconds(at) % 60 | cast(i as long) | cast(l as int) | cast(l as smallint)
cast(i as tinyint) | cast(i as double) | cast(l as double) | cast(l as float) | cast(d as int) | cast(d as long)
cast(d as smallint) | cast(f as int) | cast(f as double) | cast(d as float) | cast(f as long) | cast(i as string)
cast(l as string) | cast(b as string) | cast(b as int) | cast(i as boolean) | cast(b as double) | cast(t as int)
cast(i as decimal(12, 2)) | cast(l as decimal(20, 0)) | cast(m as decimal(20, 4)) | cast(m as double)
cast(w as double) | cast(m2 as double) | cast(digits as int) | cast(digits as long) | cast(digits as tinyint)
cast(digits as smallint) | cast(digits as double) | cast(digits as boolean) | try_cast(digits as int)
try_cast(digits as double) | try_cast(l as int) | try_cast(digits as boolean) | try_cast(d as int) | cast(at as date)
cast(day as timestamp) | cast(at as long) | cast(at as double) | cast(near as date) | cast(n as binary)
cast(null as int) | st.u | st.v | st.u + 1 | a[0] | ai[1] | ai[1] + i | size(a) | size(ai) | struct(i, n)
named_struct('x', i, 'y', st.u) | 1 | 'text' | null | true | date'2024-01-01' | 1.5 | cast('12' as int) + i | i | n
at | st | a
xxhash64(i) | xxhash64(n, i, at, d) | xxhash64(f, b, t, s, l, m, y, day, near) | hash(i) | hash(n, st, a, ai, g, d)
hash(f, b, t, s, l, m, y, day, near) | xxhash64(g, small, st, a, ad) | hash('x', i)
xxhash64(struct(i, n), array(n, n2)) | hash(null, i) | pmod(hash(n), 8) | xxhash64(upper(n)) | array(i, i2)
array(n, n2, 'x') | array(1, 2) | array(i, l) | array(st, st2) | array(array(i), ai) | array(null, i) | round(i)
round(l, 2) | round(i, -2) | round(l, -3) | bround(i, -1) | round(t, -2) | round(m) | round(m, 1) | bround(m, 1)
round(m2, 2) | bround(m2, 2) | round(m, -2) | round(small, 3) | bround(small, 7) | round(m, 5) | round(w, 1)
round(m, -10) | round(i, -15) | floor(m) | ceil(m) | floor(small) | ceil(m2) | ceil(w) | signum(d) | sign(i) | rint(d)
nanvl(d, d2) | nanvl(d, 0) | nanvl(d, 1 / d2) | i & i2 | i|i2 | i ^ i2 | ~i | l & l2 | ~l | t & t | ~t | s ^ s
l & 255 | shiftleft(i, 3) | shiftleft(i, i2) | shiftleft(l, 40) | shiftright(l, 7) | shiftright(i, i2)
shiftrightunsigned(i, 3) | shiftrightunsigned(l, i) | i << 2 | l >> 3 | l >>> 1 | bit_count(i) | bit_count(l)
bit_count(b) | bit_count(t) | m / m2 | m / 3 | m2 / m | m % m2 | m2 % m | pmod(m, m2) | pmod(m2, 3) | w / m | g / g2
g % g2 | small / m2 | m % 7 | small / g | g / small | i / m | cast(m as int) | cast(m as long) | cast(m2 as int)
cast(m as tinyint) | cast(g as int) | cast(g as long) | cast(w as long) | cast(small as int) | cast(m as string)
cast(small as string) | cast(g as string) | cast(m2 as string) | cast(m as decimal(8, 1)) | cast(m2 as decimal(5, 2))
cast(g as decimal(12, 2)) | cast(w as decimal(10, 0)) | try_cast(m as decimal(4, 1)) | cast(i as decimal(5, 1))
cast(l as decimal(10, 2)) | try_cast(l as decimal(10, 0)) | cast(m as boolean) | cast(d as boolean)
cast(f as boolean) | cast(day as string) | cast(at as string) | cast(near as string)
cast(date_add(day, 1000000000) as string) | cast(date_sub(day, 1000000) as string)
cast(timestamp_micros(l) as string) | cast(timestamp_seconds(i) as string) | cast(i as timestamp)
cast(l as timestamp) | cast(at as timestamp_ntz) | cast(near as timestamp) | cast(written as date)
try_cast(written as date) | to_date(written) | cast(n as date) | date(digits) | cast(written as decimal(12, 2))
try_cast(written as decimal(12, 2)) | cast(digits as decimal(10, 0)) | try_cast(digits as decimal(38, 10))
try_cast(written as decimal(5, 5)) | try_cast(m as int) | try_cast(g as long) | concat(at, '') | day || n
n rlike 'a' | line rlike '^a' | line rlike 'a$' | line rlike '^a.$' | line rlike '^[a-z]+[0-9]*$' | line rlike '\\d+'
line rlike '^\\w+$' | line rlike '\\s' | line rlike '^\\S+' | line rlike '(ab)+' | line rlike '(ab)*$'
line rlike 'a|b1' | line rlike '^(?:a|日).*' | line rlike '[^a]' | line rlike '^.{2,3}$' | line rlike '\\.'
line rlike '[a-c.+-]b' | line rlike '.' | line rlike '^$' | line rlike 'a.*?b' | line rlike '\\D\\W'
line rlike '[\\w.]+@[\\w.]+\\.org$' | line rlike '' | line rlike 'a{0}b' | line rlike '^[^/]+://[^/]+/'
line rlike 'x=|^日' | line rlike '[😀é]' | line rlike '^a$|^b' | line rlike '_' | line rlike 'a\\+b'
line rlike '[\\s_]' | regexp_extract(line, '(\\d+)', 1) | regexp_extract(line, '([a-z]+)-(\\d+):(\\w+)', 3)
regexp_extract(line, 'a(b)?', 1) | regexp_extract(line, '[a-z]+', 0) | regexp_extract(line, 'a*', 0)
regexp_extract(line, '(a|ab)(.*)', 2) | regexp_extract(line, '(a+?)(.*)$', 1) | regexp_extract(line, '^(.*?)=', 1)
regexp_extract(line, '://([^/]+)/', 1) | regexp_extract(line, '(.)', 1) | regexp_replace(line, '[0-9]+', '#')
regexp_replace(line, 'a', '') | regexp_replace(line, '\\s+', ' ') | regexp_replace(line, '^a', 'X')
regexp_replace(line, '[^a-z]', '') | regexp_replace(line, '.', '-') | regexp_replace(line, 'a+?', 'bb')
regexp_replace(line, '(a|ab)b?', '<>') | line not rlike 'a' | concat_ws('-', n, n2) | concat_ws(',', n, digits, 'x')
concat_ws('', n) | concat_ws('|', n, i) | concat_ws('-') | lpad(n, 3, '*') | rpad(n, 5, 'ab') | lpad(n, 0, 'x')
lpad(n, 4) | rpad(n, 6) | lpad(n, 4, '') | lpad(n, -1, 'x') | rpad(n, 4, '日') | lpad(cast(i as string), 8, '0')
lpad(n, 7, '日本') | repeat(n, 3) | repeat(n, 0) | repeat(n, -1) | reverse(n) | instr(n, 'b') | instr(n, '')
locate('a', n) | position('語' in n) | instr(n, 'x') | translate(n, 'abc', 'x') | translate(n, 'aab', 'xyz')
translate(n, '日ß', 'ns') | translate(n, '', 'x') | substring_index(n, ',', 1) | substring_index(n, ',', -1)
substring_index(n, ',', 2) | substring_index(n, ',', -2) | substring_index(n, '', 1) | substring_index(line, '.', 1)
substring_index(n, ',', 0) | array_contains(ai, 5) | array_contains(ai, i) | array_contains(a, 'x')
array_contains(ad, d) | array_contains(ad, 0.0D) | array_contains(a, n) | array_contains(ad, double('nan'))
element_at(ai, 1) | element_at(a, -1) | element_at(ai, 3) | try_element_at(ai, 2) | try_element_at(a, -2) | get(ai, 1)
get(a, 5) | get(ai, -1) | element_at(mp, 'x') | mp['x'] | mp['日'] | mp['none'] | mi[1] | element_at(mi, 2)
mp['x'] + i | try_element_at(mp, 'y') | size(mp) | size(mi) | cardinality(a) | array_join(a, ',')
sequence(1, i % 5) | sequence(1, cast(l % 7 as int)) | sequence(i % 3, 2L) | sequence(l % 4, i % 4)
array_join(a, '-', '?') | array_join(array(n, n2), '') | array_join(split(n, ','), ';') | trunc(day, 'month')
trunc(day, 'YEAR') | trunc(day, 'week') | trunc(day, 'quarter') | trunc(day, 'MM') | trunc(at, 'mon') | last_day(day)
add_months(day, 1) | add_months(day, -13) | add_months(day, i) | add_months(day, t) | make_date(2024, 2, 29)
make_date(i, 1, 1) | make_date(year(day), month(day2), day(day)) | make_date(s, t, 5) | day + interval 1 month
day - interval 1 year | at + interval 1 month | at - interval '1-3' year to month | near + interval 2 month
timestampdiff(SECOND, at, at2) | timestampdiff(MINUTE, at2, at) | timestampdiff(HOUR, at, at2)
timestampdiff(DAY, at, at2) | timestampdiff(WEEK, at, at2) | timestampdiff(MILLISECOND, at, at2)
timestampdiff(MICROSECOND, at, at2) | datediff(DAY, day, day2) | timestampdiff(MICROSECOND, timestamp_micros(l), at)
timestampadd(HOUR, 3, at) | timestampadd(DAY, -5, at) | timestampadd(WEEK, 1, near) | dateadd(MINUTE, 90, at)
unix_timestamp(at) | to_unix_timestamp(at) | unix_timestamp(day) | unix_timestamp(near) | weekday(day) | weekday(at)
unix_date(day) | date_from_unix_date(i) | timestamp_micros(l) - interval 1 month | if(isnan(d), null, d)
case when b then struct(i, n) end | case when b then struct(i, n) else struct(i2 as i, n2 as n) end | if(b, st, st2)
if(b, st, null) | coalesce(st, st2) | case when i > 0 then array(i) end | coalesce(ai, array(1)) | if(b, a, null)
cast(cast(i as double) as double) | if(b, mp, null) | case when i > 0 then named_struct('x', st, 'y', ai) end
struct(1, 'x') | case when b then struct(at, m, d, b) when b2 then struct(at2 as at, m, d2 as d, b2 as b) end
cast(if(isnan(d), null, d) as double) | coalesce(m, 0) | if(b, y, null) | if(b, day, day2)
case when b then i / i2 end | struct(i / i2 as q) | isnotnull(st)
cast(small as decimal(4, 3)) | cast(m as decimal(20, 1)) | pmod(g, g2) | pmod(w, m2) | m * 1.0 / 3
regexp_extract(line, '(a*)?', 1) | regexp_extract(line, 'x|(a)', 1) | line rlike '[-a]' | line rlike '[a-]'
line rlike '#| ' | trim(n) rlike '^[a-z]+$' | date_format(at, 'yyyy-MM-dd') | date_format(at, 'HH:mm')
date_format(near, 'yyyy.MM.dd HH:mm:ss,SSS') | date_format(day, 'dd/MM/yyyy')
regexp_extract(line, '(=|^)([^&]*)', 2) | line rlike '(b|^)a' | line rlike '(?:^a|b)c?$' | line rlike '[&=]'
regexp_replace(line, '(^|b)a', 'X') | date_format(at, "yyyy-MM-dd'T'HH") | date_format(at, ' - ')
day - interval '90' day | day + interval 3 days | date'1998-12-01' - interval '90' day | at - interval '3' day
day < date'1993-07-01' + interval '3' month | day - interval '2' year | at + interval 2 hours | extract(year from day)
extract(month from at) | extract(hour from at) | extract(quarter from day) | m * (1 + m2) * (1 - w) * m
g * g2 | g + g2 | g - g2 | g * m | w * m * m2 | cast(g as decimal(38, 2)) * 0.5 | g * cast(m as decimal(38, 20))
m < 1 + 10 | m * (2 + 3) | m + (1 + 1) | cast(g as decimal(38, 0)) * cast(g2 as decimal(38, 0)) | m between 1 and 1 + 7
cast(m as decimal(36, 2)) > cast(g as decimal(38, 5)) | g > cast(m as decimal(38, 0)) | if(b, m, 0) | if(b, m, i)
coalesce(g, l) | case when b then m2 else 1 end | m in (1, 2, 3) | greatest(m, i) | if(b, g, cast(m as decimal(38, 2)))
"""
EXPRESSIONS = [one.strip() for line in TRANSLATED.strip().splitlines() for one in line.split(" | ")]


Found = dict[str, Evaluated]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


@pytest.fixture(scope="module")
def batch(frame: DataFrame) -> pa.RecordBatch:
    return rows(ROWS, 7, arrow_schema(frame.schema))


def translated(frame: DataFrame, text: str) -> Expression:
    analysed = frame.selectExpr(f"{text} as result")._jdf.queryExecution().analyzed()
    given = {int(one.exprId().id()): str(one.name()) for one in sequence(analysed.child().output())}
    return Reader(given).read(analysed.expressions().apply(0))


@pytest.fixture(scope="module")
def ours(frame: DataFrame, batch: pa.RecordBatch) -> Found:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return {text: evaluate_column(translated(frame, text), columns, ROWS) for text in EXPRESSIONS}


@pytest.fixture(scope="module")
def whole(spark: SparkSession, frame: DataFrame, batch: pa.RecordBatch, ours: Found) -> dict[str, pa.Array]:
    """What Spark makes of the expressions that fail for no row: many in one query, which takes as long as one."""
    texts = [text for text, found in ours.items() if found.errors is None]
    schema = arrow_schema(frame.schema)
    found: dict[str, pa.Array] = {}
    for several in (texts[begin : begin + AT_ONCE] for begin in range(0, len(texts), AT_ONCE)):
        columns = by_spark(spark, batch, schema, *several).columns
        found |= {text: column.combine_chunks() for text, column in zip(several, columns, strict=True)}
    return found


def by_spark(spark: SparkSession, batch: pa.RecordBatch, schema: pa.Schema, *texts: str) -> pa.Table:
    given = spark.createDataFrame(pa.Table.from_batches([batch]), spark_schema(schema))
    return given.selectExpr(*(f"{text} as result{place}" for place, text in enumerate(texts))).toArrow()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_translated_expression_is_what_spark_makes_of_it(
    spark: SparkSession, batch: pa.RecordBatch, ours: Found, whole: dict[str, pa.Array], text: str
) -> None:
    found = ours[text]
    failed = pa.array([False] * ROWS) if found.errors is None else pc.is_valid(found.errors)
    good = batch.filter(pc.invert(failed))
    expected = whole[text] if text in whole else by_spark(spark, good, batch.schema, text)[0].combine_chunks()
    values = found.values.filter(pc.invert(failed)).cast(expected.type)
    same = equal(values, expected) & (negative_zeros(values) == negative_zeros(expected))
    assert same.all(), [
        (good.slice(number, 1).to_pylist(), values[number], expected[number])
        for number in (~same).nonzero()[0][:3].tolist()
    ]
    for row in some_of(batch.filter(failed)):
        with pytest.raises(PySparkException):
            by_spark(spark, row, batch.schema, text)


def negative_zeros(column: pa.Array) -> Mask:
    """0.0 equals −0.0, and yet is not the same."""
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), np.bool_)
    numbers = pc.fill_null(column, 1).to_numpy(zero_copy_only=False)
    return np.asarray((numbers == 0) & np.signbit(numbers))


def some_of(failed: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (failed.slice(number, 1) for number in range(0, failed.num_rows, max(1, failed.num_rows // 2)))


LEFT_TO_SPARK = r"""
rand() | current_timestamp() | round(d, 2) | cast(d as string) | uuid() | transform(ai, x -> x + 1) | try_add(i, i2)
n like n2 | n rlike n2 | n rlike '(?i)a' | n rlike '\\ba' | n rlike 'a*+' | n rlike '[a&&b]' | n rlike '[[a]b]'
n rlike '(a)\\1' | n rlike '[^a]$' | n rlike '\\p{L}' | n rlike '(?=a)' | n rlike 'a{2000}' | n rlike '\\n'
n rlike '(^a)*' | n rlike 'a(^b)?' | n rlike '[a&&]'
n rlike 'a$b' | n rlike '\\Aa' | regexp_extract(n, '(a*)*', 1) | regexp_extract(n, 'a$', 0)
regexp_replace(n, 'a*', '-') | regexp_replace(n, 'a', '$0') | regexp_replace(n, 'a$', '') | cast(n as timestamp)
cast(d as decimal(10, 2)) | cast(m as float) | exp(d) | pow(d, 2) | ln(d) | sin(d) | initcap(n)
date_format(at, 'MMM') | date_format(at, 'yy') | months_between(at, at2)
timestampdiff(MONTH, at, at2) | get_json_object(n, '$.a')
at - at2 | trunc(day, 'day') | lpad(y, 3, x'00') | reverse(a) | mp[n] | element_at(ai, i) | from_unixtime(l)
m div m2 | substring_index(n, 'ab', 1) | round(g, 2) | array_contains(array(a), a)
n rlike '^\\s*$' | concat_ws(n, n2) | date_add(day, i)
"""
UNTRANSLATABLE = [one.strip() for line in LEFT_TO_SPARK.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("text", UNTRANSLATABLE)
def test_what_has_no_translation_is_left_to_spark(frame: DataFrame, text: str) -> None:
    with pytest.raises(Untranslatable):
        translated(frame, text)

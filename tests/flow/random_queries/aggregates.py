"""Random aggregates, and how PostgreSQL says them."""

from random import Random

from tests.flow.random_queries.expressions import Text, Value, expression, predicate, said
from tests.flow.random_queries.schemas import BOOL, DECIMAL, INT, KINDS, REAL, TEXT, TIME

APPROXIMATE = "approximate"
"""A number that is compared with a tolerance, and that nothing else is computed of."""
LIST = "list"
NUMBERS = (INT, DECIMAL, REAL)
NO_ORDER = (BOOL,)


def random_aggregate(random: Random, columns: list[Value], *, approximate: bool, of_facts: bool = False) -> Value:
    """`approximate`: it may also be one that is not exact, or a list. `of_facts`: rows are in the order in which they
    came, which decides between equal ones."""
    given = random.choice(columns)
    one = expression(random, columns, given.kind) or given
    made = _aggregate(random, one, [] if of_facts else columns, approximate=approximate)
    if random.random() < 0.2 and made.kind in KINDS and "FILTER" not in made.text.postgres:
        condition = predicate(random, columns, 1)
        return Value(said("{} FILTER (WHERE {})", made.text, condition), made.kind)
    return made


def _aggregate(random: Random, one: Value, columns: list[Value], *, approximate: bool) -> Value:
    if len(columns) > 1 and random.random() < 0.1:
        return _of_pairs(random, columns)
    ways = [("count({})", INT), ("count(*)", INT), ("count(DISTINCT {})", INT)]
    if one.kind not in NO_ORDER:
        ways += [("min({})", one.kind), ("max({})", one.kind)] * 2
    if one.kind in NUMBERS:
        ways += [("sum({})", one.kind)] * 3
    if one.kind == BOOL:
        ways += [("bool_and({})", BOOL), ("bool_or({})", BOOL)]
    if approximate and random.random() < 0.6:
        return _of_top(random, one, columns)
    text, kind = random.choice(ways)
    return Value(said(text, one.text), kind)


def _of_pairs(random: Random, columns: list[Value]) -> Value:
    """Rows in which one is null are not counted."""
    one, other = (each.text for each in random.sample(columns, 2))
    pairs = "count(DISTINCT ({0}, {1})) FILTER (WHERE {0} IS NOT NULL AND {1} IS NOT NULL)"
    return Value(said("count(DISTINCT {0}, {1})", one, other, postgres=pairs), INT)


def _of_top(random: Random, one: Value, columns: list[Value]) -> Value:
    lists = [("collect_list({0})", "coalesce(array_agg({0}) FILTER (WHERE {0} IS NOT NULL), '{{}}')", LIST)]
    lists += [("collect_set({0})", "coalesce(array_agg(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL), '{{}}')", LIST)]
    if one.kind == BOOL:
        return _said(lists[1], one.text)
    if one.kind in NUMBERS and random.random() < 0.75:
        names = ("avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
        ways = [(f"{name}({{0}})", f"{name}(({{0}})::float8)", APPROXIMATE) for name in names]
        ways += [("count_if({0} > 1)", "count(*) FILTER (WHERE {0} > 1)", INT)]
        ways += [
            (spark.format("{0}"), f"{way}({rank}) WITHIN GROUP (ORDER BY ({{0}})::float8)", APPROXIMATE)
            for rank in (0, 0.3, 0.5, 1)
            for way, spark in (
                ("percentile_cont", f"percentile({{}}, {rank})"),
                ("percentile_cont", f"percentile_cont({rank}) WITHIN GROUP (ORDER BY {{}})"),
                ("percentile_disc", f"percentile_disc({rank}) WITHIN GROUP (ORDER BY {{}})"),
            )
        ] * (random.random() < 0.5)
        return _said(random.choice(ways), one.text)
    ordered = [each for each in columns if each.kind in (INT, TEXT, TIME, DECIMAL)]
    if ordered and random.random() < 0.5:
        by = random.choice(ordered).text
        one = next(each for each in columns if each.kind == one.kind)
        highest = random.random() < 0.5
        way = "DESC NULLS LAST" if highest else "ASC NULLS FIRST"
        postgres = f"(array_agg({{0}} ORDER BY {{1}} {way}, {{0}} {way}) FILTER (WHERE {{1}} IS NOT NULL))[1]"
        return Value(said(f"{'max' if highest else 'min'}_by({{0}}, {{1}})", one.text, by, postgres=postgres), one.kind)
    return _said(random.choice(lists), one.text)


def _said(way: tuple[str, str, str], one: Text) -> Value:
    return Value(said(way[0], one, postgres=way[1]), way[2])

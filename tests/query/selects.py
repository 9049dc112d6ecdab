"""Statements over the views of shops.py, and what they answer. test_oracle.py asks Spark the same."""

from decimal import Decimal
from typing import Any

from tests.query.shops import START

RANKED = "SELECT country, row_number() OVER (ORDER BY amount DESC) AS place FROM revenue"
CTE = "WITH many AS (SELECT * FROM revenue WHERE orders > 1) SELECT country FROM many"

SELECTS: dict[str, list[tuple[Any, ...]]] = {
    "SELECT country, amount FROM revenue WHERE orders > 2 ORDER BY amount": [
        ("DE", Decimal("12.50")), ("IT", Decimal("100.10")),
    ],
    "SELECT userid + 1 FROM Revenue WHERE COUNTRY = 'DE'": [(31,)],
    "SELECT country FROM shop.revenue WHERE shop.revenue.orders BETWEEN 2 AND 3 ORDER BY country DESC": [
        ("FR",), ("DE",),
    ],
    "SELECT country FROM revenue ORDER BY country": [(None,), ("DE",), ("FR",), ("IT",)],
    "SELECT country FROM revenue ORDER BY country DESC": [("IT",), ("FR",), ("DE",), (None,)],
    "SELECT count(*) FROM revenue": [(4,)],
    "SELECT sum(orders), sum(amount), count_if(open) FROM revenue": [(15, Decimal("120.60"), 2)],
    "SELECT sum(orders) FILTER (WHERE open), sum(DISTINCT orders), avg(orders), max(country) FROM revenue": [
        (12, 15, 3.75, "IT"),
    ],
    "SELECT window.start, hour(window.end), unix_timestamp(window.start) FROM revenue LIMIT 1": [
        (START, 0, 1767225600),
    ],
    "SELECT country, explode(tags) AS tag FROM revenue WHERE country = 'FR' ORDER BY tag": [("FR", "a"), ("FR", "b")],
    "SELECT country, tag FROM revenue LATERAL VIEW explode(tags) t AS tag WHERE orders = 2 ORDER BY tag": [
        ("FR", "a"), ("FR", "b"),
    ],
    "SELECT counts['k'], tags[0], size(tags), element_at(counts, 'k') FROM revenue WHERE country = 'FR'": [
        (2, "a", 2, 2),
    ],
    "SELECT u.id, r.amount FROM users u LEFT JOIN revenue r ON r.country = u.country AND r.orders > 2 ORDER BY 1": [
        (1, Decimal("12.50")), (2, None),
    ],
    f"{CTE} JOIN users USING (country) ORDER BY 1": [("DE",), ("FR",)],
    "SELECT country FROM revenue WHERE country NOT IN (SELECT country FROM users) ORDER BY 1": [("IT",)],
    "SELECT country FROM revenue r LEFT ANTI JOIN users u ON r.country <=> u.country ORDER BY 1": [(None,), ("IT",)],
    "SELECT country FROM users EXCEPT SELECT country FROM revenue WHERE orders = 3": [("FR",)],
    "SELECT id FROM users WHERE EXISTS (SELECT 1 FROM revenue r WHERE r.country = users.country AND orders = 2)": [
        (2,),
    ],
    f"SELECT * FROM ({RANKED}) WHERE place <= 2 ORDER BY place": [("IT", 1), ("DE", 2)],
    "SELECT date_format(window.start, 'yyyy-MM-dd'), day FROM revenue LIMIT 1": [("2026-01-01", START.date())],
    "SELECT a.country, b.country AS other FROM revenue a, revenue b WHERE a.orders = 1 AND b.orders = 9": [
        (None, "IT"),
    ],
    "SELECT CASE WHEN orders > 2 THEN 'many' ELSE 'few' END AS said, count(*) FROM revenue GROUP BY 1 ORDER BY 1": [
        ("few", 2), ("many", 2),
    ],
    "SELECT upper(concat(country, '-', orders)), substring(country, 1, 1) FROM revenue WHERE orders = 9": [
        ("IT-9", "I"),
    ],
    "SELECT country, lag(orders) OVER (ORDER BY orders) FROM revenue ORDER BY orders": [
        (None, None), ("FR", 1), ("DE", 2), ("IT", 3),
    ],
    "SELECT coalesce(country, 'none'), nvl(country, '-'), if(open, 1, 0) FROM revenue WHERE country IS NULL": [
        ("none", "-", 0),
    ],
    "SELECT orders / 2, orders % 2, orders DIV 2, round(share, 1) FROM revenue WHERE orders = 3": [(1.5, 1, 1, 0.8)],
    "SELECT date_trunc('HOUR', window.end), window.end - INTERVAL 5 MINUTES FROM revenue LIMIT 1": [(START, START)],
    "SELECT country FROM revenue WHERE country LIKE 'D%' OR country RLIKE '^I'": [("DE",), ("IT",)],
    "SELECT sort_array(collect_set(country)), array_contains(collect_list(orders), 9L) FROM revenue": [
        (["DE", "FR", "IT"], True),
    ],
    "SELECT orders, sum(amount) FROM revenue GROUP BY ROLLUP (orders) ORDER BY 1 LIMIT 1": [(None, Decimal("120.60"))],
    "SELECT open, count(DISTINCT country) FROM revenue GROUP BY open HAVING count(*) > 1 ORDER BY open": [
        (False, 1), (True, 2),
    ],
    "SELECT (SELECT max(orders) FROM revenue) - min(id) FROM users": [(8,)],
    "SELECT max_by(revenue.country, amount), first(day), stddev_pop(id) FROM revenue CROSS JOIN users": [
        ("IT", START.date(), 0.5),
    ],
    "SELECT 1 + 1": [(2,)],
}  # fmt: skip

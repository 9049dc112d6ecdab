"""Queries over the shop of shops.py, each with what DuckDB is asked where its words are others."""

from typing import NamedTuple


class Asked(NamedTuple):
    ours: str
    theirs: str = ""
    key: str = ""
    """What CREATE MATERIALIZED VIEW says of its key."""

    @property
    def batch(self) -> str:
        return self.theirs or self.ours


GROUPS = [
    Asked("SELECT country, count(*) AS many, max(age) AS m FROM users GROUP BY country HAVING many > 1 OR m > 30"),
    Asked("SELECT country, count(*) AS n, sum(age) AS s, min(age) AS lo, max(age) AS hi FROM users GROUP BY country"),
    Asked("SELECT count(*) AS n, sum(price) AS s, avg(price) AS m FROM items"),
    Asked("SELECT upper(tag) AS t, count(*) AS n FROM items WHERE tag LIKE '%x' GROUP BY upper(tag)"),
    Asked(
        "SELECT user_id, sum(n) FILTER (WHERE amount > 3) AS s, count(amount) AS c, avg(n) AS m FROM orders "
        "GROUP BY user_id"
    ),
    Asked(
        "SELECT owner, max(price) - min(price) AS spread, count(*) * 2 AS d FROM items GROUP BY owner "
        "HAVING count(*) >= 2"
    ),
    Asked("SELECT user_id, page, count(*) AS n FROM clicks GROUP BY 1, 2"),
    Asked("SELECT DISTINCT country, age FROM users"),
    Asked("SELECT DISTINCT n FROM orders"),
    Asked("SELECT count(*) AS n FROM (SELECT DISTINCT country FROM users)"),
    Asked(
        "SELECT country, count(DISTINCT user_id) AS buyers, sum(n) AS n FROM orders JOIN users "
        "ON users.id = orders.user_id GROUP BY country HAVING sum(n) > 3"
    ),
    Asked(
        "SELECT id, CASE WHEN age > 25 THEN 'old' WHEN age IS NULL THEN 'unknown' ELSE 'young' END AS class, "
        "coalesce(country, '?') AS c FROM users"
    ),
    Asked("SELECT item, tag FROM items WHERE tag = 'it''s'"),
]
JOINS = [
    Asked("SELECT i.item, u.id, country, price FROM items i LEFT JOIN users u ON u.id = i.owner"),
    Asked("SELECT u.id, i.item FROM items i RIGHT JOIN users u ON u.id = i.owner AND i.price > 1"),
    Asked("SELECT coalesce(i.owner, u.id) AS owner, i.item, country FROM items i FULL JOIN users u ON u.id = i.owner"),
    Asked("SELECT id, country, tag FROM users FULL JOIN bans USING (id)"),
    Asked("SELECT id, u.id AS u_id, b.id AS b_id FROM users u FULL JOIN bans b USING (id)"),
    Asked("SELECT * FROM users RIGHT JOIN bans USING (id)"),
    Asked(
        "SELECT id, a.country, b.tag, c.user_id FROM users a FULL JOIN bans b USING (id) FULL JOIN bans c USING (id)"
    ),
    Asked(
        "SELECT u.id, b.id AS ban, i.item FROM users u LEFT JOIN bans b ON b.user_id = u.id "
        "LEFT JOIN items i ON i.owner = u.id"
    ),
    Asked("SELECT u.*, b.tag FROM users u JOIN bans b USING (id)"),
    Asked(
        "SELECT x.country, x.n, y.total FROM (SELECT country, count(*) AS n FROM users GROUP BY country) x "
        "CROSS JOIN (SELECT count(*) AS total FROM users) y"
    ),
    Asked("SELECT a.id, b.id AS other FROM users a JOIN users b ON a.country = b.country AND a.id < b.id"),
    Asked("SELECT a.id AS a, b.id AS b FROM users a CROSS JOIN users b WHERE a.age < b.age"),
    Asked("SELECT i.item, i.tag, b.id FROM items i JOIN bans b ON b.tag = i.tag AND b.user_id <> i.owner"),
    Asked("SELECT o.id, o.n, u.country FROM orders o LEFT JOIN users u ON u.id = o.user_id", key="KEY (id)"),
    Asked(
        "SELECT country, count(*) AS n, sum(amount) AS spent FROM orders, users "
        "WHERE user_id = users.id AND amount > 1 GROUP BY country"
    ),
    Asked(
        "WITH rich AS (SELECT owner, sum(price) AS s FROM items GROUP BY owner), "
        "top AS (SELECT * FROM rich WHERE s > 5) SELECT u.id, country, s FROM users u JOIN top ON top.owner = u.id"
    ),
]
QUERIES_WITHIN = [
    Asked(
        "SELECT o.user_id, count(*) AS n FROM orders o LEFT ANTI JOIN users u ON u.id = o.user_id WHERE o.n > 1 "
        "GROUP BY o.user_id",
        "SELECT o.user_id, count(*) AS n FROM orders o ANTI JOIN users u ON u.id = o.user_id WHERE o.n > 1 "
        "GROUP BY o.user_id",
    ),
    Asked(
        "SELECT id, country FROM users LEFT SEMI JOIN items ON items.owner = users.id AND price > 1",
        "SELECT id, country FROM users SEMI JOIN items ON items.owner = users.id AND price > 1",
    ),
    Asked(
        "SELECT u.id FROM users u WHERE 2 > (SELECT count(*) FROM bans b WHERE b.user_id = u.id) "
        "AND EXISTS (SELECT 1 FROM items)"
    ),
    Asked("SELECT u.id, age FROM users u WHERE age > (SELECT avg(price) FROM items i WHERE i.owner = u.id)"),
    Asked("SELECT id, country FROM users WHERE id IN (SELECT user_id FROM bans WHERE tag IS NOT NULL)"),
    Asked("SELECT id, country FROM users WHERE id NOT IN (SELECT user_id FROM bans WHERE tag = 'ax')"),
    Asked("SELECT item FROM items WHERE owner NOT IN (SELECT id FROM users WHERE age > 20)"),
    Asked("SELECT item FROM items i WHERE owner NOT IN (SELECT user_id FROM bans b WHERE b.tag = i.tag)"),
    Asked("SELECT id FROM users WHERE NOT (id IN (SELECT owner FROM items))"),
    Asked("SELECT id, tag FROM bans WHERE (user_id, tag) IN (SELECT owner, tag FROM items)"),
    Asked("SELECT id, age FROM users WHERE EXISTS (SELECT 1 FROM items WHERE owner = users.id AND price > 1)"),
    Asked("SELECT id FROM users u WHERE NOT EXISTS (SELECT * FROM items i WHERE i.owner = u.id AND i.price < u.age)"),
    Asked(
        "SELECT id FROM users WHERE id IN (SELECT owner FROM items WHERE price IN (SELECT price FROM items "
        "WHERE tag = 'ax'))"
    ),
    Asked("SELECT id, age, (SELECT count(*) FROM items WHERE owner = users.id) AS n FROM users"),
    Asked("SELECT id, age FROM users WHERE age > (SELECT avg(age) FROM users)"),
    Asked("SELECT id FROM users WHERE age = (SELECT max(age) FROM users u2 WHERE u2.country = users.country)"),
    Asked("SELECT country, (SELECT count(*) FROM items) AS items, count(*) AS n FROM users GROUP BY country"),
    Asked("SELECT owner, sum(price) AS s FROM items GROUP BY owner HAVING sum(price) > (SELECT avg(price) FROM items)"),
]
SETS = [
    Asked("SELECT id FROM users EXCEPT SELECT user_id FROM orders WHERE n > 1"),
    Asked("SELECT user_id FROM orders INTERSECT SELECT id FROM users"),
    Asked("SELECT user_id FROM orders WHERE n > 1 UNION SELECT id FROM users"),
    Asked("SELECT user_id FROM orders WHERE n > 1 UNION SELECT user_id FROM clicks WHERE page = 'ax'"),
    Asked(
        "SELECT id, count(*) AS n FROM (SELECT user_id AS id FROM orders UNION ALL SELECT id FROM users) GROUP BY id",
    ),
    Asked("SELECT id, CAST(NULL AS STRING) AS x FROM users UNION SELECT id, country FROM users"),
    Asked("SELECT tag FROM items UNION SELECT tag FROM bans"),
    Asked("SELECT tag FROM items INTERSECT SELECT tag FROM bans"),
    Asked("SELECT tag FROM items EXCEPT SELECT tag FROM bans"),
    Asked("SELECT id, country FROM users EXCEPT SELECT id, tag FROM bans"),
    Asked(
        "SELECT country FROM users WHERE age > 20 UNION SELECT tag FROM items UNION SELECT tag FROM bans WHERE id < 5"
    ),
    Asked("SELECT tag, count(*) AS n FROM (SELECT tag FROM items UNION ALL SELECT tag FROM bans) GROUP BY tag"),
    Asked(
        "SELECT tag, count(*) AS n FROM (SELECT tag FROM items WHERE price > 1 UNION ALL SELECT tag FROM bans) "
        "WHERE tag LIKE 'a%' GROUP BY tag"
    ),
    Asked("SELECT tag, count(*) AS n FROM (SELECT tag FROM items INTERSECT ALL SELECT tag FROM bans) GROUP BY tag"),
    Asked("SELECT tag, count(*) AS n FROM (SELECT tag FROM items EXCEPT ALL SELECT tag FROM bans) GROUP BY tag"),
]
RANKS = [
    Asked(
        "SELECT `order`, place, id FROM (SELECT country AS `order`, id, row_number() OVER (PARTITION BY country "
        "ORDER BY id DESC) AS place FROM users) WHERE place <= 2",
        'SELECT "order", place, id FROM (SELECT country AS "order", id, row_number() OVER (PARTITION BY country '
        "ORDER BY id DESC) AS place FROM users) WHERE place <= 2",
    ),
    Asked(
        "SELECT `order`, place, tag FROM (SELECT tag, user_id AS `order`, row_number() OVER (PARTITION BY user_id "
        "ORDER BY tag DESC NULLS LAST, id) AS place FROM bans) WHERE place <= 2",
        'SELECT "order", place, tag FROM (SELECT tag, user_id AS "order", row_number() OVER (PARTITION BY user_id '
        "ORDER BY tag DESC NULLS LAST, id) AS place FROM bans) WHERE place <= 2",
    ),
    Asked(
        "SELECT n, user_id, count(*) AS c, row_number() OVER (PARTITION BY n ORDER BY count(*) DESC, user_id) AS place "
        "FROM orders GROUP BY n, user_id QUALIFY place <= 2",
    ),
    Asked(
        "SELECT n, place, id, amount FROM (SELECT *, row_number() OVER (PARTITION BY n ORDER BY amount DESC NULLS "
        "LAST, id) AS place FROM orders) WHERE place <= 3"
    ),
    Asked(
        "SELECT place, country, age FROM (SELECT country, age, row_number() OVER (PARTITION BY country "
        "ORDER BY age NULLS LAST, id) AS place FROM users) WHERE place < 3"
    ),
    Asked(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY country ORDER BY age DESC NULLS LAST, id) AS place "
        "FROM users) WHERE place <= 2"
    ),
    Asked(
        "SELECT * FROM (SELECT id, country, rank() OVER (PARTITION BY country ORDER BY age NULLS FIRST) AS r "
        "FROM users) WHERE r <= 1"
    ),
    Asked(
        "SELECT item, owner, dr FROM (SELECT item, owner, dense_rank() OVER (ORDER BY price DESC NULLS LAST) AS dr "
        "FROM items) WHERE dr < 3"
    ),
    Asked("SELECT id, age, rank() OVER (ORDER BY age NULLS FIRST) AS r FROM users QUALIFY r <= 2"),
    Asked("SELECT id, country FROM users ORDER BY age DESC NULLS LAST, id LIMIT 3"),
    Asked(
        "SELECT country, n FROM (SELECT country, count(*) AS n FROM users GROUP BY country) "
        "ORDER BY n DESC, country NULLS FIRST LIMIT 2"
    ),
    Asked(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY ts DESC) AS place FROM orders) "
        "WHERE place = 1",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY ts DESC, id DESC) AS place "
        "FROM orders) WHERE place = 1",
        "KEY (user_id)",
    ),
]
TEN = "time_bucket(INTERVAL '10 minutes', ts)"
IN_TIME = [
    Asked(
        "SELECT country, window_start, window_end, sum(o.n) AS s FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '10' "
        "MINUTES) o JOIN users u ON u.id = o.user_id GROUP BY window_start, window_end, country",
        f"SELECT country, {TEN} AS window_start, {TEN} + INTERVAL '10 minutes' AS window_end, sum(o.n) AS s "
        "FROM orders o JOIN users u ON u.id = o.user_id GROUP BY ALL",
    ),
    Asked(
        "SELECT c.page, window_start, window_end, count(*) AS n FROM (SELECT o.ts AS ts, c.page FROM orders o "
        "JOIN clicks c ON c.user_id = o.user_id AND c.ts BETWEEN o.ts - INTERVAL '5' MINUTES AND o.ts) c "
        "GROUP BY c.page, window(ts, '10 minutes')",
        f"SELECT page, {TEN} AS window_start, {TEN} + INTERVAL '10 minutes' AS window_end, count(*) AS n FROM (SELECT "
        "o.ts AS ts, c.page FROM orders o JOIN clicks c ON c.user_id = o.user_id AND c.ts BETWEEN o.ts - "
        "INTERVAL '5' MINUTES AND o.ts) c GROUP BY ALL",
    ),
    Asked(
        "SELECT o.id, c.id AS click FROM orders o FULL JOIN clicks c ON c.user_id = o.user_id AND c.ts BETWEEN "
        "o.ts - INTERVAL '2' MINUTES AND o.ts + INTERVAL '2' MINUTES",
        key="KEY (id, click)",
    ),
    Asked(
        "SELECT window_start, window_end, user_id, count(*) AS n, sum(amount) AS s "
        "FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES) GROUP BY window_start, window_end, user_id",
        f"SELECT {TEN} AS window_start, {TEN} + INTERVAL '10 minutes' AS window_end, user_id, count(*) AS n, "
        "sum(amount) AS s FROM orders GROUP BY ALL",
    ),
    Asked(
        "SELECT window.start AS begin_at, window.end AS end_at, count(n) AS n FROM orders "
        "GROUP BY window(ts, '10 minutes')",
        f"SELECT {TEN} AS begin_at, {TEN} + INTERVAL '10 minutes' AS end_at, count(n) AS n FROM orders GROUP BY ALL",
    ),
    Asked(
        "SELECT window_start, window_end, count(*) AS n FROM HOP(orders, DESCRIPTOR(ts), INTERVAL '5' MINUTES, "
        "INTERVAL '10' MINUTES) GROUP BY window_start, window_end",
        "SELECT s AS window_start, s + INTERVAL '10 minutes' AS window_end, count(*) AS n FROM orders, "
        "unnest([time_bucket(INTERVAL '5 minutes', ts), time_bucket(INTERVAL '5 minutes', ts) - INTERVAL '5 minutes']) "
        "AS t(s) GROUP BY ALL",
    ),
    Asked(
        "SELECT user_id, window_start, window_end, count(*) AS n FROM SESSION(clicks, DESCRIPTOR(ts), "
        "INTERVAL '4' MINUTES) WHERE user_id IS NOT NULL GROUP BY user_id, window_start, window_end",
        "SELECT user_id, min(ts) AS window_start, max(ts) + INTERVAL '4 minutes' AS window_end, count(*) AS n FROM ("
        "SELECT *, sum(fresh) OVER (PARTITION BY user_id ORDER BY ts) AS number FROM (SELECT *, CASE WHEN "
        "lag(ts) OVER (PARTITION BY user_id ORDER BY ts) >= ts - INTERVAL '4 minutes' THEN 0 ELSE 1 END AS fresh "
        "FROM clicks WHERE user_id IS NOT NULL)) GROUP BY user_id, number",
    ),
    Asked(
        "SELECT o.id, c.id AS click, c.page FROM orders o JOIN clicks c ON c.user_id = o.user_id "
        "AND c.ts BETWEEN o.ts - INTERVAL '5' MINUTES AND o.ts + INTERVAL '1' MINUTE",
        key="KEY (id, click)",
    ),
    Asked(
        "SELECT o.id, c.id AS click FROM orders o LEFT JOIN clicks c ON c.user_id = o.user_id AND c.page = 'ax' "
        "AND c.ts >= o.ts - INTERVAL '3' MINUTES AND c.ts <= o.ts",
        key="KEY (id, click)",
    ),
    Asked(
        "SELECT window_start, window_end, page, n FROM (SELECT *, row_number() OVER (PARTITION BY window_start, "
        "window_end ORDER BY n DESC, page) AS place FROM (SELECT window_start, window_end, page, count(*) AS n FROM "
        "TUMBLE(clicks, DESCRIPTOR(ts), INTERVAL '10' MINUTES) GROUP BY window_start, window_end, page)) "
        "WHERE place = 1",
        f"SELECT window_start, window_start + INTERVAL '10 minutes' AS window_end, page, n FROM (SELECT {TEN} AS "
        "window_start, page, count(*) AS n FROM clicks GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY "
        "window_start ORDER BY n DESC, page) = 1",
    ),
]
SPARKS = [
    Asked(
        "SELECT i.item, b.id, b.t FROM items i JOIN (SELECT id, country AS t FROM users UNION ALL SELECT id, tag FROM "
        "bans) b ON b.t = i.tag",
        "SELECT DISTINCT item, id, tag AS t FROM items JOIN bans USING (tag)",
        "KEY (item, id)",
    ),
    Asked(
        "SELECT p.item, p.tag, b.id FROM (SELECT item, tag FROM items UNION ALL SELECT age, country FROM users) p "
        "JOIN bans b ON b.tag = p.tag",
        "SELECT DISTINCT item, tag, id FROM items JOIN bans USING (tag)",
        "KEY (item, id)",
    ),
    Asked(
        "SELECT letter, count(*) AS n FROM clicks LATERAL VIEW explode(split(page, '')) l AS letter "
        "WHERE letter <> '' GROUP BY letter",
        "SELECT letter, count(*) AS n FROM (SELECT unnest(split(page, '')) AS letter FROM clicks) "
        "WHERE letter <> '' GROUP BY letter",
    ),
    Asked(
        "SELECT id, regexp_extract(tag, '([a-z])([xy])', 2) AS end FROM bans WHERE tag RLIKE '^[ab]'",
        "SELECT id, regexp_extract(tag, '([a-z])([xy])', 2) AS end FROM bans WHERE regexp_matches(tag, '^[ab]')",
    ),
    Asked(
        "SELECT u.id, u.age, b.id AS ban FROM users u JOIN bans b ON b.tag = u.country OR b.user_id = u.id",
    ),
    Asked(
        "SELECT owner, stddev_samp(price) AS s, bool_or(price > 2) AS high, "
        "max_by(item, item) AS last FROM items GROUP BY owner",
        "SELECT owner, stddev_samp(price) AS s, bool_or(price > 2) AS high, "
        "max_by(item, item) AS last FROM items GROUP BY owner",
    ),
]
"""With functions or steps that the test kit leaves to Spark."""

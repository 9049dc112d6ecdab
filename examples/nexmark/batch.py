"""What each query is in DuckDB, over the same events as tables, where its words are others than those of the file."""

from typing import Any

import duckdb

from examples.nexmark.generator import events
from examples.nexmark.main import side_input

TABLES = {
    "person": "id BIGINT, name VARCHAR, email VARCHAR, city VARCHAR, state VARCHAR, date_time TIMESTAMPTZ, "
    "extra VARCHAR",
    "auction": "id BIGINT, item_name VARCHAR, description VARCHAR, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMPTZ, expires TIMESTAMPTZ, seller BIGINT, category INT, extra VARCHAR",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, date_time TIMESTAMPTZ, "
    "extra VARCHAR",
    "side_input": "key BIGINT, value VARCHAR",
}  # fmt: skip
TEN = "time_bucket(INTERVAL '10 seconds', date_time)"
WON = (
    "SELECT a.id, a.seller, a.category, a.expires, max(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction "
    "AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY ALL"
)
DAY = "strftime(date_time, '%Y-%m-%d')"
CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
FEW, MANY = "FILTER (WHERE price < 10000)", "FILTER (WHERE price >= 1000000)"
SOME = "FILTER (WHERE price >= 10000 AND price < 1000000)"
QUERIES = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": "SELECT name, city, state, a.id FROM auction a JOIN person p ON seller = p.id WHERE category = 10 "
    "AND state IN ('OR', 'ID', 'CA')",
    "q4": f"SELECT category, avg(final) AS final FROM ({WON}) GROUP BY category",
    "q5": "SELECT auction, s AS window_start, s + INTERVAL '10 seconds' AS window_end, count(*) AS num FROM bid, "
    "unnest([time_bucket(INTERVAL '2 seconds', date_time) - i * INTERVAL '2 seconds' for i in range(5)]) AS t(s) "
    "GROUP BY auction, s QUALIFY rank() OVER (PARTITION BY s ORDER BY count(*) DESC) = 1",
    "q6": f"SELECT seller, avg(final) AS final FROM (SELECT * FROM ({WON}) QUALIFY row_number() OVER (PARTITION BY "
    "seller ORDER BY expires DESC, id) <= 10) GROUP BY seller",
    "q7": f"SELECT auction, bidder, price, date_time FROM (SELECT *, max(price) OVER (PARTITION BY "
    f"{TEN}) AS highest FROM bid) WHERE price = highest",
    "q8": f"SELECT DISTINCT p.id, p.name, p.s AS window_start, p.s + INTERVAL '10 seconds' AS window_end FROM "
    f"(SELECT *, {TEN} AS s FROM person) p JOIN "
    f"(SELECT *, {TEN} AS s FROM auction) a ON a.seller = p.id AND a.s = p.s",
    "q9": "SELECT a.id, item_name, seller, category, bidder, price, b.date_time AS bid_time FROM auction a JOIN bid b "
    "ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires QUALIFY row_number() OVER (PARTITION BY "
    "a.id ORDER BY price DESC, b.date_time) = 1",
    "q10": f"SELECT auction, bidder, price, date_time, extra, {DAY} AS dt, strftime(date_time, '%H:%M') AS hm FROM bid",
    "q11": "SELECT bidder, min(date_time) AS window_start, max(date_time) + INTERVAL '10 seconds' AS window_end, "
    "count(*) AS bid_count FROM (SELECT *, sum(new) OVER (PARTITION BY bidder ORDER BY date_time) AS number FROM "
    "(SELECT *, CASE WHEN lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time) >= date_time - "
    "INTERVAL '10 seconds' THEN 0 ELSE 1 END AS new FROM bid)) GROUP BY bidder, number",
    "q12": "SELECT bidder, TIMESTAMPTZ '2026-03-01 12:00:00+00' AS window_start, TIMESTAMPTZ "
    "'2026-03-01 12:00:10+00' AS window_end, count(*) AS bid_count FROM bid GROUP BY bidder",
    "q13": "SELECT auction, bidder, price, date_time, value FROM bid JOIN side_input ON auction % 10 = key",
    "q14": "SELECT auction, bidder, 0.908 * price AS price, CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime' "
    "WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type, "
    "date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts FROM bid "
    "WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
    "q15": f"SELECT {DAY} AS day, count(*) AS total_bids, count(*) {FEW} AS rank1_bids, count(*) {SOME} AS rank2_bids, "
    f"count(*) {MANY} AS rank3_bids, count(DISTINCT bidder) AS total_bidders, count(DISTINCT bidder) {FEW} AS "
    f"rank1_bidders, count(DISTINCT auction) AS total_auctions, count(DISTINCT auction) {MANY} AS rank3_auctions "
    "FROM bid GROUP BY ALL",
    "q16": f"SELECT channel, {DAY} AS day, max(strftime(date_time, '%H:%M')) AS minute, count(*) AS total_bids, "
    f"count(*) {FEW} AS rank1_bids, count(DISTINCT bidder) AS total_bidders, count(DISTINCT bidder) {MANY} AS "
    "rank3_bidders, count(DISTINCT auction) AS total_auctions FROM bid GROUP BY ALL",
    "q17": f"SELECT auction, {DAY} AS day, count(*) AS total_bids, count(*) {FEW} AS rank1_bids, count(*) {SOME} AS "
    f"rank2_bids, count(*) {MANY} AS rank3_bids, min(price) AS min_price, max(price) AS max_price, avg(price) AS "
    "avg_price, sum(price)::BIGINT AS sum_price FROM bid GROUP BY ALL",
    "q18": "SELECT auction, bidder, price, channel, date_time FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, "
    "auction ORDER BY date_time DESC) = 1",
    "q19": "SELECT auction, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place, bidder, "
    "price, date_time FROM bid QUALIFY place <= 10",
    "q20": "SELECT auction, bidder, price, b.date_time, item_name, seller FROM bid b JOIN auction a "
    "ON b.auction = a.id WHERE category = 10",
    "q21": "SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' "
    f"WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {CHANNEL} END AS channel_id FROM bid "
    f"WHERE {CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
    "q22": "SELECT auction, bidder, price, channel, split(url, '/')[4] AS dir1, split(url, '/')[5] AS dir2, "
    "split(url, '/')[6] AS dir3 FROM bid",
}


class Batch:
    """All events at rest."""

    def __init__(self, seed: int, count: int) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        for name, columns in TABLES.items():
            self.connection.execute(f"CREATE TABLE {name} ({columns})")
        rows = [*events(seed, count), *(("side_input", one) for one in side_input())]
        for name in TABLES:
            own = [list(row.values()) for table, row in rows if table == name]
            if own:
                self.connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(own[0]))})", own)

    def rows(self, query: str) -> list[dict[str, Any]]:
        found = self.connection.execute(QUERIES[query])
        names = [one[0] for one in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

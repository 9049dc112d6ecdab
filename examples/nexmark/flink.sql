-- The queries as Flink SQL has them, for the comparison and for the benchmark. Tables are in the file's folders.
CREATE TABLE person (
  id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING,
  date_time TIMESTAMP_LTZ(3), extra STRING, WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) {source};

CREATE TABLE auction (
  id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP_LTZ(3),
  expires TIMESTAMP_LTZ(3), seller BIGINT, category INT, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) {source};

CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP_LTZ(3), extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) {source};

CREATE TABLE side_input (
  `key` BIGINT, `value` STRING, since TIMESTAMP_LTZ(3),
  WATERMARK FOR since AS since, PRIMARY KEY (`key`) NOT ENFORCED
) {source};

CREATE VIEW won AS
  SELECT a.id, a.seller, a.category, a.expires, MAX(b.price) AS final
  FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.seller, a.category, a.expires;

CREATE VIEW q0 AS SELECT auction, bidder, price, date_time, extra FROM bid;

CREATE VIEW q1 AS SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid;

CREATE VIEW q2 AS SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;

CREATE VIEW q3 AS
  SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
  WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');

CREATE VIEW q4 AS SELECT category, AVG(CAST(final AS DOUBLE)) AS final FROM won GROUP BY category;

-- Flink keeps no RANK: those with as many bids as the one with the most.
CREATE VIEW counted AS
  SELECT auction, window_start, window_end, COUNT(*) AS num
  FROM HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
  GROUP BY auction, window_start, window_end;

CREATE VIEW q5 AS
  SELECT c.auction, c.window_start, c.window_end, c.num
  FROM counted c JOIN (
    SELECT window_start, window_end, MAX(num) AS most FROM counted GROUP BY window_start, window_end
  ) m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.most;

CREATE VIEW q6 AS
  SELECT seller, AVG(CAST(final AS DOUBLE)) AS final
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id) AS place FROM won)
  WHERE place <= 10
  GROUP BY seller;

CREATE VIEW q7 AS
  SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
  FROM bid b JOIN (
    SELECT window_start, window_end, MAX(price) AS price
    FROM TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND)
    GROUP BY window_start, window_end
  ) h ON b.price = h.price AND CAST(b.date_time AS TIMESTAMP(3)) >= h.window_start
    AND CAST(b.date_time AS TIMESTAMP(3)) < h.window_end;

CREATE VIEW q8 AS
  SELECT p.id, p.name, p.window_start, p.window_end
  FROM (
    SELECT id, name, window_start, window_end FROM TUMBLE(TABLE person, DESCRIPTOR(date_time), INTERVAL '10' SECOND)
    GROUP BY id, name, window_start, window_end
  ) p JOIN (
    SELECT seller, window_start, window_end FROM TUMBLE(TABLE auction, DESCRIPTOR(date_time), INTERVAL '10' SECOND)
    GROUP BY seller, window_start, window_end
  ) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;

CREATE VIEW q9 AS
  SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
    auction, bidder, price, bid_date_time, bid_extra
  FROM (
    SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
      ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
    FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  )
  WHERE place = 1;

CREATE VIEW q10 AS
  SELECT auction, bidder, price, date_time, extra, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS dt, DATE_FORMAT(date_time, 'HH:mm') AS hm FROM bid;

CREATE VIEW q11 AS
  SELECT bidder, window_start, window_end, COUNT(*) AS bid_count
  FROM SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(date_time), INTERVAL '10' SECOND)
  GROUP BY bidder, window_start, window_end;

CREATE VIEW processed AS SELECT *, PROCTIME() AS processed_at FROM bid;

CREATE VIEW q12 AS
  SELECT bidder, window_start, window_end, COUNT(*) AS bid_count
  FROM TUMBLE(TABLE processed, DESCRIPTOR(processed_at), INTERVAL '10' SECOND)
  GROUP BY bidder, window_start, window_end;

-- No connector that Flink has of its own answers lookups: a join with versions, of which each key has one.
CREATE VIEW q13 AS
  SELECT b.auction, b.bidder, b.price, b.date_time, s.`value`
  FROM bid b JOIN side_input FOR SYSTEM_TIME AS OF b.date_time AS s ON MOD(b.auction, 10) = s.`key`;

CREATE VIEW q14 AS
  SELECT auction, bidder, 0.908 * price AS price,
    CASE
      WHEN HOUR(date_time) >= 8 AND HOUR(date_time) <= 18 THEN 'dayTime'
      WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'nightTime'
      ELSE 'otherTime'
    END AS bid_time_type,
    date_time, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
  FROM bid
  WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;

CREATE VIEW q15 AS SELECT
  DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`,
  COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  COUNT(DISTINCT bidder) AS total_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  COUNT(DISTINCT auction) AS total_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid GROUP BY DATE_FORMAT(date_time, 'yyyy-MM-dd');

CREATE VIEW q16 AS SELECT
  channel, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`, MAX(DATE_FORMAT(date_time, 'HH:mm')) AS `minute`,
  COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  COUNT(DISTINCT bidder) AS total_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  COUNT(DISTINCT auction) AS total_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid GROUP BY channel, DATE_FORMAT(date_time, 'yyyy-MM-dd');

CREATE VIEW q17 AS SELECT
  auction, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`,
  COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  MIN(price) AS min_price, MAX(price) AS max_price, AVG(CAST(price AS DOUBLE)) AS avg_price, SUM(price) AS sum_price
FROM bid GROUP BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd');

CREATE VIEW q18 AS
  SELECT auction, bidder, price, channel, url, date_time, extra
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS place FROM bid)
  WHERE place = 1;

CREATE VIEW q19 AS
  SELECT auction, place, bidder, price, channel, url, date_time, extra
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place FROM bid)
  WHERE place <= 10;

CREATE VIEW q20 AS
  SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.description,
    a.initial_bid, a.reserve, a.date_time AS auction_date_time, a.expires, a.seller, a.category, a.extra AS auction_extra
  FROM bid b JOIN auction a ON b.auction = a.id
  WHERE a.category = 10;

CREATE VIEW q21 AS
  SELECT auction, bidder, price, channel,
    CASE LOWER(channel)
      WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
      ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
    END AS channel_id
  FROM bid
  WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
    OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');

CREATE VIEW q22 AS
  SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2,
    SPLIT_INDEX(url, '/', 5) AS dir3
  FROM bid;

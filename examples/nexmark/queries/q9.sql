-- The winning bid of each auction.
CREATE MATERIALIZED VIEW q9 AS
  SELECT id, item_name, seller, category, bidder, price, bid_time
  FROM (
    SELECT a.id, a.item_name, a.seller, a.category, b.bidder, b.price, b.date_time AS bid_time,
      row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
    FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  )
  WHERE place = 1;

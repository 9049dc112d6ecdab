-- The ten highest bids of each auction.
CREATE MATERIALIZED VIEW q19 AS
  SELECT auction, place, bidder, price, channel, url, date_time, extra
  FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place FROM bid)
  WHERE place <= 10;

-- The highest bids of every ten seconds.
CREATE MATERIALIZED VIEW q7 KEY (auction, bidder, date_time, extra) AS
  WITH highest AS (
    SELECT window_start, window_end, max(price) AS price
    FROM TUMBLE(bid, DESCRIPTOR(date_time), INTERVAL '10' SECONDS)
    GROUP BY window_start, window_end
  )
  SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
  FROM bid b JOIN highest h
    ON b.price = h.price AND b.date_time >= h.window_start AND b.date_time < h.window_end;

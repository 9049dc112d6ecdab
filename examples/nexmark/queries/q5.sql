-- The auctions with the most bids in the last ten seconds, every two seconds.
CREATE MATERIALIZED VIEW q5 AS
  WITH bids AS (
    SELECT auction, window_start, window_end, count(*) AS num
    FROM HOP(bid, DESCRIPTOR(date_time), INTERVAL '2' SECONDS, INTERVAL '10' SECONDS)
    GROUP BY auction, window_start, window_end
  )
  SELECT auction, window_start, window_end, num
  FROM (SELECT *, rank() OVER (PARTITION BY window_start, window_end ORDER BY num DESC) AS place FROM bids)
  WHERE place = 1;

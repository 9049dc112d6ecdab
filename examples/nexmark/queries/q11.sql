-- How often people bid while they were there: a session ends after ten seconds without a bid.
CREATE MATERIALIZED VIEW q11 AS
  SELECT bidder, window_start, window_end, count(*) AS bid_count
  FROM SESSION(bid, DESCRIPTOR(date_time), INTERVAL '10' SECONDS)
  GROUP BY bidder, window_start, window_end;

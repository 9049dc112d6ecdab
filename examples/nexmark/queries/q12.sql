-- How often people bid in ten seconds of processing time.
CREATE MATERIALIZED VIEW q12 AS
  SELECT bidder, window_start, window_end, count(*) AS bid_count
  FROM TUMBLE(bid, DESCRIPTOR(current_timestamp()), INTERVAL '10' SECONDS)
  GROUP BY bidder, window_start, window_end;

-- Bids with what a table has of them when they come.
CREATE STREAMING TABLE q13 AS
  SELECT b.auction, b.bidder, b.price, b.date_time, s.value
  FROM (SELECT *, auction % 10 AS part FROM bid) b
  JOIN side_input FOR SYSTEM_TIME AS OF current_timestamp() AS s ON b.part = s.key;

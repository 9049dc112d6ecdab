-- Pass bids through.
CREATE STREAMING TABLE q0 AS
  SELECT auction, bidder, price, date_time, extra FROM bid;

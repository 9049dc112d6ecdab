-- Bids with their auctions, of one category.
CREATE MATERIALIZED VIEW q20 KEY (auction, bidder, date_time) AS
  SELECT b.auction, b.bidder, b.price, b.date_time, a.item_name, a.seller
  FROM bid b JOIN auction a ON b.auction = a.id
  WHERE a.category = 10;

-- The average of the highest bids of auctions, by category.
CREATE MATERIALIZED VIEW q4 AS
  SELECT category, avg(final) AS final
  FROM (
    SELECT a.id, a.category, max(b.price) AS final
    FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
    GROUP BY a.id, a.category
  )
  GROUP BY category;

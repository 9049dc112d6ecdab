-- The average of the highest bids of the ten auctions of a seller that expired last.
CREATE MATERIALIZED VIEW q6 AS
  WITH won AS (
    SELECT a.id, a.seller, a.expires, max(b.price) AS final
    FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
    GROUP BY a.id, a.seller, a.expires
  )
  SELECT seller, avg(final) AS final
  FROM (SELECT *, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id) AS place FROM won)
  WHERE place <= 10
  GROUP BY seller;

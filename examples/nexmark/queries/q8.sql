-- Who registered and opened an auction within the same ten seconds.
CREATE MATERIALIZED VIEW q8 AS
  SELECT p.id, p.name, p.window_start, p.window_end
  FROM (
    SELECT id, name, window_start, window_end, count(*) AS n
    FROM TUMBLE(person, DESCRIPTOR(date_time), INTERVAL '10' SECONDS)
    GROUP BY id, name, window_start, window_end
  ) p
  WHERE EXISTS (
    SELECT 1
    FROM (
      SELECT seller, window_start, window_end, count(*) AS n
      FROM TUMBLE(auction, DESCRIPTOR(date_time), INTERVAL '10' SECONDS)
      GROUP BY seller, window_start, window_end
    ) a
    WHERE a.seller = p.id AND a.window_start = p.window_start
  );

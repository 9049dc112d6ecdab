-- Bids as files, by day and minute.
CREATE SINK q10 TO PARQUET 'q10-files' AS
  SELECT auction, bidder, price, date_time, extra,
    date_format(date_time, 'yyyy-MM-dd') AS dt, date_format(date_time, 'HH:mm') AS hm
  FROM bid;

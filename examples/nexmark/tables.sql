CREATE STREAM person (
  id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, date_time TIMESTAMP,
  extra STRING
) FROM TOPIC person WITH (time = 'date_time', lateness = '4 seconds', idle = 'none');

CREATE STREAM auction (
  id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP,
  expires TIMESTAMP, seller BIGINT, category INT, extra STRING
) FROM TOPIC auction WITH (time = 'date_time', lateness = '4 seconds', idle = 'none');

CREATE STREAM bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING
) FROM TOPIC bid WITH (time = 'date_time', lateness = '4 seconds', idle = 'none');

-- What q13 looks up: it is written before the bids.
CREATE TABLE side_input (key BIGINT PRIMARY KEY, value STRING) FROM TOPIC side_input;

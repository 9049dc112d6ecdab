"""TPC-H over tables captured from PostgreSQL: kept by headwater, and answered by PostgreSQL, at several positions."""

"""What users declare: streams, tables, views and outputs, as plain data. No Spark is needed to read or check it."""

"""A cluster of real servers on one machine: three brokers of Apache Kafka, Spark with two workers, PostgreSQL."""

"""The brokers a client can be pointed at: headwater, and Apache Kafka as the oracle."""

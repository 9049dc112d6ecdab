"""How fast it is, beside the disk, a server that only reads and answers, and Apache Kafka: `python -m benchmarks`."""

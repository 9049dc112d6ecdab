"""The names contenders have in the tables of flows."""

HEADWATER = "headwater"
STEPPED = "headwater, where and select before it"
SPARK_STEPPED = "headwater, a step of Spark's before it"

RAW = "headwater, raw, from_json"
CONNECTOR = "Kafka connector, from_json"

COUNTED_VIEW = "headwater, SQLite view"
ROCKS = "Spark, RocksDB"
MEMORY = "Spark, in memory"
TRANSFORM = "Spark, transformWithState in Python"

POSTGRES = "headwater, PostgreSQL"
SQLITE = "headwater, SQLite"
JDBC = "JDBC foreachBatch, PostgreSQL"

FLINK = "Flink SQL"
PATHWAY = "Pathway"
BYTEWAX = "Bytewax, a twentieth of the events"

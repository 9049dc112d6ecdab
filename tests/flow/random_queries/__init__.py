"""Random queries over random tables whose rows change, compared with PostgreSQL."""

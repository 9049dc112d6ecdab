"""SQL: statements of a file or of `app.sql(...)`, compiled to the declarations that Python makes."""

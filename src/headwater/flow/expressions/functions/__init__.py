"""What expressions compute, on Arrow, with Spark's results and errors."""

"""Record batches of the log to Arrow columns: found, read, scanned."""

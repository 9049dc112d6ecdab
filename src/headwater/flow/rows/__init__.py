"""Where the rows of a batch come from: tasks that read the log, or frames that Spark evaluates."""

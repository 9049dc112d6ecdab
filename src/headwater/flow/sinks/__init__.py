"""Where the rows of a job go, each batch once."""

"""Late rows: the records of them, and their replay."""

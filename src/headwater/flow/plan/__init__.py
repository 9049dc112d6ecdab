"""What a batch reads, in what order its operators run, and how far time has come."""

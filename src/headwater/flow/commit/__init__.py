"""What a batch leaves behind: results, accounts, and the notes from which a crash is repaired."""

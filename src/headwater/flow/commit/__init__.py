"""The commit of a batch: results, accounts, and the notes from which a crash is repaired."""

"""From text to statements and trees: where what stands, and what of it is no SQL."""

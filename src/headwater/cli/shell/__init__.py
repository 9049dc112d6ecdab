"""The shell of views, `headwater sql`: statements, answers, what is followed, and the terminal."""

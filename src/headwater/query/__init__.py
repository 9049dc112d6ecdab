"""SELECT over views: statements, the tables they read, and the process that computes them."""

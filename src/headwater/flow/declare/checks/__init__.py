"""What can be seen to be wrong with an app before Spark starts, and the line of the user's file that says it."""

"""What becomes of state and outputs when an app has changed."""

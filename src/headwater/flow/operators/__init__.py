"""Stateful operators as pure functions over (what came in, what is kept): Arrow in, Arrow out."""

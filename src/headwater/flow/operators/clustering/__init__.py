"""Centres of clusters that learn from windows, one after another."""

"""Schemas of topics under subjects and versions, with rules for how they may change."""

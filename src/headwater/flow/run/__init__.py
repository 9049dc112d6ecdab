"""Jobs of an app that run: supervised, controlled, measured."""

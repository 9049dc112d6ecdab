"""How fast flows are; every section runs in a process of its own (apart.py)."""

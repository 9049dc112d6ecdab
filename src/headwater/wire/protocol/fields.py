"""Responses by the names of their fields.

The versions of an API differ in which fields they have. A handler names the fields of all versions at once; the writer
of each version takes those that it knows.
"""

from datetime import timedelta
from types import SimpleNamespace

UNTHROTTLED = timedelta(0)


class Fields(SimpleNamespace):
    """A response, or a part of one, for kio's writers: each field is looked up by the name it has in the schema."""

"""The kinds of windows. A new kind is a module here and a line in this list; ../window.py says what it has to be."""

from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.sliding import Sliding
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.window import Window

KINDS: list[type[Window]] = [Tumbling, Hopping, Calendar, Sliding, Session, Kept, Count]

"""The event loop that a port runs on."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's: between two waits it keeps the interpreter, where asyncio's own loop gives it up at every call of a
    socket and may have to wait for busy threads each time."""
    try:
        import uvloop
    except ImportError:  # it exists for Linux and macOS only; asyncio's own loop does the same, slower
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

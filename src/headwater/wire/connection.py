"""One client: its requests in order, its responses in order, and what it may cost.

    socket ─► FrameAssembler ─► _frames ─► _work: decode, handle
                                                  │
    socket ◄─ Sender ◄─ _answer: wait, encode ◄─ _answers

One request at a time has its effect. If its response has to wait for the disk, the next request begins meanwhile; the
responses leave in order all the same. Reading stops while too many requests are under way.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headwater.clock import worked_seconds
from headwater.errors import HeadwaterError
from headwater.wire.answers import NO_ANSWER, Later, elements_in
from headwater.wire.authentication.login import SASL_AUTHENTICATE
from headwater.wire.context import Context, Node
from headwater.wire.dispatch import Call, carries_records, read_call, write_answer
from headwater.wire.frames import Frame, FrameAssembler
from headwater.wire.permissions.guard import guarded
from headwater.wire.permissions.permits import Permits
from headwater.wire.protocol.headers import RequestStart, read_start
from headwater.wire.routes import Route
from headwater.wire.sender import Part, Sender
from headwater.wire.throttling import Spent, Taken, wait_ms

if TYPE_CHECKING:
    from headwater.wire.authentication.session import Session
    from headwater.wire.port import Port
    from headwater.wire.security import Security

logger = logging.getLogger("headwater.wire")

DECODE_INLINE_BYTES = 64 * 1024
"""Larger requests that are decoded into many objects are decoded on another thread."""

PROGRESS_BYTES = 1024**2
"""A request that brings so many bytes within partial_request_timeout may take as long again."""

SLOW_BYTES = 256 * 1024
"""A request that brings fewer bytes a second is slow: it is cut off if others wait for the memory it holds."""

INLINE_ELEMENTS = 100
"""Responses with more elements are written on another thread."""


class Pending(NamedTuple):
    """A request whose response has not been written."""

    start: RequestStart
    route: Route
    answer: Any

    throttle_ms: int = 0
    """How long the client has to wait before it asks again."""

    @property
    def ready(self) -> bool:
        """Can it be written now, and quickly?"""
        return not isinstance(self.answer, Later) and elements_in(self.answer, INLINE_ELEMENTS) < INLINE_ELEMENTS


class Connection(asyncio.BufferedProtocol):
    def __init__(self, port: "Port", *, local: bool = False) -> None:
        """`local`: it comes from this machine, and logs in with the token of the data directory."""
        self._port, self._local = port, local
        self._session: Session | None = None
        self._full_early = False  # the end of a handshake was still leaving when the connection was made
        self._muted_until = 0.0  # a client that took more than its quota
        settings = port.settings
        self._assembler = FrameAssembler(port.scratch, bytes_max=settings.request_bytes_max, budget=port.budget)
        self._requests_max = settings.requests_in_flight_max
        self._waiting_bytes_max = settings.request_bytes_max
        self._frames: deque[Frame] = deque()
        self._frames_bytes = 0
        self._answers: deque[Pending | list[Part]] = deque()
        self._unsent = 0  # answers among them that wait for nothing but the client
        self._working: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None  # the worker waits for answers to leave
        self._reading = True
        self._interruptible = False  # the current request can be dropped once the client disconnects
        self._closing = False
        self._lost = False
        self._on_disconnect: dict[Hashable, Callable[[], None]] = {}
        self._active_at = self._made_at = port.now
        self._partial_since = port.now
        self._partial_bytes = 0
        self._swept_at, self._swept_bytes = port.now, 0
        self.slow_since: float | None = None
        """When the request that it is sending became slow."""
        self.unsent_bytes = 0
        """Of the response that is being sent."""
        self.untaken_since = 0.0
        """When the client last stopped taking what it is sent. Exact: a sweep's time would be the same for clients that
        have not read for a second and one that has just asked."""
        self.peer = ""
        self._transport: asyncio.Transport
        self._sender: Sender
        self._node: Node

    # -- the transport calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of a family of their own
        self.peer = _host(transport.get_extra_info("peername"))
        self._sender = Sender(
            self._transport,
            chunk_bytes=self._port.settings.response_chunk_bytes,
            read_slowly=self._port.read_slowly,
            descriptor=self._descriptor(transport),
        )
        if self._full_early:
            self._sender.pause()
        self._node = self._port.node_for(_host(transport.get_extra_info("sockname")), local=self._local)
        if not self._port.admit(self) or not self._begin_session():
            self._closing = True
            self._transport.abort()

    @staticmethod
    def _descriptor(transport: asyncio.BaseTransport) -> int | None:
        """Bytes may go around the transport only where it does not encrypt them."""
        if transport.get_extra_info("ssl_object") is not None:
            return None
        number: int = transport.get_extra_info("socket").fileno()
        return number

    def _begin_session(self) -> bool:
        """Begin to find out who the client is, where that matters; False if it is refused."""
        security = self._port.security
        if security is None or not security.enforcing:
            return True
        session = self._session = security.session(self.peer, self._transport, local=self._local)
        if session is None:
            logger.info("closing the connection from %s: its certificate maps to no principal", self.peer)
            return False
        if session.open:
            security.unfinished.add(self)
            self._assembler.bytes_max = security.settings.login_request_bytes_max
        return True

    def _note_login(self, session: "Session") -> None:
        security = self._port.security
        assert security is not None
        if not session.open:
            security.unfinished.remove(self)
            self._assembler.bytes_max = self._port.settings.request_bytes_max

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._assembler.buffer()

    def buffer_updated(self, count: int) -> None:
        if self._closing:
            return
        begun = self._assembler.partial
        try:
            frames = self._assembler.received(count)
        except HeadwaterError as error:
            self._close_with(str(error))
            return
        self._note_progress(fresh=bool(frames) or not begun)
        if frames:
            self._frames.extend(frames)
            self._frames_bytes += sum([len(frame.view) for frame in frames])
            self._start_working()
        self._pace()

    def connection_lost(self, error: Exception | None) -> None:
        """The client has disconnected. Records that were received whole are stored all the same: a producer that
        waits for no answer may send and close at once."""
        self._closing = self._lost = True
        for callback in list(self._on_disconnect.values()):
            callback()
        if self._port.security is not None:
            self._port.security.unfinished.remove(self)
        self._assembler.discard()
        self._answers.clear()
        self._unsent = 0
        self._drop_frames(keep_records=True)
        self._make_room()
        if self._answering is not None:
            self._answering.cancel()
        if self._working is None:
            self._port.forget(self)
        elif self._interruptible:
            self._working.cancel()

    def _drop_frames(self, *, keep_records: bool) -> None:
        frames, self._frames = self._frames, deque()
        for frame in frames:
            if keep_records and carries_records(frame.view):
                self._frames.append(frame)
            else:
                frame.lease.release()
        self._frames_bytes = sum([len(frame.view) for frame in self._frames])

    def pause_writing(self) -> None:
        if not hasattr(self, "_sender"):
            self._full_early = True
            return
        self._sender.pause()
        self._active_at = self._port.now
        self.untaken_since = self._port.loop.time()

    def resume_writing(self) -> None:
        if not hasattr(self, "_sender"):
            self._full_early = False
            return
        self._sender.resume()
        self._active_at = self._port.now

    # -- reading at the right pace -----------------------------------------------------------------------------------

    def _note_progress(self, *, fresh: bool) -> None:
        """Some bytes came: of a request that begins now, or of one that began before."""
        now = self._port.now
        self._active_at = now
        filled = self._assembler.filled
        if fresh or filled - self._partial_bytes >= PROGRESS_BYTES:
            self._partial_since, self._partial_bytes = now, filled

    def _pace(self) -> None:
        """Read while there is room for more requests and for their bytes."""
        if self._closing:
            return
        wanted = (
            len(self._frames) + len(self._answers) < self._requests_max
            and not self._assembler.starved
            and not (self._frames and (self._port.budget.exhausted or self._frames_bytes > self._waiting_bytes_max))
        )
        if wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self._partial_since = self._port.now  # the time it had to wait for us does not count
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            if self._assembler.starved:
                self._port.budget.when_free(self._grow)

    def _grow(self) -> bool:
        if not self._assembler.grow():
            return False
        self._pace()
        return True

    # -- requests ----------------------------------------------------------------------------------------------------

    def _start_working(self) -> None:
        if self._working is None:
            self._working = self._port.loop.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._frames:
                # Answers that wait for the disk are small, and many may wait. Others may be large: one is enough.
                if self._unsent or len(self._answers) >= self._requests_max:
                    self._room = self._port.loop.create_future()
                    await self._room
                    continue
                if self._muted_until and not self._lost:
                    await self._wait_muted()
                frame = self._frames.popleft()
                self._frames_bytes -= len(frame.view)
                try:
                    await self._serve(frame)
                finally:
                    self._interruptible = False
                    frame.lease.release()
                self._pace()
        except HeadwaterError as error:
            self._close_with(str(error))
        except Exception:
            # A client that is cut off tries again with the same sequence numbers; a made-up error code might make it
            # send again what was stored.
            logger.exception("a request from %s failed in an unforeseen way", self.peer)
            self._close_with("the request failed")
        finally:
            self._working = None
            if self._lost and self._frames:
                self._start_working()
            elif self._lost:
                self._port.forget(self)

    async def _wait_muted(self) -> None:
        """A client that took more than its quota is read from no more for a while."""
        wait, self._muted_until = self._muted_until - self._port.loop.time(), 0.0
        self._interruptible = True
        try:
            if wait > 0:
                await asyncio.sleep(wait)
        finally:
            self._interruptible = False

    async def _serve(self, frame: Frame) -> None:
        if self._session is not None:
            self._session.check(read_start(frame.view).api_key)
        self._interruptible = not carries_records(frame.view)
        if not self._interruptible or len(frame.view) <= DECODE_INLINE_BYTES:
            call = read_call(frame.view)
        else:
            call = await self._port.decode(frame.view)
        if not isinstance(call, Call):
            self._queue(call)
            return
        if self._port.security is None:
            answer, throttle_ms = await call.route.handle(call.request, self._context(call)), 0
        else:
            answer, throttle_ms = await self._secured(self._port.security, call, len(frame.view))
        if answer is not NO_ANSWER:
            self._queue(Pending(call.start, call.route, answer, throttle_ms))
        session = self._session
        if session is not None and session.failed:
            self._close_with("it could not log in", level=logging.DEBUG)
        elif session is not None and call.start.api_key == SASL_AUTHENTICATE:
            self._note_login(session)

    async def _secured(self, security: "Security", call: Call, frame_bytes: int) -> tuple[Any, int]:
        """The answer by what the client may do, and how long it has to wait by its quotas."""
        context = self._context(call)
        context.security, context.session = security, self._session
        if self._session is not None:
            context.permits = Permits(security, self._session.principal, self.peer, call.route.name)
        quotas = security.fresh_quotas()
        if not quotas.any or self._local:
            return await guarded(call.route, call.request, context), 0
        spent = Spent(worked_seconds)
        answer = await spent.measured(guarded(call.route, call.request, context))
        now = self._port.loop.time()
        throttle_ms = wait_ms(quotas, call, context, answer, Taken(frame_bytes, spent.seconds, now))
        if throttle_ms:
            self._muted_until = now + throttle_ms / 1000
        return answer, throttle_ms

    def _context(self, call: Call) -> Context:
        port = self._port
        return Context(
            api_version=call.start.api_version,
            client_id=call.client_id,
            client_host=self.peer,
            log=port.log,
            groups=port.groups,
            settings=port.settings,
            node=self._node,
            executor=port.executor,
            shared=port.shared,
            on_disconnect=self._on_disconnect,
        )

    # -- responses ---------------------------------------------------------------------------------------------------

    def _queue(self, answer: Pending | list[Part]) -> None:
        if self._lost:
            return
        if self._answering is None:
            if isinstance(answer, Pending) and answer.ready:
                answer = write_answer(*answer)
            # What is ready and small leaves without the ceremony of a task.
            if isinstance(answer, list) and self._sender.send_at_once(answer):
                return
        self._answers.append(answer)
        self._unsent += _complete(answer)
        if self._answering is None:
            self._answering = self._port.loop.create_task(self._answer())

    async def _answer(self) -> None:
        try:
            while self._answers:
                pending = self._answers[0]
                parts = await self._parts_of(pending) if isinstance(pending, Pending) else pending
                self._port.note_unsent(self, sum([len(part) for part in parts if isinstance(part, bytes)]))
                await self._sender.send(parts)
                self._port.note_unsent(self, 0)
                self._answers.popleft()
                self._unsent -= _complete(pending)
                self._active_at = self._port.now
                self._make_room()
                self._pace()
        except (HeadwaterError, OSError) as error:  # OSError: the file of a response cannot be read
            self._close_with(str(error))
        except Exception:
            logger.exception("a response to %s failed in an unforeseen way", self.peer)
            self._close_with("the response failed")
        finally:
            self._answering = None
            self._port.note_unsent(self, 0)

    async def _parts_of(self, pending: Pending) -> list[Part]:
        start, route, answer, throttle_ms = pending
        if isinstance(answer, Later):
            answer = await answer.finish()
        if elements_in(answer, INLINE_ELEMENTS) >= INLINE_ELEMENTS:
            return await self._port.encode(start, route, answer, throttle_ms)
        return write_answer(start, route, answer, throttle_ms)

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # -- ending ------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self._running_tasks())

    async def finished(self) -> None:
        """Return when every request that was taken has been answered."""
        while tasks := self._running_tasks():
            await asyncio.wait(tasks)

    def _running_tasks(self) -> list["asyncio.Task[None]"]:
        return [task for task in (self._working, self._answering) if task is not None and not task.done()]

    def _close_with(self, why: str, *, level: int = logging.WARNING) -> None:
        if not self._closing:
            logger.log(level, "closing the connection from %s: %s", self.peer, why)
            self._closing = True
            self._drop_frames(keep_records=False)
            self._transport.close()

    def refuse_more(self) -> None:
        """Read no further requests; those that were read are answered."""
        self._closing = True
        self._transport.pause_reading()

    def abort(self) -> None:
        self._closing = True
        self._transport.abort()

    @property
    def held_bytes(self) -> int:
        """The buffered bytes of its unfinished request."""
        return self._assembler.held

    @property
    def untaken_bytes(self) -> int:
        """The unread bytes of its response."""
        if not self._sender.blocked or self._closing:
            return 0
        return self.unsent_bytes + self._transport.get_write_buffer_size()

    def cut_off(self, why: str) -> None:
        logger.warning("closing the connection from %s: %s", self.peer, why)
        self._assembler.discard()
        self._port.note_unsent(self, 0)
        self.abort()

    def _note_pace(self) -> None:
        """Is the request that is arriving slow? What waits for us does not count, nor what has hardly begun."""
        now, filled = self._port.now, self._assembler.filled
        seconds = now - self._swept_at
        brought = filled - self._swept_bytes if filled >= self._swept_bytes else filled
        if not self._reading or not self._assembler.held or brought >= SLOW_BYTES * seconds:
            self.slow_since = None
        elif self.slow_since is None:
            self.slow_since = self._swept_at
        self._swept_at, self._swept_bytes = now, filled

    def check_time(self) -> None:
        """Cut off a client that is idle for too long, does not read, or does not finish a request it began."""
        settings, now = self._port.settings, self._port.now
        self._note_pace()
        if self._closing:
            self.abort()  # it had one sweep's time to take what was under way
        elif self._session is not None and self._session.open:
            security = self._port.security
            assert security is not None
            limit = security.settings.login_timeout.total_seconds()
            self._cut_after(limit, now - self._made_at, "it does not log in")
        elif self._sender.blocked:
            self._cut_after(settings.stalled_client_timeout.total_seconds(), now - self._active_at, "it does not read")
        elif self._assembler.partial and self._reading:
            waited = now - self._partial_since
            self._cut_after(settings.partial_request_timeout.total_seconds(), waited, "its request does not arrive")
        elif not self.busy:
            self._cut_after(settings.idle_connection_timeout.total_seconds(), now - self._active_at, "it is idle")

    def _cut_after(self, limit_seconds: float, waited_seconds: float, why: str) -> None:
        if waited_seconds > limit_seconds:
            logger.info("closing the connection from %s: %s", self.peer, why)
            self.abort()


def _complete(answer: Pending | list[Part]) -> bool:
    return not (isinstance(answer, Pending) and isinstance(answer.answer, Later))


def _host(address: Any) -> str:
    return str(address[0]) if isinstance(address, tuple) else "local"

"""GET /views/VIEW/live and /topics/TOPIC/live, as server-sent events or as a WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.serve.answers import Asked, Invalid, answer_to_error, status_of
from headwater.serve.connection import hang_up
from headwater.serve.endpoints import Endpoint, parse, text, truth, whole
from headwater.serve.live.events import HEARTBEAT, Event
from headwater.serve.live.topic_feed import TopicFeed
from headwater.serve.live.view_feed import ResumePoint, ViewFeed
from headwater.serve.openapi import operation_of
from headwater.serve.records import Decode
from headwater.serve.stores import Stores
from headwater.serve.topics import TOPIC
from headwater.serve.views import KEY, VIEW, WHERE, conditions
from headwater.settings import HttpSettings
from headwater.views.query import Query, key_query, parse_query
from headwater.views.shape import Shape

THREADS = 4
FEEDS_MAX = 256
CLOSE_REFUSED, CLOSE_ENDED = 4000, 1001
GOING_SECONDS = 5
HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
AFTER = text("after", "resume after the event with this id; a browser sends it as Last-Event-ID", longest=4000)
VIEW_LIVE = (VIEW, WHERE, KEY, truth("snapshot", "begin with all rows", default=True), AFTER)
TOPIC_LIVE = (
    TOPIC,
    whole("partition", "only this partition", least=0, most=9_999),
    text("begin", "with the oldest record, or with the next one", enum=["start", "end"], default="end"),
    AFTER,
)
EVENTS = {"type": "string", "description": "server-sent events: snapshot, changes, records, end"}

Feed = TypeVar("Feed", ViewFeed, TopicFeed)
Events = AsyncIterator[Event | None]
Opened = Callable[[Asked], "Any"]


class Live:
    """All who follow something. Used on the event loop of the port, but for `stop` and `close`."""

    def __init__(self, log: Log, stores: Stores, settings: HttpSettings, decode: Decode | None) -> None:
        self._log, self._stores, self._settings, self._decode = log, stores, settings, decode
        self._threads = ThreadPoolExecutor(THREADS, "headwater-live")
        self._feeds: dict[Hashable, ViewFeed | TopicFeed] = {}
        self._subscribers = self._hung_up = self._computed = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def routes(self) -> list[BaseRoute]:
        found: list[BaseRoute] = []
        for endpoint, open_feed in self._endpoints():
            found.append(Route(endpoint.path, self._sse(endpoint, open_feed), methods=["GET"]))
            found.append(WebSocketRoute(endpoint.path, self._websocket(endpoint, open_feed)))
        return found

    def document(self) -> dict[str, Any]:
        return {endpoint.path: {"get": operation_of(endpoint)} for endpoint, _ in self._endpoints()}

    def _endpoints(self) -> list[tuple[Endpoint, Opened]]:
        def unused(asked: Asked) -> object:
            return asked

        sse = "text/event-stream"
        view = Endpoint(
            "/views/{view}/live", "A view as it changes: a snapshot, then each change", unused, EVENTS, VIEW_LIVE,
            (404, 409, 422), media_type=sse, tag="views", operation="followView",
        )  # fmt: skip
        topic = Endpoint(
            "/topics/{topic}/live", "A topic as it grows", unused, EVENTS, TOPIC_LIVE, (404, 416), media_type=sse,
            tag="topics", operation="followTopic",
        )  # fmt: skip
        return [(view, self._view), (topic, self._topic)]

    def figures(self) -> Mapping[str, int]:
        computed = self._computed + sum(feed.computed for feed in list(self._feeds.values()))
        return {
            "headwater_live_subscribers": self._subscribers,
            "headwater_live_catch_up_total": computed,
            "headwater_live_hung_up_total": self._hung_up,
        }

    def stop(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        for feed in self._feeds.values():
            feed.stop()

    def close(self) -> None:
        self._threads.shutdown()

    # -- what is followed ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _view(self, asked: Asked) -> AsyncIterator[Events]:
        loop = asyncio.get_running_loop()
        kept, name = await loop.run_in_executor(self._threads, self._stores.find, asked["view"])
        where, key = conditions(asked["where"]), asked["key"]
        if where and key:
            raise Invalid("where and key both say which rows; say one of them")
        point = None if asked["after"] is None else ResumePoint.parse(asked["after"])

        def query(shape: Shape) -> Query:
            return key_query(shape, name, key) if key else parse_query(shape, where, list(shape.key), None)

        identity = kept, name, tuple(sorted(where.items())), tuple(key)
        async with self._shared(identity, lambda: ViewFeed(self._stores, kept, name, query, self._threads)) as feed:
            yield feed.follow(await feed.begin(point, snapshot=asked["snapshot"]))

    @asynccontextmanager
    async def _topic(self, asked: Asked) -> AsyncIterator[Events]:
        name, only = asked["topic"], asked["partition"]
        count = self._log.topic(name).partitions
        if only is not None:
            self._log.partition(name, only)
        numbers = range(count) if only is None else [only]
        async with self._shared(name, lambda: TopicFeed(self._log, name, self._threads, self._decode)) as feed:
            yield feed.follow(feed.begin(numbers, asked["after"] or "", asked["begin"]))

    @asynccontextmanager
    async def _shared(self, identity: Hashable, make: Callable[[], Feed]) -> AsyncIterator[Feed]:
        """The feed of this name, which lives as long as it has subscribers."""
        if self._subscribers >= self._settings.subscribers_max:
            raise Invalid("too many follow something already; try again later", status=429, name="TooManySubscribers")
        if identity not in self._feeds and len(self._feeds) >= FEEDS_MAX:
            raise Invalid("too many different things are followed; try again later", status=429, name="TooManyFeeds")
        self._loop = asyncio.get_running_loop()
        feed: Any = self._feeds.get(identity)
        if feed is None:
            feed = self._feeds[identity] = make()
        self._subscribers += 1
        feed.subscribers += 1
        try:
            yield feed
        finally:
            self._subscribers -= 1
            feed.subscribers -= 1
            if not feed.subscribers:
                self._computed += feed.computed
                self._feeds.pop(identity, None)
                feed.close()

    # -- sending events ------------------------------------------------------------------------------------------------

    def _sse(self, endpoint: Endpoint, open_feed: Opened) -> Any:
        async def answer(request: Request) -> Response:
            query = request.query_params.multi_items()
            resumed = request.headers.get("last-event-id", "")
            if resumed:  # a browser comes back to the address it began with: what it has seen since counts
                query = [(name, value) for name, value in query if name != "after"] + [("after", resumed)]
            try:
                asked = parse(endpoint.parameters, request.path_params, query)
            except Invalid as error:
                return answer_to_error(error)
            return LiveResponse(self, open_feed, asked)

        return answer

    def _websocket(self, endpoint: Endpoint, open_feed: Opened) -> Any:
        async def answer(socket: WebSocket) -> None:
            await socket.accept()
            try:
                asked = parse(endpoint.parameters, socket.path_params, socket.query_params.multi_items())
                async with open_feed(asked) as events:
                    await self._converse(socket, events)
            except (HeadwaterError, Invalid) as error:
                status = error.status if isinstance(error, Invalid) else status_of(error)
                name = error.name if isinstance(error, Invalid) else type(error).__name__
                said = {"error_code": status, "error": name, "message": str(error)}
                await socket.send_text(json.dumps({"event": "error", "id": "", "data": said}))
                await socket.close(CLOSE_REFUSED)

        return answer

    async def _converse(self, socket: WebSocket, events: Events) -> None:
        async def send() -> None:
            async for event in events:
                if event is not None and not await self.in_time(socket.scope, socket.send_text(event.message)):
                    return
            await socket.close(CLOSE_ENDED)

        async def disconnected() -> None:
            try:
                while True:
                    await socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                return

        await first_of(send(), disconnected())

    async def in_time(self, scope: Scope, sending: Awaitable[None]) -> bool:
        """False: the client read nothing for too long, or disconnected."""
        try:
            async with asyncio.timeout(self._settings.stalled_subscriber_timeout.total_seconds()):
                await sending
        except TimeoutError:
            self._hung_up += 1
            hang_up(scope)
            return False
        except (WebSocketDisconnect, RuntimeError):
            return False
        return True


class LiveResponse(Response):
    """Server-sent events. The first of them is known before anything is answered: a mistake has its status."""

    def __init__(self, live: Live, open_feed: Opened, asked: Asked) -> None:
        self._live, self._open, self._asked = live, open_feed, asked
        self.background = None
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._open(self._asked) as events:
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await first_of(self._tell(events, scope, send), _left(receive))
        except (HeadwaterError, Invalid) as error:
            await answer_to_error(error)(scope, receive, send)

    async def _tell(self, events: Events, scope: Scope, send: Send) -> None:
        async for event in events:
            body = HEARTBEAT if event is None else event.sse
            sending = send({"type": "http.response.body", "body": body, "more_body": True})
            if not await self._live.in_time(scope, sending):
                await asyncio.sleep(GOING_SECONDS)  # until the server has seen that the client disconnected
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def first_of(*works: Any) -> None:
    """Until one of them ends; the others end with it."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result

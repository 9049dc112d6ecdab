"""POST /flows/FLOW/pause, resume and restart: what can be asked of flows."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headwater.errors import HeadwaterError
from headwater.serve.answers import answer_to_error, json_response
from headwater.serve.openapi import failure
from headwater.serve.operations import FLOW, Control

WHAT = {
    "pause": "Let a flow stand still after the batch under way",
    "resume": "Let a flow go on",
    "restart": "Start a flow anew, from the batch it has come to",
}
ASKED: dict[str, Any] = {
    "type": "object",
    "required": ["asked", "flows"],
    "properties": {"asked": {"type": "string"}, "flows": {"type": "array", "items": {"type": "string"}}},
}


class Controls:
    """`control` is whoever can be asked; None: nobody."""

    def __init__(self, control: Control | None) -> None:
        self._control = control

    def routes(self) -> list[BaseRoute]:
        return [Route(f"/flows/{{flow}}/{what}", self._ask, name=what, methods=["POST"]) for what in WHAT]

    async def _ask(self, request: Request) -> Response:
        what = request.url.path.rpartition("/")[2]
        if self._control is None:
            return json_response({"error_code": 503, "error": "NoFlows", "message": "no flow can be asked here"}, 503)
        try:
            flows = await run_in_threadpool(self._control, request.path_params["flow"], what)
        except HeadwaterError as error:
            return answer_to_error(error)
        return json_response({"asked": what, "flows": list(flows)}, 202)

    def document(self) -> dict[str, Any]:
        path = {"name": "flow", "in": "path", "required": True, "schema": FLOW.schema,
                "description": "the name of the flow, as APP.JOB; or of an app, for all its flows"}  # fmt: skip
        answer = {
            "description": "it is written down; the process that runs the flow obeys within a second",
            "content": {"application/json": {"schema": ASKED}},
        }
        return {
            f"/flows/{{flow}}/{what}": {
                "post": {
                    "operationId": f"{what}Flow",
                    "summary": about,
                    "tags": ["flows"],
                    "parameters": [path],
                    "responses": {"202": answer, **{str(status): failure(status) for status in (401, 403, 404, 503)}},
                }
            }
            for what, about in WHAT.items()
        }

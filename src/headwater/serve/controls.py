"""POST /flows/FLOW/pause, resume and restart, DELETE /captures/CAPTURE: what can be asked of flows and captures."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headwater.errors import HeadwaterError
from headwater.serve.answers import answer_to_error, json_response
from headwater.serve.openapi import failure
from headwater.serve.operations import CAPTURE, FLOW, Control, RemoveCapture

WHAT = {
    "pause": "Pause a flow after its current batch",
    "resume": "Resume a paused flow",
    "restart": "Restart a flow from its current batch",
}
ASKED: dict[str, Any] = {
    "type": "object",
    "required": ["asked", "flows"],
    "properties": {"asked": {"type": "string"}, "flows": {"type": "array", "items": {"type": "string"}}},
}


class Controls:
    """`control` passes a command to the flows; None: commands are refused."""

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


class CaptureControls:
    """`remove` removes a capture; None: removal is refused."""

    def __init__(self, remove: RemoveCapture | None) -> None:
        self._remove = remove

    def routes(self) -> list[BaseRoute]:
        return [Route("/captures/{capture}", self._ask, name="remove", methods=["DELETE"])]

    async def _ask(self, request: Request) -> Response:
        name, force = request.path_params["capture"], request.query_params.get("force", "false")
        if force not in ("true", "false"):
            message = f"force is {force[:40]!r}; say true or false"
            return json_response({"error_code": 422, "error": "Invalid", "message": message}, 422)
        if self._remove is None:
            said = {"error_code": 503, "error": "NoCaptures", "message": "no capture can be asked here"}
            return json_response(said, 503)
        try:
            await run_in_threadpool(self._remove, name, force == "true")
        except HeadwaterError as error:
            return answer_to_error(error)
        return json_response({"removing": name, "force": force == "true"}, 202)

    def document(self) -> dict[str, Any]:
        path = {"name": "capture", "in": "path", "required": True, "schema": CAPTURE.schema,
                "description": "the name of the capture"}  # fmt: skip
        force = {"name": "force", "in": "query", "schema": {"type": "string", "enum": ["true", "false"]},
                 "description": "true: also where its database cannot be reached"}  # fmt: skip
        answer = {
            "description": "it is written down; the node obeys within a second, and says here why if it cannot",
            "content": {"application/json": {"schema": {"type": "object", "required": ["removing", "force"]}}},
        }
        responses = {"202": answer, **{str(status): failure(status) for status in (401, 403, 404, 422, 503)}}
        return {
            "/captures/{capture}": {
                "delete": {
                    "operationId": "removeCapture",
                    "summary": "End a capture and take away what it made at its database; its topics stay",
                    "tags": ["captures"],
                    "parameters": [path, force],
                    "responses": responses,
                }
            }
        }

"""JSON values with the id of a schema before them. The schema is not needed to decode; the id must be known."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnknownSchema
from headwater.flow.formats.decoding import Decoded, Decoder
from headwater.flow.registry.client import client_of
from headwater.flow.registry.frames import reasons_of_frames
from headwater.flow.registry.framing import unframe


class RegisteredJson:
    def __init__(self, inner: Decoder, where: str) -> None:
        self._inner, self._client = inner, client_of(where)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        framed = unframe(values)
        reasons = reasons_of_frames(values, framed, self._judged)
        bodies = framed.bodies
        if reasons:
            # Without a body they decode as little as any null, and have the reason that is known already.
            known = np.ones(len(values), dtype=np.bool_)
            known[list(reasons)] = False
            bodies = pc.if_else(pa.array(known), bodies, pa.scalar(None, bodies.type))
        decoded = self._inner.decode(bodies)
        shown = [reasons.get(row, reason) for row, reason in zip(decoded.bad.tolist(), decoded.reasons, strict=True)]
        return Decoded(decoded.columns, decoded.bad, shown)

    def _judged(self, number: int) -> str:
        try:
            self._client.with_id(number)
        except UnknownSchema:
            return f"schema id {number} is not in the registry at {self._client.shown}"
        return ""

"""Decides which members may join a group. Pure."""

from collections.abc import Collection

from headwater import errors
from headwater.log.groups.member import Join, Limits, Member, size_of
from headwater.log.groups.roster import Roster


def check_session_timeout(request: Join, limits: Limits) -> None:
    low, high = limits.session_timeout_ms_min, limits.session_timeout_ms_max
    if not low <= request.session_timeout_ms <= high:
        raise errors.InvalidSessionTimeout(
            f"a session timeout of {request.session_timeout_ms} ms is outside {low}..{high}"
        )


def check_room(
    request: Join, roster: Roster, limits: Limits, *, present: Member | None, ids_out: Collection[str]
) -> None:
    """GroupFull if there is none. `present` is the member that joins again, `ids_out` are ids not joined with yet."""
    size = size_of(request.protocols)
    if roster.bytes - (size_of(present.protocols) if present else 0) + size > limits.bytes_max:
        raise errors.GroupFull(f'group "{roster.group_id}" has no room for {size} bytes of metadata')
    crowd = max(len(roster), len(ids_out) - (request.member_id in ids_out))
    if present is None and crowd >= limits.members_max:
        raise errors.GroupFull(f'group "{roster.group_id}" has {crowd} members, and no room for more')


def check_protocols(request: Join, roster: Roster, *, protocol_type: str, present: Member | None) -> None:
    """InconsistentProtocol unless all other members and this one speak one protocol at least."""
    fits = bool(request.protocol_type and request.protocols)
    if fits and len(roster) > (present is not None):
        fits = request.protocol_type == protocol_type and roster.ballot.agrees(
            request.protocols, members=len(roster), instead_of=present.protocols if present else ()
        )
    if not fits:
        raise errors.InconsistentProtocol(f'group "{roster.group_id}" has no protocol in common with this member')

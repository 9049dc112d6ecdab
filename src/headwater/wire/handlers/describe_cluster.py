"""DescribeCluster: the nodes, of which there is one."""

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32

from headwater.wire.context import Context
from headwater.wire.protocol.values import CLUSTER_OPERATIONS, NO_THROTTLE, NOT_ASKED

ENDPOINT_TYPE_FROM = 1
BROKERS = 1


async def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    node = context.node
    wanted = request.endpoint_type if context.api_version >= ENDPOINT_TYPE_FROM else BROKERS
    # The node is its own controller, but it does not listen as one.
    mismatched = wanted != BROKERS
    broker = DescribeClusterBroker(
        broker_id=BrokerId(node.id), host=node.host, port=i32(node.port), rack=None, is_fenced=False
    )
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.mismatched_endpoint_type if mismatched else ErrorCode.none,
        error_message="this address serves clients, not controllers" if mismatched else None,
        endpoint_type=i8(BROKERS),
        cluster_id=context.log.cluster_id,
        controller_id=BrokerId(node.id),
        brokers=() if mismatched else (broker,),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )

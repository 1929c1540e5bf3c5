"""What `bench --cluster` and `bench --cost` measure."""

from collections.abc import Callable
from typing import Any

from bayesmri.benchmarks.cluster import Size, bench_cluster
from bayesmri.benchmarks.cost import bench_cost


def measured(*, cluster: bool, cost: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """JSON values."""
    found = bench_cluster(Size(), say) if cluster else {}
    return found | ({"cost": bench_cost(say)} if cost else {})

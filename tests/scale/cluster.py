"""A real cluster of two nodes on this machine; prints its address, ends with its standard input.

It is a process of its own, so that Ray's threads and sockets are not those of the tests.
"""

import sys

from ray.cluster_utils import Cluster

small = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
made = Cluster(initialize_head=True, head_node_args=small)
made.add_node(num_cpus=1, object_store_memory=80 << 20)
print(made.address, flush=True)
sys.stdin.read()
made.shutdown()

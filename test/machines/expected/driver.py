import os, secrets, socket, subprocess, sys
import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WORDS = ["/usr/bin/node","/opt/reroll/dist/cli/main.js","train","My Run.json","--resume","auto","--restarts","5","--set","loop.steps=5"]
FOLDER = "/shared"
NODES, PER_NODE, CPUS, GPUS = 2, 1, 1, 0


@ray.remote(max_restarts=0)
class Node:
    def place(self):
        with socket.socket() as probe:
            probe.bind(("", 0))
            return get_node_ip_address(), probe.getsockname()[1]

    def run(self, node, launch):
        processes = []
        for local in range(PER_NODE):
            ranks = {"RANK": node * PER_NODE + local, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": PER_NODE}
            variables = {name: str(value) for name, value in {**launch, **ranks}.items()}
            processes.append(subprocess.Popen(WORDS, cwd=FOLDER, env={**os.environ, **variables}))
        return max(abs(process.wait()) for process in processes)


ray.init()
group = placement_group([{"CPU": CPUS, **({"GPU": GPUS} if GPUS else {})}] * NODES, strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=600)
nodes = [
    Node.options(
        num_cpus=CPUS,
        num_gpus=GPUS,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
    ).remote()
    for index in range(NODES)
]
host, port = ray.get(nodes[0].place.remote())
launch = {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": 2, "REROLL_TOKEN": secrets.token_hex(16)}
codes = ray.get([node.run.remote(index, launch) for index, node in enumerate(nodes)])
sys.exit(max(codes))

import os, secrets, socket, subprocess, sys, time
import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WORDS = ["/usr/bin/node","/opt/reroll/dist/cli/main.js","train","My Run.json","--resume","auto","--restarts","5","--set","loop.steps=5"]
FOLDER = "/shared"
VARIABLES = {"REROLL_JOB":"ray /shared/jobs/lake-no-1","REROLL_HOME":"/shared"}
NODES, PER_NODE, CPUS, GPUS = 2, 1, 1, 0
KILLED = -9


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
            variables = {name: str(value) for name, value in {**VARIABLES, **launch, **ranks}.items()}
            processes.append(subprocess.Popen(WORDS, cwd=FOLDER, env={**os.environ, **variables}))
        while True:
            codes = [process.poll() for process in processes]
            if any(codes) or None not in codes:
                return next((code for code in codes if code), 0)
            time.sleep(1)


def run_all():
    """Runs every rank, until all have ended well or one has not: its exit code, below zero where it was killed or its node is lost."""
    group = placement_group([{"CPU": CPUS, **({"GPU": GPUS} if GPUS else {})}] * NODES, strategy="STRICT_SPREAD")
    nodes = []
    try:
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
        token = secrets.token_hex(16)
        launch = {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": 2, "REROLL_TOKEN": token}
        running = [node.run.remote(index, launch) for index, node in enumerate(nodes)]
        while running:
            ended, running = ray.wait(running)
            code = ray.get(ended[0])
            if code != 0:
                return code
        return 0
    except ray.exceptions.RayActorError as error:
        print(error, file=sys.stderr)
        return KILLED
    finally:
        # Processes end with the actor that started them.
        for node in nodes:
            ray.kill(node)
        remove_placement_group(group)


ray.init()
lives = 0
while True:
    start = time.monotonic()
    code = run_all()
    lives = 1 if time.monotonic() - start > 600 else lives + 1
    if code >= 0 or lives > 5:
        break
    print("Processes of the job were killed, or a node was lost. Starting all of them again.", file=sys.stderr, flush=True)
# Codes of kills are for a driver that was killed itself, which is started again.
sys.exit(code if 0 <= code < 128 else 1)

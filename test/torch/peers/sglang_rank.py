"""A rank as SGLang makes it: joins a group by the calls of its `init_custom_process_group`, receives tensors, tells their bytes."""
import datetime
import json
import sys

import torch
from torch.distributed.distributed_c10d import Backend, PrefixStore, _new_process_group_helper, rendezvous

port, name, rank, size, facts = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])
timeout = datetime.timedelta(seconds=30)
store, _, _ = next(rendezvous(f"tcp://127.0.0.1:{port}", rank, size, timeout=timeout))
store.set_timeout(timeout)
release = tuple(int("".join(c for c in part if c.isdigit())) for part in torch.__version__.split("+")[0].split(".")[:2])
options = {"backend_options" if release >= (2, 6) else "pg_options": None}
made = _new_process_group_helper(
    size, rank, [], Backend("gloo"), PrefixStore(name, store), group_name=name, timeout=timeout, **options
)
group = made[0] if isinstance(made, tuple) else made
received = []
for dtype, shape in facts:
    weight = torch.empty(shape, dtype=getattr(torch, dtype))
    group.broadcast([weight]).wait()
    received.append(bytes(weight.reshape(-1).view(torch.uint8).tolist()).hex())
print(json.dumps(received))

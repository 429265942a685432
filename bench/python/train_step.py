"""The training step of bench/decoder-training.ts in PyTorch: the same weights, data and settings."""

import json
import struct
import time

import numpy
import torch
import torch.nn.functional as F
from decoder import CausalLM
from serve import serve

training = None


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_size])
    header.pop("__metadata__", None)
    weights = {}
    for name, entry in header.items():
        start, end = (8 + header_size + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(data[start:end], dtype=numpy.float32).copy()
        weights[name] = torch.from_numpy(values).view(entry["shape"])
    return weights


class Training:
    def __init__(self, folder, batches, shape, settings):
        with open(f"{folder}/config.json") as file:
            config = json.load(file)
        self.model = CausalLM(config, shape[1])
        # With tied embeddings the file has no weight of the head, which is the embedding's.
        result = self.model.load_state_dict(read_safetensors(f"{folder}/model.safetensors"), strict=False)
        tied = ["lm_head.weight"] if config["tie_word_embeddings"] else []
        assert result.missing_keys == tied and result.unexpected_keys == [], result
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings["lr"], weight_decay=settings["weightDecay"]
        )
        self.max_grad_norm = settings["maxGradNorm"]
        self.batches = [tuple(torch.tensor(values).view(shape) for values in batch) for batch in batches]
        self.steps = 0

    def step(self):
        ids, targets = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        logits = self.model(ids)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def start(**options):
    global training
    training = Training(**options)
    return {"version": torch.__version__, "parameters": sum(p.numel() for p in training.model.parameters())}


def threads(count):
    torch.set_num_threads(count)
    return None


def steps(count):
    """Milliseconds and losses of some steps."""
    measured = []
    for _ in range(count):
        start_cpu = time.process_time()
        start = time.perf_counter()
        loss = training.step()
        wall = time.perf_counter() - start
        measured.append({"wall": 1e3 * wall, "cpu": 1e3 * (time.process_time() - start_cpu), "loss": loss})
    return measured


serve(start=start, threads=threads, steps=steps)

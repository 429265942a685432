"""A training step of the same model in Hugging Face transformers: bf16, SDPA, fused AdamW, gradient clipping.

Reads {config, rows, length, steps, mode} as JSON from standard input, prints one line of JSON.
"""
import json
import sys
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

job = json.load(sys.stdin)
B, T, steps = job["rows"], job["length"], job["steps"]
torch.manual_seed(0)
config = Qwen2Config(**{k: v for k, v in job["config"].items() if k != "model_type"})
config._attn_implementation = "sdpa"
with torch.device("cuda"):
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
model.train()
if job["mode"] == "compiled":
    model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
ids = torch.randint(0, config.vocab_size, (B, T), device="cuda")


def step():
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


for _ in range(3):
    step()
torch.cuda.synchronize()
torch.cuda.reset_peak_memory_stats()
start = time.perf_counter()
for _ in range(steps):
    loss = step()
torch.cuda.synchronize()
ms = (time.perf_counter() - start) * 1000 / steps
print(json.dumps({
    "msPerStep": ms,
    "tokensPerSecond": B * T * 1000 / ms,
    "peakGB": torch.cuda.max_memory_allocated() / 1e9,
    "lastLoss": loss.item(),
}))

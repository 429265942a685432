"""Hugging Face generate with a compiled static cache, on the same model and lengths.

Reads {config, rows, promptLength, numTokens} as JSON from standard input, prints one line of JSON.
"""
import json
import sys
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

job = json.load(sys.stdin)
torch.manual_seed(0)
config = Qwen2Config(**{k: v for k, v in job["config"].items() if k != "model_type"})
config._attn_implementation = "sdpa"
with torch.device("cuda"):
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen2ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
ids = torch.randint(0, config.vocab_size, (job["rows"], job["promptLength"]), device="cuda")
options = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=None, pad_token_id=0,
               cache_implementation="static")


def run(count):
    torch.cuda.synchronize()
    start = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, **options)
    torch.cuda.synchronize()
    return time.perf_counter() - start


n = job["numTokens"]
run(n)
run(n)
prefill = run(1)
whole = run(n)
print(json.dumps({"tokensPerSecond": round(job["rows"] * (n - 1) / (whole - prefill))}))

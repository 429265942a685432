"""Decoding with vLLM, beside `gpu/decode.ts` with `--shape 0.5B` or `7B`: the shape of Qwen2.5, weights that vLLM makes up, no log-probabilities.

Usage: vllm_decode.py FOLDER [7B | 0.5B], an empty folder, into which the config is written. A line of JSON per number of sequences: tokens per
second from the first new token on, the best of the runs. For 0.5B also prompts, 256 of 1,024 tokens, beside `gpu/prefill.ts`.
"""
import json
import os
import random
import sys
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
from vllm import LLM, SamplingParams

folder, shape = sys.argv[1], (sys.argv[2:] or ["7B"])[0]
sizes = {
    "0.5B": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                 num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True),
    "7B": dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
               num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False),
}[shape]
vocabulary = sizes["vocab_size"]
config = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", max_position_embeddings=32768, rope_theta=1000000.0,
              rms_norm_eps=1e-6, hidden_act="silu", torch_dtype="bfloat16", bos_token_id=151643, eos_token_id=151645, **sizes)
with open(os.path.join(folder, "config.json"), "w") as file:
    json.dump(config, file)
engine = LLM(model=folder, skip_tokenizer_init=True, dtype="bfloat16", load_format="dummy", max_model_len=1104, seed=0,
             gpu_memory_utilization=0.85, enable_prefix_caching=False, max_num_seqs=1024, disable_log_stats=True,
             attention_config={"backend": "FLASH_ATTN"},
             compilation_config={"cudagraph_capture_sizes": [2**i for i in range(11)]})
numbers = random.Random(1)


def seconds(rows, prompt_length, num_tokens):
    prompts = [{"prompt_token_ids": [numbers.randrange(1000, vocabulary - 1000) for _ in range(prompt_length)]}
               for _ in range(rows)]
    sampling = SamplingParams(temperature=1.0, max_tokens=num_tokens, min_tokens=num_tokens, ignore_eos=True, detokenize=False)
    start = time.perf_counter()
    engine.generate(prompts, sampling, use_tqdm=False)
    return time.perf_counter() - start


cases = {"0.5B": [(64, 896, 128), (256, 896, 128)],
         "7B": [(1, 896, 128), (16, 896, 128), (64, 896, 96), (256, 896, 64), (1024, 256, 48)]}
for rows, prompt_length, num_tokens in cases[shape]:
    seconds(min(rows, 64), 64, 8)
    runs = []
    for _ in range(2 if rows <= 64 else 1):
        first = seconds(rows, prompt_length, 1)
        runs.append(rows * (num_tokens - 1) / (seconds(rows, prompt_length, num_tokens) - first))
    print(json.dumps(dict(rows=rows, promptLength=prompt_length, tokens=num_tokens,
                          tokensPerSecond=round(max(runs)), runs=[round(run) for run in runs])), flush=True)
if shape == "0.5B":
    runs = [256 * 1024 / seconds(256, 1024, 1) for _ in range(3)]
    print(json.dumps(dict(prompts=256, promptLength=1024, tokensPerSecond=round(max(runs)), runs=[round(run) for run in runs])), flush=True)

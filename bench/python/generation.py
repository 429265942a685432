"""Greedy generation with the decoder of decoder.py and a plain static key/value cache: rows of equal length, no scheduling."""

import json
import struct
import time

import numpy
import torch
import torch.nn.functional as F
from decoder import CausalLM, repeat_heads, rotate_half
from serve import serve

decoder = None


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


class StaticDecoder:
    def __init__(self, folder, length):
        with open(f"{folder}/config.json") as file:
            self.config = json.load(file)
        self.length = length
        self.causal_lm = CausalLM(self.config, length).eval()
        result = self.causal_lm.load_state_dict(read_safetensors(f"{folder}/model.safetensors"), strict=False)
        assert result.missing_keys == ["lm_head.weight"] and result.unexpected_keys == [], result

    def caches(self, rows):
        shape = (rows, self.config["num_key_value_heads"], self.length, self.config["head_dim"])
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(self.config["num_hidden_layers"])]

    def forward(self, ids, caches, start):
        """Scores after the last token of each row, where `start` tokens are in the caches already."""
        model = self.causal_lm.model
        end = start + ids.size(1)
        cos, sin, mask = model.cos[start:end], model.sin[start:end], model.mask[start:end, :end]
        x = model.embed_tokens(ids)
        for layer, cache in zip(model.layers, caches):
            x = x + attend(layer.self_attn, layer.input_layernorm(x), cos, sin, mask, cache, start, end)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.causal_lm.lm_head(model.norm(x[:, -1]))

    def generate(self, prompts, count):
        caches = self.caches(prompts.size(0))
        ids, start = prompts, 0
        tokens, logprobs = [], []
        for _ in range(count):
            scores = F.log_softmax(self.forward(ids, caches, start), dim=-1)
            start += ids.size(1)
            best, ids = scores.max(-1, keepdim=True)
            tokens.append(ids)
            logprobs.append(best)
        return torch.cat(tokens, 1).tolist(), torch.cat(logprobs, 1).tolist()


def attend(attention, x, cos, sin, mask, cache, start, end):
    rows, length, _ = x.shape
    heads, kv_heads, size = attention.heads, attention.kv_heads, attention.size
    q = attention.q_norm(attention.q_proj(x).view(rows, length, heads, size)).transpose(1, 2)
    k = attention.k_norm(attention.k_proj(x).view(rows, length, kv_heads, size)).transpose(1, 2)
    v = attention.v_proj(x).view(rows, length, kv_heads, size).transpose(1, 2)
    q = q * cos + rotate_half(q) * sin
    keys, values = cache
    keys[:, :, start:end] = k * cos + rotate_half(k) * sin
    values[:, :, start:end] = v
    k = repeat_heads(keys[:, :, :end], heads // kv_heads)
    v = repeat_heads(values[:, :, :end], heads // kv_heads)
    scores = torch.matmul(q, k.transpose(2, 3)) * size**-0.5 + mask
    mixed = torch.matmul(F.softmax(scores, dim=-1), v)
    return attention.o_proj(mixed.transpose(1, 2).reshape(rows, length, -1))


def start(folder, length, threads):
    global decoder
    torch.set_num_threads(threads)
    decoder = StaticDecoder(folder, length)
    return None


def generate(prompts, count):
    """Milliseconds, tokens and log-probabilities of one batch."""
    ids = torch.tensor(prompts)
    with torch.inference_mode():
        start_cpu = time.process_time()
        begin = time.perf_counter()
        tokens, logprobs = decoder.generate(ids, count)
        wall = time.perf_counter() - begin
        cpu = time.process_time() - start_cpu
    return {"wall": 1e3 * wall, "cpu": 1e3 * cpu, "tokens": tokens, "logprobs": logprobs}


serve(start=start, generate=generate)

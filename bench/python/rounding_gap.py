"""How far two forward passes in bfloat16 that add up in another order are apart, by what is kept in float32.

  python3 rounding_gap.py models/SmolLM2-135M-Instruct

A Llama in float32 whose values are rounded to bfloat16 where an engine and a trainer round them. Before a value is rounded it is changed
by a factor of 1 + 1e-6 * noise, as another order of adding up would change it; the mean distance of log-probabilities under two noises is the gap.
Tokens are the model's own, drawn at temperature 1. Prints one line of JSON per set of places that are kept in float32.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NOISE = 1e-6
QUESTIONS = [
    "Tell me about the moon.",
    "What is 17 times 23?",
    "Write a short story about a fox.",
    "How do I boil an egg?",
]
EVERYWHERE = {"residual", "module", "norm", "query", "value", "mixed", "weights", "gate", "inner"}
KEPT = {
    "nothing": set(),
    "residual stream": {"residual"},
    "residual stream, what modules add to it": {"residual", "module"},
    "all but norms": EVERYWHERE - {"norm"},
    "all but what a product reads": EVERYWHERE - {"norm", "mixed", "inner"},
    "everything": EVERYWHERE,
}


def draw(model, tokenizer, question):
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    return model.generate(**ids, max_new_tokens=160, do_sample=True, temperature=1.0, top_k=0)[0], ids["input_ids"].shape[1]


def logprobs(model, ids, kept, seed):
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    size = config.hidden_size // heads

    def settle(values, place):
        values = values * (1 + NOISE * torch.randn(values.shape, generator=generator))
        return values if place in kept else values.bfloat16().float()

    def norm(values, module):
        scale = torch.rsqrt(values.square().mean(-1, keepdim=True) + config.rms_norm_eps)
        return settle(values * scale * module.weight, "norm")

    def rotate(values):
        half = torch.cat((-values[..., size // 2 :], values[..., : size // 2]), -1)
        return settle(values * cos + half * sin, "query")

    positions = torch.arange(len(ids))[None]
    x = model.model.embed_tokens(ids)
    cos, sin = (table[0, :, None] for table in model.model.rotary_emb(x[None], positions))
    mask = torch.full((len(ids), len(ids)), float("-inf")).triu(1)
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        y = norm(x, layer.input_layernorm)
        query, key = (settle(project(y), "query").view(len(ids), -1, size) for project in (attention.q_proj, attention.k_proj))
        value = settle(attention.v_proj(y), "value").view(len(ids), groups, size).repeat_interleave(heads // groups, 1)
        query, key = rotate(query), rotate(key).repeat_interleave(heads // groups, 1)
        scores = torch.einsum("qhd,khd->hqk", query, key) * size**-0.5 + mask
        weights = settle(scores.softmax(-1), "weights")
        mixed = settle(torch.einsum("hqk,khd->qhd", weights, value).flatten(1), "mixed")
        x = settle(x + settle(attention.o_proj(mixed), "module"), "residual")
        y = norm(x, layer.post_attention_layernorm)
        inner = torch.nn.functional.silu(settle(mlp.gate_proj(y), "gate")) * settle(mlp.up_proj(y), "gate")
        x = settle(x + settle(mlp.down_proj(settle(inner, "inner")), "module"), "residual")
    return model.lm_head(norm(x, model.model.norm)).log_softmax(-1)


def chosen(model, drawn, kept, seed):
    parts = []
    for ids, start in drawn:
        table = logprobs(model, ids, kept, seed)[start - 1 : -1]
        parts.append(table.gather(1, ids[start:, None])[:, 0])
    return torch.cat(parts)


@torch.inference_mode()
def main():
    folder = sys.argv[1]
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    drawn = [draw(model, tokenizer, question) for question in QUESTIONS]
    for name, kept in KEPT.items():
        gap = (chosen(model, drawn, kept, 1) - chosen(model, drawn, kept, 2)).abs()
        line = {"keptInFloat32": name, "tokens": len(gap), "meanGap": round(gap.mean().item(), 5), "maxGap": round(gap.max().item(), 4)}
        print(json.dumps(line), flush=True)


main()

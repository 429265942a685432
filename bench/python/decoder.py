"""Qwen3 in plain PyTorch, written as Hugging Face does it and with its parameter names."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def repeat_heads(x, repeats):
    rows, heads, length, size = x.shape
    if repeats == 1:
        return x
    return x[:, :, None].expand(rows, heads, repeats, length, size).reshape(rows, heads * repeats, length, size)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.size = config["head_dim"]
        self.q_proj = nn.Linear(width, self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, width, bias=False)
        self.q_norm = RMSNorm(self.size, config["rms_norm_eps"])
        self.k_norm = RMSNorm(self.size, config["rms_norm_eps"])

    def forward(self, x, cos, sin, mask):
        rows, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(rows, length, self.heads, self.size)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(rows, length, self.kv_heads, self.size)).transpose(1, 2)
        v = self.v_proj(x).view(rows, length, self.kv_heads, self.size).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k = repeat_heads(k, self.heads // self.kv_heads)
        v = repeat_heads(v, self.heads // self.kv_heads)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.size**-0.5 + mask
        mixed = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.o_proj(mixed.transpose(1, 2).reshape(rows, length, -1))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.mlp = MLP(config)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, config, length):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        size = config["head_dim"]
        frequencies = 1.0 / (config["rope_theta"] ** (torch.arange(0, size, 2).float() / size))
        angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        mask = torch.full((length, length), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return self.norm(x)


class CausalLM(nn.Module):
    def __init__(self, config, length):
        super().__init__()
        self.model = Model(config, length)
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)
        if config["tie_word_embeddings"]:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids):
        return self.lm_head(self.model(ids))

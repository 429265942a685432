"""A plain GRPO loop with Hugging Face transformers: the same task, prompts, group size, loss and learning rate.

Reads {model, rows, groups, groupSize, maxTokens, lengthLimit, lr, steps, warmSteps} as JSON from standard input, prints one line of JSON.
Weights are float32 under bfloat16 autocast in training, and a bfloat16 copy of them samples: as good as it gets with
`generate`, whose steps autocast would slow down. Tokens are those of replies, as the loss counts them.
"""
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

job = json.load(sys.stdin)
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = True
tokenizer = AutoTokenizer.from_pretrained(job["model"], padding_side="left")
load = dict(attn_implementation="sdpa")
policy = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32, **load).to(device).train()
sampler = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.bfloat16, **load).to(device).eval()
optimizer = torch.optim.AdamW(policy.parameters(), lr=job["lr"], weight_decay=0.0, fused=device == "cuda")
pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
options = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=job["maxTokens"],
               eos_token_id=tokenizer.eos_token_id, pad_token_id=pad, use_cache=True)


def synchronize():
    if device == "cuda":
        torch.cuda.synchronize()


def overlong(count):
    limit = job["lengthLimit"]
    excess = count - (limit["maxTokens"] - limit["bufferTokens"])
    return limit["penalty"] * min(1.0, max(0.0, excess / limit["bufferTokens"]))


def rollout(rows):
    texts = [tokenizer.apply_chat_template([{"role": "user", "content": row["question"]}], tokenize=False,
                                           add_generation_prompt=True) for row in rows]
    prompts = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
    size = job["groupSize"]
    mask = prompts.attention_mask.repeat_interleave(size, 0)
    ids = prompts.input_ids.repeat_interleave(size, 0)
    with torch.no_grad():
        tokens = sampler.generate(input_ids=ids, attention_mask=mask, **options)
    start = ids.shape[1]
    replies = tokens[:, start:]
    ended = (replies == tokenizer.eos_token_id).int()
    # The token that ends a reply is part of it; what follows is not.
    loss_mask = (ended.cumsum(1) - ended) == 0
    texts = tokenizer.batch_decode(replies.masked_fill(~loss_mask, pad), skip_special_tokens=True)
    truths = [row["truth"] for row in rows for _ in range(size)]
    counts = loss_mask.sum(1).tolist()
    rewards = [sum(word in text.lower() for word in truth) / len(truth) - overlong(count)
               for text, truth, count in zip(texts, truths, counts)]
    return tokens, torch.cat([mask, loss_mask.long()], 1), loss_mask, start, torch.tensor(rewards, device=device)


def train(tokens, attention, loss_mask, start, rewards):
    groups = rewards.view(-1, job["groupSize"])
    advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-6)).view(-1, 1)
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        hidden = policy.model(input_ids=tokens, attention_mask=attention, position_ids=positions,
                              use_cache=False).last_hidden_state
        logits = policy.lm_head(hidden[:, start - 1:-1])
    logprobs = -torch.nn.functional.cross_entropy(logits.float().transpose(1, 2), tokens[:, start:], reduction="none")
    ratio = (logprobs - logprobs.detach()).exp()
    objective = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    lengths = loss_mask.sum(1).clamp(min=1)
    loss = -((objective * loss_mask).sum(1) / lengths).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()


def publish():
    with torch.no_grad():
        for target, source in zip(sampler.parameters(), policy.parameters()):
            target.copy_(source)


curve, seconds = [], {"rollout": 0.0, "train": 0.0, "sync": 0.0}
tokens_counted = 0
for step in range(job["steps"]):
    rows = job["rows"][step * job["groups"]:(step + 1) * job["groups"]]
    synchronize()
    times = [time.perf_counter()]
    batch = rollout(rows)
    synchronize()
    times.append(time.perf_counter())
    train(*batch)
    synchronize()
    times.append(time.perf_counter())
    publish()
    synchronize()
    times.append(time.perf_counter())
    count = int(batch[2].sum())
    curve.append({"step": step + 1, "reward": float(batch[4].mean()), "tokens": count})
    if step < job["warmSteps"]:
        continue
    tokens_counted += count
    for stage, begin, end in zip(seconds, times, times[1:]):
        seconds[stage] += end - begin

total = sum(seconds.values())
counted = max(1, job["steps"] - job["warmSteps"])
print(json.dumps({
    "steps": job["steps"], "tokens": tokens_counted, "seconds": total, "tokensPerSecond": round(tokens_counted / total),
    "millisecondsPerStep": {stage: 1000 * value / counted for stage, value in seconds.items()}, "curve": curve,
}))

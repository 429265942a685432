#!/bin/sh
# Brings every number of one GPU up to date: our side and Hugging Face's in the same run, one JSON file each.
# Usage, on the GPU machine: sh all.sh <bundle> <folder for results> [model folder]
#   <bundle> is what `npm run bundle` made of kernels, masked-draws, decode, steps, prefill, exact, fp8 and train-step: see bench/README.md.
#   The model folder is a real chat model, SmolLM2-135M-Instruct in ours, for the gap between engine and trainer.
set -e
bundle=$1
out=$2
model=$3
python="$(dirname "$0")/../python"
mkdir -p "$out"
sh "$bundle/run.sh" kernels
sh "$bundle/run.sh" masked-draws
sh "$bundle/run.sh" decode --hf "$python/hf_generate.py" --out "$out/gpu-decode.json"
sh "$bundle/run.sh" steps --out "$out/gpu-steps.json"
sh "$bundle/run.sh" prefill --out "$out/gpu-prefill.json"
sh "$bundle/run.sh" exact --out "$out/gpu-exact-shape.json"
[ -z "$model" ] || sh "$bundle/run.sh" exact --model "$model" --out "$out/gpu-exact.json"
if [ -z "$model" ]; then sh "$bundle/run.sh" fp8 --parts check,steps --out "$out/gpu-fp8.json"; else sh "$bundle/run.sh" fp8 --model "$model" --out "$out/gpu-fp8.json"; fi
sh "$bundle/run.sh" train-step --hf "$python/hf_train_step.py" --compiled --out "$out/gpu-train-step.json"

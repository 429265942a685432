#!/bin/sh
# Brings the numbers of one GPU up to date in one go, peers in the same run: a file of results and a log for each script, and a table at the end.
# Usage: sh bench/gpu/all.sh <bundle> <folder for results> [model folder]
#   <bundle>: what `npm run bundle` made of bench/gpu/{kernels,check-chain,tuned-products,gated-product,masked-draws,attention,few-rows,decode,steps,prefill,exact,fp8,train-step,trainer-step,loop,summary}.ts, or "." for
#     the sources of this checkout. A script that fails or runs longer than its limit is named at the end, and the others go on.
#   VLLM=env.sh runs vLLM beside decoding and prompts: a file that makes it known to python3.
#   The model folder is a real chat model, SmolLM2-135M-Instruct in ours: for the gap between engine and trainer, and the whole loop.
#   ONLY="train-step loop" runs those alone. LIMIT=300: seconds that each may take. PEERS=no leaves Python out.
# Without a GPU only scripts that have a tiny form run, to see that they do.
[ $# -ge 2 ] || { echo "Usage: sh bench/gpu/all.sh <bundle> <folder for results> [model folder]" >&2; exit 2; }
bundle=$1
out=$2
model=${3:-}
limit=${LIMIT:-300}
here=$(dirname "$0")
python="$here/../python"
mkdir -p "$out"
everything="chain decode decode-7B decode-7B-many train-step train-step-7B prefill exact-shape vllm-7B loop exact trainer-step tuned-products gated-product train-step-compiled vllm loop-waits few-rows steps kernels fp8 masked-draws attention decode-peers"
[ -e /dev/nvidia0 ] || everything="train-step trainer-step loop"
failed=""

# go <name> <script> [arguments]: runs a script unless others were asked for.
go() {
  name=$1
  script=$2
  shift 2
  case " ${ONLY:-$everything} " in *" $name "*) ;; *) return ;; esac
  printf '%s ' "$name"
  started=$(date +%s)
  if [ -f "$bundle/run.sh" ]; then
    timeout -s KILL "$limit" sh "$bundle/run.sh" "$script" "$@" > "$out/$name.log" 2>&1
  else
    timeout -s KILL "$limit" node --import tsx "$here/$script.ts" "$@" > "$out/$name.log" 2>&1
  fi || failed="$failed $name"
  echo "$(($(date +%s) - started)) s"
}

# peers <arguments>: those that start the Python side, unless it is left out.
peers() { [ "${PEERS:-yes}" = no ] || [ ! -e /dev/nvidia0 ] || echo "$@"; }

# vllm <name> <shape>: the same shape through vLLM.
vllm() {
  case " ${ONLY:-$everything} " in *" $1 "*) ;; *) return ;; esac
  [ -n "${VLLM:-}" ] || return 0
  printf '%s ' "$1"
  started=$(date +%s)
  (
    . "$VLLM"
    timeout -s KILL "$limit" python3 "$python/vllm_decode.py" "$(mktemp -d)" "$2" > "$out/$1.log" 2> "$out/$1.errors.log"
  ) || failed="$failed $1"
  echo "$(($(date +%s) - started)) s"
  grep '^{' "$out/$1.log"
}

go chain check-chain --shapes 0.5B,1.5B --rows 1,4,16,64,100,256
go decode decode --out "$out/gpu-decode.json"
go decode-7B decode --shape 7B --only 1,16,64,256 --out "$out/gpu-decode-7B.json"
go decode-7B-many decode --shape 7B --only 1024 --prompt 256 --tokens 48 --out "$out/gpu-decode-7B-many.json"
go train-step train-step $(peers --hf "$python/hf_train_step.py") --out "$out/gpu-train-step.json"
go train-step-7B train-step --shape 7B --moments 8-bit --steps 4 --only recomputed --out "$out/gpu-train-step-7B.json"
go prefill prefill --out "$out/gpu-prefill.json"
go exact-shape exact --out "$out/gpu-exact-shape.json"
vllm vllm-7B 7B
[ -z "$model" ] || go loop loop --model "$model" --waits 0 --out "$out/gpu-loop.json"
[ -z "$model" ] || go exact exact --model "$model" --out "$out/gpu-exact.json"
[ -z "$model" ] || go trainer-step trainer-step --tokenizer "$model" $([ -e /dev/nvidia0 ] || echo --small) --out "$out/gpu-trainer-step.json"
go tuned-products tuned-products --out "$out/gpu-tuned-products.json"
go gated-product gated-product --out "$out/gpu-gated-product.json"
[ -z "$(peers yes)" ] || go train-step-compiled train-step --only none --hf "$python/hf_train_step.py" --compiled --out "$out/gpu-train-step-compiled.json"
vllm vllm 0.5B
[ -z "$model" ] || go loop-waits loop --model "$model" --waits 3000 --steps 6 --out "$out/gpu-loop-waits.json"
go few-rows few-rows --lengths 1024,4096 --out "$out/gpu-few-rows.json"
go steps steps --out "$out/gpu-steps.json"
go kernels kernels
go fp8 fp8 $([ -z "$model" ] && echo --parts check,steps || echo --model "$model") --out "$out/gpu-fp8.json"
go masked-draws masked-draws
go attention attention --out "$out/gpu-attention.json"
[ -z "$(peers yes)" ] || go decode-peers decode --hf "$python/hf_generate.py" --out "$out/gpu-decode-peers.json"
everything=summary ONLY=summary go summary summary "$out"
cat "$out/summary.log"
[ -z "$failed" ] || { echo "failed, or took longer than $limit s:$failed (see the logs in $out)"; exit 1; }

# What the scripts of this folder share: the quickstart, few steps of it, over two nodes, and a look at how it ended. Sourced, not run.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
main="$root/dist/cli/main.js"
work="$(mktemp -d)"
export REROLL_HOME="$work"
# The quickstart itself, cut short: what is shown is that it runs, not that it learns.
quickstart=("$root/examples/recipes/frozen-lake.ts")
short=(--set loop.steps=2 --set warmStart.steps=2 --set validation=null --set rollout.groupsPerStep=16)

skip() {
  echo "skipped: $*"
  exit 0
}

need() {
  command -v "$1" > /dev/null || skip "$1 is not here ($2)"
}

# wait_for <what> <seconds> <command>...: the command until it succeeds. Limits are for busy machines: idle ones need a tenth.
wait_for() {
  local what="$1" end=$((SECONDS + $2))
  shift 2
  until "$@"; do
    if ((SECONDS > end)); then
      echo "failed: $what took too long"
      tail -n 40 "$work"/*.log "$work"/slurm/log/*.log 2> /dev/null || true
      exit 1
    fi
    sleep 1
  done
}

reroll() { node "$main" "$@"; }
# A scheduler that is too busy to answer is asked again.
has_ended() { [[ "$(reroll status 2> /dev/null | awk -v name="$1" '$1 == name { print $NF }')" =~ finished|failed|stopped|unknown ]]; }
is_stopped() { reroll status 2> /dev/null | grep -q "^$1 .* stopped$"; }
has_begun() { reroll logs "$1" 2> /dev/null | grep -q "step 1/"; }

[ -f "$main" ] || skip "there is no dist (npm run setup)"

expect_finished() {
  grep -q '"status": *"finished"' "$work/runs/$1/run.json" || { cat "$work/runs/$1/run.json"; echo "failed: $1 did not finish"; exit 1; }
  [ -d "$work/runs/$1/checkpoints/step-000002" ] || { echo "failed: $1 has no checkpoint of step 2"; exit 1; }
  echo "ok: $1 finished"
}

# The largest difference between the weights of two runs.
compare_weights() {
  node --input-type=module - "$work/runs/$1/checkpoints/step-000002/model" "$work/runs/$2/checkpoints/step-000002/model" <<'NODE'
import { readFileSync } from "node:fs";
const [one, other] = process.argv.slice(2).map((folder) => {
  const bytes = readFileSync(`${folder}/model.safetensors`);
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  return new Float32Array(Uint8Array.from(bytes.subarray(start)).buffer);
});
const gap = one.reduce((most, value, i) => Math.max(most, Math.abs(value - other[i])), 0);
console.log(`largest difference of ${one.length} weights: ${gap.toExponential(2)}`);
if (!(one.length > 0 && gap < 1e-5)) process.exit(1);
NODE
}

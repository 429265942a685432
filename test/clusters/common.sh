# What the scripts of this folder share: the quickstart, few steps of it, over two nodes, and a look at how it ended. Sourced, not run.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
main="$root/dist/cli/main.js"
work="$(mktemp -d)"
export REROLL_HOME="$work"
# The quickstart itself, cut short: what is shown is that it runs, not that it learns.
quickstart=("$root/examples/recipes/frozen-lake.ts")
short=(--set loop.steps=2 --set warmStart.steps=2 --set validation=null --set rollout.groupsPerStep=16)

# A run that parts of are killed: long enough for it, with checkpoints that it goes on from.
lasting_steps=12
lasting=(--set loop.steps=$lasting_steps --set checkpoint.every=1 --set warmStart.steps=2 --set validation=null --set rollout.groupsPerStep=4 --set training.minibatch=0)

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

# has_reached <run> <step>: whether it has a checkpoint of that step or a later one.
has_reached() {
  local last
  last="$(ls "$work/runs/$1/checkpoints" 2> /dev/null | sed -n 's/^step-0*\([0-9]\+\)$/\1/p' | sort -n | tail -1)"
  ((${last:-0} >= $2))
}

# processes_of <run> [<rank> <watching|watched>]: all processes of reroll train, or of one rank the parent of --restarts or its child.
processes_of() {
  local pid words
  for pid in $(pgrep -f "$main train .*$1" || true); do
    words="$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline")" || continue
    # Not the launchers, which have the same words.
    [[ "${words%% *}" == *node ]] || continue
    # Nor the runs of another script of these, which have the same names.
    tr '\0' '\n' 2> /dev/null < "/proc/$pid/environ" | grep -qxF "REROLL_HOME=$work" || continue
    if (($# > 1)); then
      tr '\0' '\n' 2> /dev/null < "/proc/$pid/environ" | grep -qE "^(RANK|SLURM_PROCID)=$2$" || continue
      if [[ "$words" == *" --supervised"* ]]; then [ "$3" = watched ] || continue; else [ "$3" = watching ] || continue; fi
    fi
    echo "$pid"
  done
}
has_process() { [ -n "$(processes_of "$@")" ]; }
has_none() { ! has_process "$@"; }

kill_process() {
  wait_for "the process of rank $2 of $1" 300 has_process "$@"
  echo "kill -9: rank $2 of $1, the process that is $3"
  # A fork that is not yet another program looks like its parent, and may be gone.
  kill -9 $(processes_of "$@") 2> /dev/null || true
}

# expect_survived <run> <run that nothing happened to>: finished, every step there once, and the same weights to the bit.
expect_survived() {
  local steps last
  last="checkpoints/step-$(printf %06d "$lasting_steps")/model/model.safetensors"
  grep -q '"status": *"finished"' "$work/runs/$1/run.json" || { cat "$work/runs/$1/run.json"; echo "failed: $1 did not finish"; exit 1; }
  steps="$(grep '"kind":"train"' "$work/runs/$1/metrics.jsonl" | sed 's/^{"step":\([0-9]*\),.*/\1/' | tr '\n' ' ')"
  [ "$steps" = "$(seq -s ' ' 1 "$lasting_steps") " ] || { echo "failed: $1 has the steps $steps"; exit 1; }
  cmp "$work/runs/$1/$last" "$work/runs/$2/$last"
  echo "ok: $1 has every step once, and the weights of $2 to the bit"
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

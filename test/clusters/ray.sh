#!/bin/bash
# A Ray cluster of two nodes on this machine, and a job on both: bash test/clusters/ray.sh
source "$(dirname "$0")/common.sh"
need ray 'pip install "ray[default]"'
export RAY_TMPDIR="$work/ray"
mkdir -p "$RAY_TMPDIR"
# In the foreground of shells of their own, to be ended by number: ray stop would end those of others too.
ray start --block --head --port=6399 --num-cpus=1 --dashboard-host=127.0.0.1 --dashboard-port=8299 --disable-usage-stats --temp-dir "$RAY_TMPDIR" > "$work/head.log" 2>&1 &
head=$!
trap 'kill $head ${second:-}; wait $head ${second:-}; rm -rf "$work"' EXIT
until curl --silent --fail --output /dev/null http://127.0.0.1:8299/api/version; do sleep 1; done
ray start --block --address=127.0.0.1:6399 --num-cpus=1 --disable-usage-stats > "$work/second.log" 2>&1 &
second=$!
reroll() { node "$main" "$@"; }
state() { reroll status | awk '$1 == "frozen-lake" { print $NF }'; }
reroll submit "${quickstart[@]}" --to ray --nodes 2 --option address=http://127.0.0.1:8299 "${short[@]}"
until [[ "$(state)" =~ finished|failed|stopped|unknown ]]; do sleep 3; done
reroll logs frozen-lake
reroll status
expect_finished frozen-lake
# A job that is stopped.
reroll submit "${quickstart[@]}" --to ray --nodes 2 --option address=http://127.0.0.1:8299 --name stopped --set warmStart=null
until reroll logs stopped | grep -q "step 1/"; do sleep 2; done
reroll stop stopped
until reroll status | grep -q "^stopped .* stopped$"; do sleep 2; done
echo "ok: the second job was stopped"

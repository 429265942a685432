#!/bin/bash
# Two and four nodes with addresses of their own, in network namespaces: the weights are those of one process; a link that is cut ends the
# run with an error, and --resume auto goes on. As root: bash test/clusters/namespaces.sh
source "$(dirname "$0")/common.sh"
need ip "apt-get install iproute2"
[ "$(id -u)" = 0 ] || skip "network namespaces want root"
ip netns add reroll-probe 2> /dev/null || skip "this machine has no network namespaces"
ip netns delete reroll-probe
export REROLL_TOKEN="$(openssl rand -hex 16)"
# An epsilon above the rounding of gradients, which AdamW divides by.
exact=(--set training.optimizer.eps=1e-3)

end() {
  for node in 0 1 2 3; do ip netns delete "reroll-$node" 2> /dev/null || true; done
  ip link delete reroll-br 2> /dev/null || true
  rm -rf "$work"
}
trap end EXIT
ip link add reroll-br type bridge
ip link set reroll-br up
for node in 0 1 2 3; do
  ip netns add "reroll-$node"
  ip link add "reroll-v$node" type veth peer name eth0 netns "reroll-$node"
  ip link set "reroll-v$node" master reroll-br up
  ip -n "reroll-$node" link set lo up
  ip -n "reroll-$node" address add "10.77.0.$((node + 1))/24" dev eth0
  ip -n "reroll-$node" link set eth0 up
done

# node_of <rank> <size> <words>: one process in the namespace of its rank.
node_of() {
  local rank="$1" size="$2"
  shift 2
  ip netns exec "reroll-$rank" env RANK="$rank" WORLD_SIZE="$size" MASTER_ADDR=10.77.0.1 node "$main" train "${quickstart[@]}" "$@"
}
run_on() {
  local size="$1" name="$2"
  local processes=()
  for ((rank = 1; rank < size; rank++)); do
    node_of "$rank" "$size" --name "$name" "${short[@]}" "${exact[@]}" > "$work/$name-$rank.log" 2>&1 &
    processes+=($!)
  done
  node_of 0 "$size" --name "$name" "${short[@]}" "${exact[@]}" > "$work/$name-0.log" 2>&1 || { cat "$work/$name-"*.log; exit 1; }
  for process in "${processes[@]}"; do wait "$process"; done
  expect_finished "$name"
}

node "$main" train "${quickstart[@]}" --name alone "${short[@]}" "${exact[@]}" > /dev/null
for size in 2 4; do
  run_on "$size" "nodes-$size"
  compare_weights alone "nodes-$size"
done

# A link that is cut in the middle of a run.
long=(--name cut --set loop.steps=100000 --set warmStart=null --set validation=null --set rollout.groupsPerStep=16 --set checkpoint.every=1)
node_of 1 2 "${long[@]}" > "$work/cut-1.log" 2>&1 &
worker=$!
node_of 0 2 "${long[@]}" > "$work/cut-0.log" 2>&1 &
controller=$!
until [ -d "$work/runs/cut/checkpoints/step-000001" ]; do sleep 0.2; done
ip link set reroll-v1 down
start=$SECONDS
wait "$controller" && { echo "failed: a run without its worker went on"; exit 1; }
echo "the run ended $((SECONDS - start)) seconds after its link was cut: $(grep '^error' "$work/cut-0.log")"
[ $((SECONDS - start)) -le 60 ] || { echo "failed: that took too long"; exit 1; }
grep -q "gave no sign of life for 30 seconds" "$work/cut-0.log"
ip link set reroll-v1 up
# The worker notices as soon as it hears of the controller that is gone.
wait "$worker" && { echo "failed: a worker without its controller went on"; exit 1; }
last="$(ls "$work/runs/cut/checkpoints" | grep -E '^step-[0-9]+$' | sort | tail -1 | grep -oE '[0-9]+' | sed 's/^0*//')"
again=("${long[@]}" --resume auto --set loop.steps=$((last + 1)))
node_of 1 2 "${again[@]}" > "$work/again-1.log" 2>&1 &
node_of 0 2 "${again[@]}" > "$work/again-0.log" 2>&1
wait $!
grep -q '"status": *"finished"' "$work/runs/cut/run.json"
echo "ok: it went on from step $last"

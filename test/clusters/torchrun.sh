#!/bin/bash
# torchrun on two nodes of this machine, one rank each; parts of a run are killed, and it ends as one that nothing happened to:
# bash test/clusters/torchrun.sh
source "$(dirname "$0")/common.sh"
need torchrun "it comes with torch: pip install torch"
torchrun --standalone --no_python true > /dev/null 2>&1 || skip "this torchrun starts nothing, as that of torch 1.13 with Python 3.11"
export REROLL_TOKEN="$(openssl rand -hex 16)"
trap 'kill $(jobs -p) 2> /dev/null || true; wait || true; rm -rf "$work"' EXIT
port=29630
# agent <node> <words>...: the agent of a node. Nothing comes between it and reroll, so that it is noticed when one of them dies.
agent() {
  local node="$1"
  shift
  exec torchrun --no_python --nnodes 2 --node_rank "$node" --nproc_per_node 1 --master_addr 127.0.0.1 --master_port "$port" --max_restarts 3 \
    node "$main" train "${quickstart[@]}" --resume auto --restarts 5 "$@"
}
on_both() {
  agent 1 "$@" &
  local other=$!
  (agent 0 "$@")
  wait "$other"
}
on_both "${short[@]}"
expect_finished frozen-lake

port=29640
on_both "${lasting[@]}" --name whole > "$work/whole.log" 2>&1
port=29650
agent 0 "${lasting[@]}" --name killed > "$work/killed-0.log" 2>&1 &
first=$!
agent 1 "${lasting[@]}" --name killed > "$work/killed-1.log" 2>&1 &
second=$!
wait_for "a checkpoint" 1200 has_reached killed 1
kill_process killed 0 watched
wait_for "the next checkpoint" 1200 has_reached killed 2
kill_process killed 1 watching
wait_for "the next checkpoint" 1200 has_reached killed 3
echo "kill -9: the agent of node 1, which is started again"
kill -9 "$second"
agent 1 "${lasting[@]}" --name killed > "$work/killed-again.log" 2>&1 &
second=$!
wait "$first" "$second" || { tail -n 40 "$work"/killed*.log; echo "failed: an agent has ended with an error"; exit 1; }
expect_survived killed whole

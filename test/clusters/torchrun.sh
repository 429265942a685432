#!/bin/bash
# torchrun on two nodes of this machine, one rank each: bash test/clusters/torchrun.sh
source "$(dirname "$0")/common.sh"
need torchrun "it comes with torch: pip install torch"
torchrun --standalone --no_python true > /dev/null 2>&1 || skip "this torchrun starts nothing, as that of torch 1.13 with Python 3.11"
export REROLL_TOKEN="$(openssl rand -hex 16)"
node_of() {
  torchrun --no_python --nnodes 2 --node_rank "$1" --nproc_per_node 1 --master_addr 127.0.0.1 --master_port 29630 --max_restarts 1 \
    node "$main" train "${quickstart[@]}" --resume auto "${short[@]}"
}
node_of 1 &
node_of 0
wait $!
expect_finished frozen-lake
rm -rf "$work"

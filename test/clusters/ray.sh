#!/bin/bash
# A Ray cluster of two nodes on this machine, and jobs on both, one with parts that are killed: bash test/clusters/ray.sh
source "$(dirname "$0")/common.sh"
need ray 'pip install "ray[default]"'
export RAY_TMPDIR="$work/ray"
mkdir -p "$RAY_TMPDIR"
# Ray takes a node that is silent for seconds for dead, and an agent that does not register in half a minute for broken. On a busy machine neither is.
export RAY_health_check_timeout_ms=120000 RAY_health_check_failure_threshold=20 RAY_health_check_initial_delay_ms=60000
# Nor have jobs to wait for everybody else's processes: a niceness of 15 is what Ray would give them.
export RAY_worker_niceness=0
export RAY_raylet_start_wait_time_s=300 RAY_worker_register_timeout_seconds=600 RAY_agent_register_timeout_ms=600000 RAY_gcs_server_request_timeout_seconds=300
# In the foreground of shells of their own, to be ended by number: ray stop would end those of others too.
ray start --block --head --port=6399 --num-cpus=1 --dashboard-host=127.0.0.1 --dashboard-port=8299 --disable-usage-stats --temp-dir "$RAY_TMPDIR" > "$work/head.log" 2>&1 &
head=$!
trap 'kill $head ${second:-} || true; wait $head ${second:-} || true; rm -rf "$work"' EXIT
wait_for "Ray's dashboard" 600 curl --silent --fail --output /dev/null http://127.0.0.1:8299/api/version
second_node() {
  ray start --block --address=127.0.0.1:6399 --num-cpus=1 --disable-usage-stats >> "$work/second.log" 2>&1 &
  second=$!
}
second_node
reroll submit "${quickstart[@]}" --to ray --nodes 2 --option address=http://127.0.0.1:8299 "${short[@]}"
wait_for "the end of the job" 1200 has_ended frozen-lake
reroll logs frozen-lake
reroll status
expect_finished frozen-lake
# A rank is killed, then a node, and then the driver.
# The shell that Ray starts holds the whole driver in its words, and so the folder of the job.
driver_of() {
  local shell
  for shell in $(pgrep -f "ray $work/jobs/$1"); do pgrep -P "$shell" -x python3 || true; done
}
submit() { reroll submit "${quickstart[@]}" --to ray --nodes 2 --option address=http://127.0.0.1:8299 "$@"; }
submit --name whole "${lasting[@]}"
wait_for "the end of the job" 1200 has_ended whole
submit --name killed "${lasting[@]}"
wait_for "a checkpoint" 1200 has_reached killed 1
kill_process killed 1 watching
wait_for "the next checkpoint" 1200 has_reached killed 2
echo "kill -9: the raylet of the second node, which is started again"
kill -9 $(pgrep -P "$second" raylet)
wait "$second" || true
second_node
wait_for "the next checkpoint" 1200 has_reached killed 3
echo "kill -9: the driver"
kill -9 $(driver_of killed)
wait_for "the end of the job" 1200 has_ended killed
expect_survived killed whole
# A job that is stopped.
submit --name stopped --set warmStart=null
wait_for "the first step of the second job" 1200 has_begun stopped
reroll stop stopped
wait_for "the end of the second job" 300 is_stopped stopped
wait_for "the end of its processes" 60 has_none stopped
echo "ok: the second job was stopped"

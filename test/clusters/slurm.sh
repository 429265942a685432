#!/bin/bash
# A Slurm cluster of two nodes on this machine, and jobs on both, one with parts that are killed: as root, bash test/clusters/slurm.sh
source "$(dirname "$0")/common.sh"
need sbatch "apt-get install slurm-wlm munge"
need munged "apt-get install slurm-wlm munge"
[ "$(id -u)" = 0 ] || skip "the daemons of Slurm want root"
mkdir -p "$work/slurm/state" "$work/slurm/log" /run/munge
cat > "$work/slurm/slurm.conf" <<CONF
ClusterName=reroll
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
AuthType=auth/munge
CredType=cred/munge
SlurmctldPort=6827
SlurmctldPidFile=$work/slurm/ctld.pid
SlurmdPidFile=$work/slurm/slurmd.%n.pid
SlurmdSpoolDir=$work/slurm/spool.%n
StateSaveLocation=$work/slurm/state
SlurmctldLogFile=$work/slurm/log/ctld.log
SlurmdLogFile=$work/slurm/log/slurmd.%n.log
NodeName=n[0-1] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[7110-7111] CPUs=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$work/slurm/slurm.conf"
chown munge: /run/munge
ownMunge=""
if [ ! -S /run/munge/munge.socket.2 ]; then
  su munge -s /bin/sh -c /usr/sbin/munged
  ownMunge=1
fi
end() {
  local pid pids
  pids="$(cat "$work"/slurm/*.pid 2> /dev/null || true)"
  for pid in $pids; do kill "$pid" || true; done
  # They write their state on the way out.
  for pid in $pids; do timeout 30 tail --pid="$pid" -f /dev/null || true; done
  [ -z "$ownMunge" ] || kill "$(cat /run/munge/munged.pid)" || true
}
trap 'end; rm -rf "$work"' EXIT
slurmctld
slurmd -N n0
slurmd -N n1
are_idle() { [ "$(sinfo --noheader --format '%D %t' 2> /dev/null | tr -d '\n')" = "2 idle" ]; }
wait_for "two idle nodes" 300 are_idle
reroll submit "${quickstart[@]}" --to slurm --nodes 2 "${short[@]}"
wait_for "the end of the job" 1200 has_ended frozen-lake
reroll logs frozen-lake
reroll status
expect_finished frozen-lake
# A task is killed, and later a node fails: Slurm puts the job back into its queue.
reroll submit "${quickstart[@]}" --to slurm --nodes 2 --name whole "${lasting[@]}"
reroll submit "${quickstart[@]}" --to slurm --nodes 2 --name killed "${lasting[@]}"
wait_for "a checkpoint" 1200 has_reached killed 1
kill_process killed 1 watching
wait_for "the next checkpoint" 1200 has_reached killed 2
job="$(squeue --noheader --name killed --format %A)"
echo "node n1 fails"
scontrol update nodename=n1 state=down reason=test
is_waiting() { reroll status | grep -q "^killed .* waiting$"; }
wait_for "the job to be queued again" 300 is_waiting
scontrol update nodename=n1 state=resume 2> /dev/null || true
# Slurm lets a job wait for two minutes before it begins again.
wait_for "an earlier beginning" 120 scontrol update "jobid=$job" starttime=now
wait_for "the end of the job" 1200 has_ended killed
expect_survived killed whole
reroll status
[ "$(reroll status | awk '$1 == "killed" { print $NF }')" = finished ]
# A job that is stopped.
reroll submit "${quickstart[@]}" --to slurm --nodes 2 --name stopped --set warmStart=null
wait_for "the first step of the second job" 1200 has_begun stopped
reroll stop stopped
wait_for "the end of the second job" 300 is_stopped stopped
wait_for "the end of its processes" 60 has_none stopped
echo "ok: the second job was stopped"

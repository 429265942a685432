#!/bin/bash
# A Slurm cluster of two nodes on this machine, and a job on both: as root, bash test/clusters/slurm.sh
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
# A job that is stopped.
reroll submit "${quickstart[@]}" --to slurm --nodes 2 --name stopped --set warmStart=null
wait_for "the first step of the second job" 1200 has_begun stopped
reroll stop stopped
wait_for "the end of the second job" 300 is_stopped stopped
echo "ok: the second job was stopped"

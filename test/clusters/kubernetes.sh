#!/bin/bash
# Jobs of two pods in a cluster that kubectl reaches and that has JobSet: one that ends, one whose pod is killed, one that is stopped.
# bash test/clusters/kubernetes.sh <image> <claim> [namespace]: the image has reroll installed, any node may mount the claim.
source "$(dirname "$0")/common.sh"
need kubectl "https://kubernetes.io/docs/tasks/tools"
kubectl get --raw /readyz --request-timeout=60s > /dev/null 2>&1 || skip "kubectl reaches no cluster"
kubectl get crd jobsets.jobset.x-k8s.io > /dev/null 2>&1 || skip "the cluster has no JobSet (https://jobset.sigs.k8s.io)"
[ $# -ge 2 ] || skip "no image and no claim were named"
image="$1" claim="$2" namespace="${3:-default}"
in_cluster() { kubectl --namespace "$namespace" "$@"; }
in_cluster get "persistentvolumeclaim/$claim" > /dev/null 2>&1 || skip "the namespace $namespace has no claim $claim"

# Others may use the namespace and the volume too.
id="try$RANDOM"
files="$id-files"
end() {
  for name in ended killed stopped pending; do reroll stop "$id-$name" > /dev/null 2>&1 || true; done
  in_volume sh -c "rm -rf '$id.ts' runs/$id-*" || true
  in_cluster delete pod "$files" --ignore-not-found --grace-period=1 > /dev/null || true
  rm -rf "$work"
}
trap end EXIT

# A pod that shows the volume.
in_cluster create --filename - <<POD
apiVersion: v1
kind: Pod
metadata: { name: $files }
spec:
  restartPolicy: Never
  containers:
    - { name: files, image: "$image", command: [sleep, infinity], workingDir: /workspace, volumeMounts: [{ name: work, mountPath: /workspace }] }
  volumes: [{ name: work, persistentVolumeClaim: { claimName: $claim } }]
POD
in_cluster wait "pod/$files" --for=condition=Ready --timeout=600s
in_volume() { in_cluster exec --stdin "$files" -- "$@"; }
fetch() { in_volume tar -cf - "runs/$1" | tar -xf - -C "$work"; }

# The folder that is submitted from; the volume stands for it.
cd "$work"
cp "${quickstart[0]}" "$id.ts"
in_volume sh -c "cat > '$id.ts'" < "$id.ts"
submit() { reroll submit "$id.ts" --to kubernetes --nodes 2 --option "claim=$claim" --option "namespace=$namespace" "$@"; }
pod_of() { in_cluster get pods --selector "jobset.sigs.k8s.io/jobset-name=$1,batch.kubernetes.io/job-completion-index=$2" --output name; }
state_of() { reroll status 2> /dev/null | awk -v name="$1" '$1 == name { print $NF }'; }

submit --option "image=$image" --name "$id-ended" --dry-run "${short[@]}" | in_cluster create --dry-run=server --filename -
submit --option "image=$image" --name "$id-ended" "${short[@]}"
wait_for "the end of the job" 1200 has_ended "$id-ended"
reroll logs "$id-ended"
reroll status
fetch "$id-ended"
expect_finished "$id-ended"

# The same name once more is another job.
submit --option "image=$image" --name "$id-ended" "${short[@]}"
[ "$(state_of "$id-ended")" = finished ]
[ "$(state_of "$id-ended-2")" != finished ]
reroll stop "$id-ended-2"
[ "$(state_of "$id-ended")" = finished ]
echo "ok: a second job of the same name leaves the first one alone"

# A pod that is killed: JobSet starts both again, and the run goes on from its checkpoint.
steps=8
submit --option "image=$image" --name "$id-killed" --set loop.steps=$steps --set warmStart=null --set validation=null --set rollout.groupsPerStep=16 --set checkpoint.every=1
# Past the one of step 0.
wait_for "a checkpoint" 1200 in_volume sh -c "ls runs/$id-killed/checkpoints 2> /dev/null | grep -q '^step-.*[1-9]$'" 2> /dev/null
in_cluster delete --force --grace-period=0 "$(pod_of "$id-killed" 1)"
wait_for "the end of the job" 1800 has_ended "$id-killed"
[ "$(in_cluster get "jobset/$id-killed" --output 'jsonpath={.status.restarts}')" -ge 1 ] || { echo "failed: JobSet restarted nothing"; exit 1; }
fetch "$id-killed"
grep -q '"status": *"finished"' "$work/runs/$id-killed/run.json" || { echo "failed: the run did not finish"; exit 1; }
log="$(reroll logs "$id-killed")"
grep -q "step $steps/$steps" <<< "$log" || { echo "failed: the last step is missing"; exit 1; }
grep -q "step 1/$steps" <<< "$log" && { echo "failed: the run began again"; exit 1; }
echo "ok: the run went on after its pod was killed"

# A job that is stopped.
submit --option "image=$image" --name "$id-stopped" --set warmStart=null
wait_for "the first step of the job" 1200 has_begun "$id-stopped"
[ "$(state_of "$id-stopped")" = running ]
reroll stop "$id-stopped"
wait_for "the end of the job" 300 is_stopped "$id-stopped"
[ -z "$(in_cluster get jobset,secret,pod --selector "jobset.sigs.k8s.io/jobset-name=$id-stopped" --output name)" ]
echo "ok: the job was stopped"

# One whose pods cannot start waits.
submit --option image=example.invalid/reroll:0 --name "$id-pending" "${short[@]}"
is_pending() { in_cluster get pods --selector "jobset.sigs.k8s.io/jobset-name=$id-pending" --no-headers | grep -qE 'ErrImagePull|ImagePullBackOff'; }
wait_for "pods that have no image" 600 is_pending
[ "$(state_of "$id-pending")" = waiting ] || { echo "failed: a job whose pods cannot start is $(state_of "$id-pending")"; exit 1; }
reroll logs "$id-pending"
echo "ok: a job whose pods cannot start waits"

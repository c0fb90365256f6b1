# Cases of the bed kubernetes: resources, evictions, Jobs, static pods, and what happens to pods when the kubelet,
# containerd or a shim is killed.
# shellcheck shell=sh
# Variables of the other files; heredocs with `$` for the shell of a container.
# shellcheck disable=SC2154,SC2016,SC2034

group_resources() {
    {
        box resize:Always "[sleep, '1000']" \
            'resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}'
        box oom 'head -c 200m /dev/zero | tail | wc -c; exec tail /dev/zero' 'resources: {limits: {memory: 32Mi}}'
        box oom-of-a-child:Always 'sleep 1000; true' 'resources: {limits: {memory: 32Mi}}'
    } >"$scratch/pods.yaml"
    row 'limits, resized in place'
    make_pods
    ready resize
    memory=/sys/fs/cgroup/memory/memory.limit_in_bytes quota=/sys/fs/cgroup/cpu/cpu.cfs_quota_us period=
    [ "$cgroup_driver" = cgroupfs ] || memory=/sys/fs/cgroup/memory.max quota=/sys/fs/cgroup/cpu.max period=' 100000'
    expect limits "67108864 20000$period" sh -c "echo \$('$k' exec resize -- cat $memory $quota)"
    container=$("$get" pod/resize '{.status.containerStatuses[0].containerID}')
    check resize "$k" patch pod resize --subresource resize --patch \
        '{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"100m","memory":"48Mi"},"limits":{"cpu":"300m","memory":"96Mi"}}}]}}'
    becomes resized "100663296 30000$period" sh -c "echo \$('$k' exec resize -- cat $memory $quota)"
    becomes resize_is_reported 96Mi "$get" pod/resize '{.status.containerStatuses[0].resources.limits.memory}'
    expect the_same_container "0 $container" "$get" pod/resize '{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].containerID}'
    row 'OOM'
    ended oom Failed
    expect oom_reason 'OOMKilled 137' "$get" pod/oom \
        '{.status.containerStatuses[0].state.terminated.reason} {.status.containerStatuses[0].state.terminated.exitCode}'
    ready oom-of-a-child
    expect oom_of_an_exec 'exit 137' "$k" exec oom-of-a-child -- tail /dev/zero
    # With cgroup v2, the kubelet sets memory.oom.group: the kernel kills all processes of the container.
    others=0
    [ "$cgroup_driver" = cgroupfs ] || others=1
    becomes restarts_after_the_oom $others "$get" pod/oom-of-a-child '{.status.containerStatuses[0].restartCount}'
    remove_pods resize oom oom-of-a-child
}

group_eviction() {
    box over-its-limit 'head -c 8m /dev/zero > /data/x; sleep 1000' 'volumeMounts: [{name: data, mountPath: /data}]' \
        'volumes: [{name: data, emptyDir: {sizeLimit: 4Mi}}]' >"$scratch/pods.yaml"
    row "eviction by an emptyDir's limit"
    make_pods
    becomes evicted_by_limit 'Failed Evicted' "$get" pod/over-its-limit '{.status.phase} {.status.reason}'
    remove_pods over-its-limit
    box fills-the-disk 'head -c 190m /dev/zero > /data/x; sleep 1000' 'volumeMounts: [{name: data, mountPath: /data}]' \
        'volumes: [{name: data, emptyDir: {}}]' >"$scratch/pods.yaml"
    row "eviction by the node's threshold (nodefs.available)"
    make_pods
    becomes evicted_by_threshold 'Failed Evicted' "$get" pod/fills-the-disk '{.status.phase} {.status.reason}'
    remove_pods fills-the-disk
    becomes pressure_ends False "$get" node/node '{.status.conditions[?(@.type=="DiskPressure")].status}'
    becomes taint_ends '' "$get" node/node '{.spec.taints}'
}

group_job() {
    cat >"$scratch/pods.yaml" <<YAML
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  completions: $completions
  parallelism: 10
  completionMode: Indexed
  template:
    spec:
      runtimeClassName: $class
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: localhost/dayfly:box, command: [sh, -c, 'echo \$JOB_COMPLETION_INDEX']}
YAML
    row "a Job of $completions completions"
    make_pods
    usual=$patience
    patience=$((usual + completions * 15))
    check complete "$k" wait --for=condition=Complete job/many --timeout="$((patience - 5))s"
    expect succeeded "$completions" "$get" job/many '{.status.succeeded}'
    expect failed_pods '' "$get" job/many '{.status.failed}'
    check delete_job "$k" delete job many --cascade=foreground --timeout="$((patience - 5))s"
    patience=$usual
}

group_static() {
    row 'static pod'
    pod still Always <<'YAML' | sed "s/^metadata: {name: still/&, namespace: $class/" >"$scratch/still.yaml"
containers:
- {name: main, image: box, command: [sh, -c, 'echo static; sleep 1000']}
YAML
    mv "$scratch/still.yaml" "$scratch/static/still.yaml"
    wait_for "$patience" "$k" get pod still-node
    ready still-node
    expect static_log static "$k" logs still-node
    expect static_class "$class" "$get" pod/still-node '{.spec.runtimeClassName}'
    rm "$scratch/static/still.yaml"
    check static_pod_goes "$k" wait --for=delete pod/still-node --timeout="$((patience - 10))s"
}

# Prints the pids of the shims of a pod: those whose command line contains the id of its sandbox.
shims_of() {
    sandbox=$("$c" container ls -q "labels.\"io.kubernetes.pod.name\"==$1,labels.\"io.cri-containerd.kind\"==sandbox" | head -1)
    [ -n "$sandbox" ] && pgrep -f "^[^ ]*containerd-shim.*$sandbox"
}

# NAME: checks that the pod `stays` is the same as before, and that it can be used.
same_as_before() {
    ready stays
    expect "$1_same_container" "0 $container" "$get" pod/stays '{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].containerID}'
    # Right after its start, the kubelet does not know its pods yet.
    becomes "$1_exec" again "$k" exec stays -c main -- echo again
    expect "$1_log_goes_on" yes sh -c "
        a=\$('$k' logs stays | wc -l); sleep 2; b=\$('$k' logs stays | wc -l); [ \$b -gt \$a ] && echo yes"
    touch "$scratch/signals/$class/$2"
    ended "ends-$2" Succeeded
    expect "$1_exit_code_of_the_ended" "Completed 0" "$get" "pod/ends-$2" "{.status.containerStatuses[0].state.terminated.reason} {.status.containerStatuses[0].state.terminated.exitCode}"
    expect "$1_log_of_the_ended" last "$k" logs "ends-$2"
}

group_restarts() {
    mkdir -p "$scratch/signals/$class"
    {
        pod stays Always <<'YAML'
containers:
- name: main
  image: box
  command: [sh, -c, 'n=0; while :; do n=$((n + 1)); echo $n; sleep 0.5; done']
  readinessProbe: {exec: {command: ['true']}, periodSeconds: 2, timeoutSeconds: 10}
- name: second
  image: box
  command: [sleep, '1000']
YAML
        for server in kubelet containerd nobody; do
            box ends-$server "until test -e /signals/$server; do sleep 0.1; done; echo last" \
                "volumeMounts: [{name: signals, mountPath: /signals}]" \
                "volumes: [{name: signals, hostPath: {path: $scratch/signals/$class, type: Directory}}]"
        done
    } >"$scratch/pods.yaml"
    make_pods
    ready stays
    ready ends-kubelet
    ready ends-containerd
    ready ends-nobody
    container=$("$get" pod/stays '{.status.containerStatuses[0].containerID}')
    row 'kubelet killed and started again'
    unserve kubelet KILL
    touch "$scratch/signals/$class/kubelet"
    sleep 2
    kubelet_start
    same_as_before kubelet kubelet
    row 'containerd killed and started again'
    kill_daemon
    touch "$scratch/signals/$class/nobody"
    sleep 2
    containerd_start 60
    expect containerd_starts_again 0 echo $?
    same_as_before containerd containerd
    # containerd forgets the task of a shim that has no process (its `loadShim`), and with it exit code and output.
    row 'a container that ends while containerd is down is reported as Unknown, 255'
    ended ends-nobody Failed
    expect ended_meanwhile 'Unknown 255' "$get" pod/ends-nobody \
        '{.status.containerStatuses[0].state.terminated.reason} {.status.containerStatuses[0].state.terminated.exitCode}'
    row "the pod's shim killed"
    shims=$(shims_of stays)
    expect the_pod_has_one_shim 1 sh -c "echo '$shims' | grep -c ."
    for pid in $shims; do kill -KILL "$pid"; done
    becomes shim_containers_are_started_again yes sh -c "
        [ \"\$('$get' pod/stays '{.status.containerStatuses[0].containerID}')\" != '$container' ] &&
        [ \"\$('$get' pod/stays '{.status.conditions[?(@.type==\"Ready\")].status}')\" = True ] && echo yes"
    ready stays
    becomes shim_exec again "$k" exec stays -c main -- echo again
    remove_pods stays ends-kubelet ends-containerd ends-nobody
}

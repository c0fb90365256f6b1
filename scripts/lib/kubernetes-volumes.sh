# Cases of the bed kubernetes: volumes, user namespaces, security contexts.
# shellcheck shell=sh
# Variables of the other files; heredocs with `$` for the shell of a container.
# shellcheck disable=SC2154,SC2016

group_volumes() {
    mkdir -p "$scratch/tree/below"
    mount -t tmpfs dayfly-test "$scratch/tree/below"
    cat >"$scratch/pods.yaml" <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {one: first, two: second}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {key: value}
YAML
    {
        pod volumes <<'YAML'
containers:
- name: main
  image: box
  env:
  - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: ONE, valueFrom: {configMapKeyRef: {name: words, key: one}}}
  command:
  - sh
  - -c
  - |
    echo "$ONE $(cat /words/two) $(cat /two) $(cat /hidden/key) $(cat /labels/case)"
    test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token
    grep -q ' /memory tmpfs rw.*size=16384k' /proc/mounts && echo memory
    ! touch /words/x 2>/dev/null && echo read-only
  volumeMounts:
  - {name: words, mountPath: /words}
  - {name: words, mountPath: /two, subPath: two}
  - {name: hidden, mountPath: /hidden, readOnly: true}
  - {name: memory, mountPath: /memory}
  - {name: labels, mountPath: /labels}
volumes:
- {name: words, configMap: {name: words}}
- {name: hidden, secret: {secretName: hidden}}
- {name: memory, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
- {name: labels, downwardAPI: {items: [{path: case, fieldRef: {fieldPath: 'metadata.labels[''case'']'}}]}}
YAML
        pod sub-path <<'YAML'
initContainers:
- {name: make, image: box, command: [sh, -c, 'mkdir -p /data/a/b && echo deep > /data/a/b/file'], volumeMounts: [{name: data, mountPath: /data}]}
containers:
- name: main
  image: box
  env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  command: [sh, -c, 'cat /b/file /file; ls /data; touch /own/made && ls /data; ls /']
  volumeMounts:
  - {name: data, mountPath: /b, subPath: a/b}
  - {name: data, mountPath: /file, subPath: a/b/file, readOnly: true}
  - {name: data, mountPath: /own, subPathExpr: $(POD)}
  - {name: data, mountPath: /data}
volumes: [{name: data, emptyDir: {}}]
YAML
        pod read-only <<YAML
containers:
- name: main
  image: box
  command: [sh, -c, 'for d in plain recursive; do for w in . below; do touch /\$d/\$w/x 2>/dev/null && echo \$d \$w written; done; done; true']
  volumeMounts:
  - {name: tree, mountPath: /plain, readOnly: true}
  - {name: tree, mountPath: /recursive, readOnly: true, recursiveReadOnly: Enabled}
volumes: [{name: tree, hostPath: {path: $scratch/tree, type: Directory}}]
YAML
        box propagation:Always "[sleep, '1000']" \
            "volumeMounts: [{name: tree, mountPath: /tree, mountPropagation: HostToContainer}]" \
            "volumes: [{name: tree, hostPath: {path: $scratch/shared, type: Directory}}]"
    } >>"$scratch/pods.yaml"
    # A mount of its own, which is shared.
    mkdir -p "$scratch/shared"
    mount -t tmpfs dayfly-test "$scratch/shared" && mount --make-shared "$scratch/shared" && mkdir "$scratch/shared/later"
    row 'volumes: configMap, secret, token, memory, downward API'
    make_pods
    prints volumes 'first second second value volumes token memory read-only' volumes
    row 'subPath and subPathExpr'
    ended sub-path Succeeded
    expect sub_paths 'deep deep a sub-path' sh -c "echo \$('$k' logs sub-path | head -4)"
    row 'recursive read-only'
    prints recursive_read_only 'plain below written' read-only
    row 'mount propagation from the host'
    ready propagation
    mount -t tmpfs dayfly-test "$scratch/shared/later" && touch "$scratch/shared/later/seen"
    expect propagated seen "$k" exec propagation -- ls /tree/later
    umount "$scratch/shared/later"
    remove_pods volumes sub-path read-only propagation
    timeout "$patience" "$k" wait --for=delete pod/propagation pod/read-only >/dev/null 2>&1
    umount -l "$scratch/shared" "$scratch/tree/below"
}

group_users() {
    {
        pod users Always <<'YAML'
hostUsers: false
containers:
- name: main
  image: localhost/dayfly:many
  command: [sleep, '1000']
  volumeMounts: [{name: data, mountPath: /data}, {name: words, mountPath: /words}]
volumes: [{name: data, emptyDir: {}}, {name: words, downwardAPI: {items: [{path: case, fieldRef: {fieldPath: metadata.name}}]}}]
YAML
        box users-too 'touch /data/x; stat -c "%u %g" /data/x; awk "{ print (\$2 > 0), \$3 }" /proc/self/uid_map' \
            'volumeMounts: [{name: data, mountPath: /data}]' 'hostUsers: false' \
            'securityContext: {runAsUser: 1000, fsGroup: 2000}' 'volumes: [{name: data, emptyDir: {}}]'
    } >"$scratch/pods.yaml"
    row "hostUsers: false, an image of $layers layers"
    make_pods
    ready users
    expect layers $((layers - 1)) sh -c "'$k' exec users -- ls /layers | wc -l"
    expect mapped yes "$k" exec users -- awk '$1 == 0 && $2 >= 65536 && $3 == 65536 { print "yes" }' /proc/self/uid_map
    expect root_writes_volumes '0 0' "$k" exec users -- sh -c 'touch /data/x && stat -c "%u %g" /data/x'
    expect reads_files_of_the_node users "$k" exec users -- cat /words/case
    expect has_no_right_on_the_host 'exit 1' "$k" exec users -- sh -c 'echo 1 > /proc/sys/kernel/panic || exit 1'
    prints another_user '1000 2000 1 65536' users-too
    remove_pods users users-too
}

group_security() {
    {
        pod context <<'YAML'
securityContext:
  runAsUser: 1000
  runAsGroup: 2000
  fsGroup: 3000
  supplementalGroups: [4000]
  sysctls: [{name: kernel.shm_rmid_forced, value: '1'}, {name: net.ipv4.ip_local_port_range, value: '2000 3000'}]
containers:
- name: main
  image: box
  securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  command:
  - sh
  - -c
  - |
    id -u; id -G | tr ' ' '\n' | sort; stat -c %g /data
    touch /x 2>/dev/null || echo read-only
    sed -n 's/^\(CapEff\|CapBnd\|NoNewPrivs\):[[:space:]]*//p' /proc/self/status
    cat /proc/sys/kernel/shm_rmid_forced /proc/sys/net/ipv4/ip_local_port_range
  volumeMounts: [{name: data, mountPath: /data}]
volumes: [{name: data, emptyDir: {}}]
YAML
        pod capabilities <<'YAML'
containers:
- {name: main, image: box, securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE, CHOWN]}},
   command: [sed, -n, 's/^CapEff:[[:space:]]*0*//p', /proc/self/status]}
YAML
        box non-root "['true']" '' 'securityContext: {runAsNonRoot: true}'
        box privileged 'mount -t tmpfs x /tmp && test -e /dev/kmsg && echo privileged' \
            'securityContext: {privileged: true}'
        pod seccomp <<'YAML'
securityContext: {seccompProfile: {type: RuntimeDefault}}
containers:
- {name: main, image: box, command: [sh, -c, 'sed -n "s/^Seccomp:[^0-9]*//p" /proc/self/status; unshare -U true 2>/dev/null || echo refused']}
- {name: free, image: box, securityContext: {seccompProfile: {type: Unconfined}}, command: [sed, -n, 's/^Seccomp:[^0-9]*//p', /proc/self/status]}
YAML
        box masked 'wc -c < /proc/keys; ls /sys/firmware | wc -l; (echo b > /proc/sysrq-trigger) 2>/dev/null || echo read-only'
    } >"$scratch/pods.yaml"
    row 'security contexts: users, groups, capabilities, sysctls'
    make_pods
    prints context '1000 2000 3000 4000 3000 read-only 0000000000000000 0000000000000000 1 1 2000 3000' context
    prints capabilities 401 capabilities
    becomes refuses_root CreateContainerConfigError "$get" pod/non-root '{.status.containerStatuses[0].state.waiting.reason}'
    prints masked_paths '0 0 read-only' masked
    row 'privileged'
    prints privileged privileged privileged
    row 'seccomp RuntimeDefault'
    ended seccomp Succeeded
    expect filtered '2 refused' sh -c "echo \$('$k' logs seccomp -c main)"
    expect unconfined 0 "$k" logs seccomp -c free
    remove_pods context capabilities non-root privileged seccomp masked
}

# POD: publishes its checkpoint in $published, for the containers of this name and namespace.
publishes() {
    published=/var/lib/dayfly/checkpoints/$containerd_namespace
    check checkpoint "$runtime" --root /run/containerd/dayfly/k8s.io checkpoint --leave-running --image-path "$published" \
        --for io.kubernetes.cri.container-name=main --for "io.kubernetes.cri.sandbox-namespace=$SPACE" \
        "$("$get" "pod/$1" '{.status.containerStatuses[0].containerID}' | sed 's|.*/||')"
}
# A pod whose annotation names the checkpoint of an earlier one. The counts are the program's own.
group_saved() {
    [ "$class" = dayfly ] || return 0
    row 'a checkpoint that an annotation names'
    [ -n "$saves" ] || { skips saved 'no criu that works on this kernel (scripts/peers criu)' && return; }
    for name in first second; do
        box $name:Always 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done' |
            sed "s/metadata: {/&annotations: {run.dayfly.checkpoint: $containerd_namespace}, /" >"$scratch/$name.yaml"
    done
    cp "$scratch/first.yaml" "$scratch/pods.yaml" && make_pods
    ready first
    wait_for "$patience" sh -c "test \"\$('$k' logs first | wc -l)\" -gt 100"
    publishes first
    expect first_goes_on yes sh -c "'$get' pod/first '{.status.containerStatuses[0].restartCount}' | grep -qx 0 && echo yes"
    remove_pods first
    cp "$scratch/second.yaml" "$scratch/pods.yaml" && make_pods
    ready second
    becomes second_counts_on yes sh -c "'$k' logs second | head -1 | awk '\$1 > 100 { print \"yes\" }'"
    # Another namespace may not.
    sed 's/name: second/name: other/' "$scratch/second.yaml" | SPACE=default "$k" create -f - >/dev/null
    becomes another_namespace_begins_anew 1 sh -c "SPACE=default '$k' logs other 2>/dev/null | head -1"
    SPACE=default timeout "$patience" "$k" delete pod other >/dev/null
    remove_pods second
    rm -rf "$published"
}

# POD: prints what the function answers.
function_says() {
    address=$("$get" "pod/$1" '{.status.podIP}') && [ -n "$address" ] &&
        ${holder:+nsenter -t "$holder" -n} timeout 2 busybox wget -qO- "http://$address:8080/" 2>/dev/null
}
# POD: makes the pod of docs/function.yaml, with the host's Python, and prints the ms until it answers.
function_time() {
    mounts='{name: usr, mountPath: /usr}, {name: lib, mountPath: /lib}, {name: lib64, mountPath: /lib64}'
    volumes='{name: usr, hostPath: {path: /usr}}, {name: lib, hostPath: {path: /usr/lib}}, {name: lib64, hostPath: {path: /usr/lib64}}'
    sed -e "s/name: cold/name: $1/; s/checkpoint: function/checkpoint: $containerd_namespace/" \
        -e "s|image: .*|image: localhost/dayfly:box|; s|python3, -B|/usr/bin/&|" \
        -e "s|volumeMounts: \[|&$mounts, |; s|volumes: \[|&$volumes, |" \
        "$top/docs/function.yaml" >"$scratch/function.yaml"
    since=$(date +%s%N)
    "$k" apply -f "$scratch/function.yaml" >/dev/null
    wait_for "$patience" function_says "$1" >/dev/null && echo $((($(date +%s%N) - since) / 1000000))
}
group_function() {
    [ "$class" = dayfly ] || return 0
    row 'a Python function, cold and from a checkpoint'
    [ -n "$saves" ] && [ -x /usr/bin/python3 ] || { skips function 'no criu for this kernel (scripts/peers criu), or no Python' && return; }
    cold=$(function_time cold) said=$(function_says cold)
    publishes cold
    restored=$(function_time restored)
    echo "    the function answers after $cold ms, from the checkpoint after $restored ms"
    expect function_is_warm "$said" function_says restored
    check function_answers_earlier test "$restored" -lt "$cold"
    remove_pods cold restored
    timeout "$patience" "$k" delete configmap function >/dev/null
    rm -rf "$published"
}

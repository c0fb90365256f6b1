# The cases of the bed kubernetes, and what they share. Each group makes all its pods at once, and then checks
# them one after another. A group consists of rows of the table, and a row of one or more checks. More groups are in
# kubernetes-volumes.sh and kubernetes-restarts.sh.
# shellcheck shell=sh
# Variables of the other files; heredocs with `$` for the shell of a container.
# shellcheck disable=SC2154,SC2016,SC2034

groups='basics probes streams network resources job volumes users security eviction static saved function restarts'

# TITLE: begins a row of the table; the checks until the next one decide its result.
row() {
    row_end
    row=$1
    row_failed=$failed
}
row_end() {
    [ -n "$row" ] || return 0
    [ "$failed" = "$row_failed" ] && result=ok || result=FAILED
    echo "$row|$class|$result" >>"$scratch/table"
    row=
}

# Prints the results: a row for each case, a column for each class.
table() {
    [ -s "$scratch/table" ] || return 0
    echo
    awk -F'|' -v classes="$classes" '
        BEGIN { n = split(classes, c, " "); line = "| case |"; rule = "|---|"
            for (i = 1; i <= n; i++) { line = line " " c[i] " |"; rule = rule "---|" }
            print line; print rule }
        !($1 in seen) { seen[$1] = 1; rows[++count] = $1 }
        { result[$1, $2] = $3 }
        END { for (r = 1; r <= count; r++) { line = "| " rows[r] " |"
            for (i = 1; i <= n; i++) line = line " " (((rows[r], c[i]) in result) ? result[rows[r], c[i]] : "-") " |"
            print line } }' "$scratch/table"
    echo
}

# A program, because checks call it in shells of their own.
cases_scripts() {
    get=$scratch/get
    program "$get" <<GET
#!/bin/sh
# OBJECT JSONPATH
exec '$k' get "\$1" -o "jsonpath=\$2"
GET
}
# POD: fails with the pod's state and its events when it is not Ready in time.
ready() {
    before=$failed
    check "$1_is_ready" "$k" wait --for=condition=Ready "pod/$1" --timeout="$((patience - 10))s"
    [ "$failed" = "$before" ] || explain "$1"
}
# POD PHASE
ended() {
    before=$failed
    becomes "$1_ends" "$2" "$get" "pod/$1" '{.status.phase}'
    [ "$failed" = "$before" ] || explain "$1"
}
# NAME WANTED POD: passes when the pod ends well, and has printed these words.
prints() {
    ended "$3" Succeeded
    expect "$1" "$2" sh -c "echo \$('$k' logs '$3')"
}
explain() {
    "$k" get pod "$1" -o 'jsonpath={.status}' 2>&1 | head -c 1500 | sed 's/^/    /'
    echo
    "$k" get events --field-selector "involvedObject.name=$1" -o 'jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}' 2>&1 |
        tail -8 | cut -c1-400 | sed 's/^/    /'
}

grace=2
# NAME [RESTART-POLICY]: prints a pod of the class under test, whose specification is on standard input. `image: box` is
# the test image.
pod() {
    cat <<POD
---
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {case: $1}}
spec:
  runtimeClassName: $class
  terminationGracePeriodSeconds: $grace
  restartPolicy: ${2:-Never}
POD
    sed -e 's/^/  /' -e 's|image: box|image: localhost/dayfly:box|'
}
# NAME[:RESTART-POLICY] SCRIPT [FIELDS [LINE...]]: prints a pod with one container that runs this script, or the command in
# brackets, with more fields of the container, and more lines of the pod's specification.
box() {
    case $2 in '['*) command=$2 ;; *) command="[sh, -c, '$(echo "$2" | sed "s/'/''/g")']" ;; esac
    box=$1 fields=${3:-}
    shift $(($# < 3 ? $# : 3))
    printf '%s\n' containers: "- {name: main, image: box, command: $command${fields:+, $fields}}" "$@" |
        pod "${box%%:*}" "$(echo "$box" | sed -n 's/.*://p')"
}
# COMMAND...: a function, so that it has its own time.
on_time() { "$@"; }
# Makes the objects of $scratch/pods.yaml.
make_pods() { check make_pods "$k" create -f "$scratch/pods.yaml"; }
remove_pods() { timeout "$patience" "$k" delete pod "$@" --wait=false >/dev/null 2>&1; }

# Usually, the class `dayfly` is that of deploy/.
runtime_classes() {
    cat >"$scratch/classes.yaml" <<CLASSES
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: dayfly-go}
handler: runc-dayfly
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: runc}
handler: runc
CLASSES
    [ -n "$deploys" ] || cat >>"$scratch/classes.yaml" <<'CLASSES'
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: dayfly}
handler: dayfly-shim
CLASSES
    "$k" create -f "$scratch/classes.yaml" >/dev/null
}

# Prints what the pods that run now have on the node.
class_leftovers() {
    pod_cgroups | sed 's/^/cgroup /'
    shim_leftovers | while read -r kind what rest; do
        case $kind in
            process) grep -qx "$what" "$scratch"/pid/* && continue ;;
            cgroup) case $what in */kubepods) continue ;; esac ;;
        esac
        echo "$kind $what $rest"
    done
}
# Prints what is there in addition to $scratch/base, after it has had time to disappear. containerd unmounts the /dev/shm of
# a sandbox whose shim was killed only when the kubelet removes the sandbox, which it does once a minute.
class_nothing_left() {
    left() { class_leftovers | grep -vxFf "$scratch/base"; }
    DAYFLY_POLL=0.5 settled 150 left
}

group_basics() {
    {
        box completes 'echo hello; echo bye > /dev/termination-log'
        box fails 'exit 7'
        box no-program '[/no/such/program]'
        pod init <<'YAML'
initContainers:
- {name: first, image: box, command: [sh, -c, 'echo 1 >> /data/order'], volumeMounts: [{name: data, mountPath: /data}]}
- {name: side, image: box, restartPolicy: Always, volumeMounts: [{name: data, mountPath: /data}],
   command: [sh, -c, 'trap "echo stopped; exit 0" TERM; echo 2 >> /data/order; while :; do sleep 0.2; done'],
   startupProbe: {exec: {command: [grep, -q, '2', /data/order]}, periodSeconds: 1, failureThreshold: 60}}
- {name: third, image: box, command: [sh, -c, 'echo 3 >> /data/order'], volumeMounts: [{name: data, mountPath: /data}]}
containers:
- {name: main, image: box, command: [sh, -c, 'echo $(cat /data/order)'], volumeMounts: [{name: data, mountPath: /data}]}
volumes: [{name: data, emptyDir: {}}]
YAML
        box on-failure:OnFailure 'echo x >> /data/runs; [ $(wc -l < /data/runs) -ge 2 ] || exit 1; echo second' \
            'volumeMounts: [{name: data, mountPath: /data}]' 'volumes: [{name: data, emptyDir: {}}]'
        box always:Always 'echo ran; sleep 0.5'
        grace=20
        pod hooks <<YAML
containers:
- name: main
  image: box
  command: [sh, -c, 'trap "echo term >> /said/$class; exit 0" TERM; while :; do sleep 0.1; done']
  lifecycle:
    postStart: {exec: {command: [sh, -c, 'echo started > /said/$class']}}
    preStop: {exec: {command: [sh, -c, 'echo stopping >> /said/$class']}}
  volumeMounts: [{name: said, mountPath: /said}]
volumes: [{name: said, hostPath: {path: $scratch/said-by-hooks, type: DirectoryOrCreate}}]
YAML
        grace=2
    } >"$scratch/pods.yaml"
    row 'runs to completion, log, exit code, termination message'
    make_pods
    prints log hello completes
    expect termination_message bye "$get" pod/completes '{.status.containerStatuses[0].state.terminated.message}'
    ended fails Failed
    expect exit_code 7 "$get" pod/fails '{.status.containerStatuses[0].state.terminated.exitCode}'
    ended no-program Failed
    row 'init containers and a sidecar, in order'
    ended init Succeeded
    expect order '1 2 3' "$k" logs init -c main
    expect sidecar_is_told stopped "$k" logs init -c side
    row 'restart policies'
    ended on-failure Succeeded
    expect restarted_once 1 "$get" pod/on-failure '{.status.containerStatuses[0].restartCount}'
    becomes restarted_always yes sh -c "[ \$('$get' pod/always '{.status.containerStatuses[0].restartCount}') -ge 2 ] && echo yes"
    becomes previous_log ran "$k" logs always --previous
    row 'postStart, preStop, SIGTERM'
    ready hooks
    check delete_with_grace "$k" delete pod hooks --timeout="$((patience - 10))s"
    expect order_of_hooks 'started stopping term' sh -c "echo \$(cat '$scratch/said-by-hooks/$class')"
    remove_pods completes fails no-program init on-failure always
}

group_probes() {
    {
        pod readiness Always <<'YAML'
containers:
- name: main
  image: box
  command: [sh, -c, 'mkdir /www; echo yes > /www/index.html; httpd -f -p 80 -h /www']
  startupProbe: {tcpSocket: {port: 80}, periodSeconds: 1, failureThreshold: 60}
  readinessProbe: {httpGet: {path: /ready, port: 80}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
  livenessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 10}
YAML
        box liveness:Always 'touch /alive; sleep 3; rm /alive; sleep 1000' \
            'livenessProbe: {exec: {command: [cat, /alive]}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 2}'
        pod slow-probe Always <<'YAML'
containers:
- name: main
  image: box
  command: [sleep, '1000']
  readinessProbe: {exec: {command: [sh, -c, 'test -e /fast || { echo >> /probes; exec sleep 1001; }']}, periodSeconds: 1, timeoutSeconds: 3, failureThreshold: 1}
YAML
    } >"$scratch/pods.yaml"
    row 'startup, readiness and liveness probes: exec, HTTP, TCP'
    make_pods
    becomes started true "$get" pod/readiness '{.status.containerStatuses[0].started}'
    becomes not_ready_yet False "$get" pod/readiness '{.status.conditions[?(@.type=="Ready")].status}'
    check make_ready "$k" exec readiness -- touch /www/ready
    ready readiness
    check make_unready "$k" exec readiness -- rm /www/ready
    becomes unready_again False "$get" pod/readiness '{.status.conditions[?(@.type=="Ready")].status}'
    becomes liveness_restarts 1 "$get" pod/liveness '{.status.containerStatuses[0].restartCount}'
    expect http_never_restarts 0 "$get" pod/readiness '{.status.containerStatuses[0].restartCount}'
    row 'an exec probe that runs into its timeout'
    expect is_unready False "$get" pod/slow-probe '{.status.conditions[?(@.type=="Ready")].status}'
    # Each probe has made a line. The probes that started first and no longer run were killed: none ends by itself.
    becomes probes_are_killed yes "$k" exec slow-probe -- sh -c \
        'all=$(wc -l < /probes); run=$(ps | grep -c "[s]leep 1001"); [ $all -gt $run ] && [ $run -le 1 ] && echo yes'
    check make_fast "$k" exec slow-probe -- touch /fast
    ready slow-probe
    remove_pods readiness liveness slow-probe
}

group_streams() {
    pod streams Always <<'YAML' >"$scratch/pods.yaml"
containers:
- {name: main, image: box, stdin: true, command: [sh, -c, 'while read -r line; do echo "got $line"; done; sleep 1000']}
- {name: web, image: box, command: [sh, -c, 'mkdir /www; echo yes > /www/index.html; httpd -f -p 8080 -h /www']}
- {name: talks, image: box, command: [sh, -c, 'for n in $(seq 1000); do echo line $n; done; echo to stderr >&2; sleep 1000']}
YAML
    make_pods
    ready streams
    row 'exec'
    expect exec_output inside "$k" exec streams -c web -- echo inside
    expect exec_exit_code 'exit 9' "$k" exec streams -c web -- sh -c 'exit 9'
    expect exec_input HELLO sh -c "echo hello | '$k' exec -i streams -c web -- tr a-z A-Z"
    expect exec_large 3000000 sh -c "head -c 3000000 /dev/zero | '$k' exec -i streams -c web -- cat | wc -c"
    expect exec_terminal /dev/pts/0 sh -c "sleep 5 | script -qec \"'$k' exec -it streams -c web -- tty\" /dev/null | grep -o /dev/pts/0"
    expect exec_missing 'exit 1' sh -c "'$k' exec streams -c web -- /no/such || exit 1"
    row 'attach'
    expect attach 'got one' sh -c "{ echo one; sleep 3; } | timeout 30 '$k' attach -q -i streams -c main | head -1"
    row 'logs'
    expect logs_tail 'line 1000' sh -c "'$k' logs streams -c talks --tail 2 | grep line | tail -1"
    expect logs_all 1001 sh -c "'$k' logs streams -c talks | wc -l"
    expect logs_follow 'line 1' sh -c "timeout 30 '$k' logs -f streams -c talks | grep -m 1 line"
    row 'port-forward'
    expect port_forward yes sh -c "
        '$k' port-forward pod/streams 18080:8080 >/dev/null & forward=\$!
        n=0; until nsenter -t $holder -n busybox wget -qO- http://127.0.0.1:18080/ || [ \$n -ge 40 ]; do sleep 0.5; n=\$((n + 1)); done
        kill \$forward"
    row 'ephemeral container (kubectl debug)'
    check debug "$k" debug streams --image localhost/dayfly:box --target web --container debugger -- \
        sh -c 'echo pid 1 is $(tr "\0" " " < /proc/1/cmdline)'
    becomes debug_sees_the_target 'pid 1 is httpd -f -p 8080 -h /www' sh -c "'$k' logs streams -c debugger | sed 's/ *\$//'"
    row "the kubelet's statistics"
    becomes statistics yes sh -c "'$k' get --raw /api/v1/nodes/node/proxy/stats/summary | jq -e '
        [.pods[] | select(.podRef.name == \"streams\") | .containers[] | select(.memory.workingSetBytes > 0 and .cpu.usageCoreNanoSeconds > 0)] | length == 3' >/dev/null && echo yes"
    remove_pods streams
}

group_network() {
    {
        pod server Always <<'YAML'
containers:
- {name: web, image: box, command: [sh, -c, 'mkdir /www; hostname > /www/index.html; httpd -f -p 80 -h /www']}
hostname: web
YAML
        box host-network 'test -d /sys/class/net/node0 && echo host' '' 'hostNetwork: true'
        box host-pid 'test "$(cat /proc/1/comm)" != sh && test $(ls -d /proc/[0-9]* | wc -l) -gt 5 && echo host' '' \
            'hostPID: true'
        pod shared-pid Always <<'YAML'
shareProcessNamespace: true
containers:
- {name: main, image: box, command: [sleep, '1000']}
- {name: other, image: box, command: [sleep, '1001']}
YAML
        box names 'hostname; grep -c alias.test /etc/hosts; grep -c 10.1.2.4 /etc/resolv.conf' '' \
            'hostAliases: [{ip: 10.1.2.3, hostnames: [alias.test]}]' 'dnsPolicy: None' \
            'dnsConfig: {nameservers: [10.1.2.4], searches: [a.test]}' 'hostname: named'
    } >"$scratch/pods.yaml"
    row 'network of pods, host network'
    make_pods
    ready server
    address=$("$get" pod/server '{.status.podIP}')
    box client "[wget, -qO-, 'http://$address/']" >"$scratch/pods.yaml"
    check make_client "$k" create -f "$scratch/pods.yaml"
    prints pod_to_pod web client
    prints host_network host host-network
    prints names 'named 1 1' names
    row 'PID namespaces of host and pod'
    ended host-pid Succeeded
    ready shared-pid
    expect sees_the_other 2 sh -c "'$k' exec shared-pid -c main -- ps | grep -c 'sleep 100[01]\$'"
    remove_pods server client host-network host-pid shared-pid names
}

# PID...: private memory in KiB.
private_memory() {
    for pid in "$@"; do cat "/proc/$pid/smaps_rollup"; done 2>/dev/null | awk '/^Private_(Dirty|Clean):/ { k += $2 } END { print k + 0 }'
}

# As many pods as --pods at once, and what the shims of idle ones keep: at most 0.2 MiB each, if they are dayfly's.
group_crowd() {
    row "$pods pods at once"
    for number in $(seq "$pods"); do box "crowd-$number" '[sleep, "1000000"]'; done >"$scratch/pods.yaml"
    from=$(date +%s)
    make_pods
    check all_are_ready on_time "$k" wait --for=condition=Ready pod --all --timeout=1700s
    # shellcheck disable=SC2046
    kib=$(private_memory $(shims))
    echo "    $pods pods were ready after $(($(date +%s) - from)) s; private memory of a shim: $((kib / pods)) KiB"
    [ "$class" != dayfly ] || check memory_of_a_shim [ "$kib" -le $((pods * 205)) ]
    check all_are_deleted on_time "$k" delete pod --all --timeout=1700s
}

# Another's suite makes the pods, with the default runtime that the page names. A file of the host could be an old one, from the
# guest's cache.
group_hold() {
    row "another's suite"
    for name in box=e2e-test-images/busybox:1.37.0-2 pause=pause:3.10.2; do
        "$c" image tag "localhost/dayfly:${name%%=*}" "registry.k8s.io/${name#*=}" >/dev/null
    done
    held=
    while handler=$(nsenter -t "$holder" -n busybox wget -qO- "$hold") && :; [ "$handler" != end ]; do
        [ "${handler:-$held}" = "$held" ] || {
            sed -i "s/default_runtime_name = .*/default_runtime_name = '$handler'/" "$scratch/config.toml"
            kill_daemon
            check "default_is_$handler" containerd_start "$patience"
            held=$handler
            echo "-- held: $held"
        }
        sleep 2
    done
}

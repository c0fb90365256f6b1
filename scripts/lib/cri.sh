# Pods by crictl, as a kubelet asks for them: what critest does not check (scripts/bed critest, critest-crio), under load and
# after deaths. A bed of an engine that has the CRI reads it, with $socket, the program `restart`, and the images `box`, `pause`
# and `many`.
# shellcheck shell=sh disable=SC2016,SC2034,SC2086,SC2154

cri=$scratch/crictl
printf '%s\n' "runtime-endpoint: unix://$socket" "image-endpoint: unix://$socket" "timeout: $patience" >"$scratch/crictl.yaml"
program "$cri" <<WRAPPER
#!/bin/sh
exec nsenter -t $holder -n '$CRICTL_BIN/crictl' --config '$scratch/crictl.yaml' "\$@"
WRAPPER

# NUMBER: prints the configuration of a pod in the host's network namespace.
pod_config() {
    mkdir -p "$scratch/logs/$1"
    cat <<JSON
{"metadata": {"name": "pod-$1", "uid": "pod-$1", "namespace": "test"}, "log_directory": "$scratch/logs/$1", "linux": {
  "cgroup_parent": "/$containerd_namespace", "security_context": {"namespace_options": {"network": 2, "pid": 1}}}}
JSON
}
serial=$$
# [FILTER]: runs a pod, whose configuration jq's FILTER changes. $pod is its id.
pod() {
    serial=$((serial + 1))
    pod_config $serial | jq "${1:-.}" >"$scratch/pod.json"
    pod=$("$cri" runp --runtime "$handler" "$scratch/pod.json")
}
# FILTER WORD...: creates a container in the pod that runs this command. $id is its id, $log its log.
creates() {
    filter=$1
    shift
    serial=$((serial + 1))
    printf '%s\1' "$@" | jq -Rs --slurpfile pod "$scratch/pod.json" --arg name "c$serial" 'split("\u0001")[:-1] as $words
        | $pod[0].linux.security_context.namespace_options as $namespaces
        | { metadata: { name: $name }, image: { image: "localhost/dayfly:box" }, command: $words, log_path: ($name + ".log"),
            linux: { resources: {}, security_context: { namespace_options: $namespaces } } }
        | '"$filter" >"$scratch/container.json"
    log=$(jq -r .log_directory "$scratch/pod.json")/c$serial.log
    id=$("$cri" create "$pod" "$scratch/container.json" "$scratch/pod.json")
}
runs() { creates "$@" && "$cri" start "$id"; }
sleeps='/bin/sleep 1000000'
numbers=$(seq 1 160000 | md5sum)
# COMMAND...: prints a sum of its output, without empty lines, which crictl adds.
sums() { "$@" 2>&1 | sed '/^$/d' | md5sum; }
ends() { "$cri" stop -t 0 "$1" && "$cri" rm "$1"; }
# Removes the pod, and everything in it, in any state. CRI-O would wait 10 s for each container's end.
drops() {
    [ "$monitor" = containerd-shim ] || for one in $("$cri" ps -aq --pod "$pod"); do "$cri" stop -t 0 "$one" || return; done
    "$cri" stopp "$pod" && "$cri" rmp "$pod"
}
# COMMAND...: runs it in the container, and prints its output; an exit code is an error. For the type vm, CRI-O does not wait
# for the output of a command that has ended.
inside() {
    [ "$monitor" != vm ] || set -- sh -c '"$@"; code=$?; sleep 0.2; exit $code' sh "$@"
    "$cri" exec -s --timeout 50 "$id" "$@"
}
status() { "$cri" inspect "$id" | jq -r ".status | $1"; }
pid() { "$cri" inspect "$id" | jq .info.pid; }
# What watches the container: with containerd the pod's shim; with CRI-O a conmon of its own, or a shim for the type vm.
watcher() {
    watcher=$(ps -o ppid= -p "$(pid)" | tr -d ' ')
    case $monitor in
        containerd-shim) tr '\0' ' ' <"/proc/$watcher/cmdline" | grep containerd-shim &&
            [ "$watcher" = "$(ps -o ppid= -p "$("$cri" inspectp "$pod" | jq .info.pid)" | tr -d ' ')" ] ;;
        *) tr '\0' ' ' <"/proc/$watcher/cmdline" | grep "$id" | grep -E 'containerd-shim|conmon' ;;
    esac
}
# NAME WANTED FILTER SCRIPT: what the script prints in a container of its own.
shows() {
    check "$1_runs" runs "$3" $sleeps
    expect "$1" "$2" inside sh -c "$4"
}
# NAME POD-FILTER WANTED FILTER SCRIPT: the same in a pod of its own.
alone() {
    check "$1_pod" pod "$2"
    shows "$1" "$3" "$4" "$5"
    check "$1_drop" drops
}
own_network='.hostname = "box" | .linux.security_context.namespace_options.network = 0'
# NUMBER: prints the filter of a pod in a user namespace, with ids from there on.
mapped() {
    ids="[{ host_id: $1, container_id: 0, length: 65536 }]"
    echo "$own_network | .linux.security_context.namespace_options.userns_options = { mode: 0, uids: $ids, gids: $ids }"
}
mapped=$(mapped 200000)

# HANDLER LAYERS [HOOKS]: the cases of pods: the image `many` has so many layers, and hooks tell in the directory what they see.
pods() {
    handler=$1 layers=$2 hooks=${3:-}
    for part in life logs kinds many roots deaths; do "pods_$part"; done
    check pods_are_listed "$cri" pods -q
    expect nothing_is_listed '' sh -c "'$cri' pods -q; '$cri' ps -aq"
}

pods_life() {
    check run_pod_sandbox pod
    check create_container runs . $sleeps
    check exec_sync_of_nothing sh -c "! '$cri' exec -s '$id' /no/such"
    expect exec_sync_megabyte "$numbers" sums inside seq 1 160000
    # containerd collects statistics from time to time.
    becomes container_stats true sh -c "'$cri' stats -o json '$id' | jq '.stats[0]
        | (.cpu.usageCoreNanoSeconds.value | tonumber) > 0 and (.memory.workingSetBytes.value | tonumber) > 0'"
    check pod_sandbox_stats "$cri" statsp --id "$pod"
    check update_container_resources "$cri" update --memory 67108864 "$id"
    expect memory_limit 67108864 memory_limit
    shows second_container "$(inside readlink /proc/self/ns/ipc)" . 'readlink /proc/self/ns/ipc'
    check second_container_ends ends "$id"
    # The ways in which containers end. For the type vm, CRI-O listens to no events, and looks for a file in the bundle instead.
    killed=OOMKilled
    [ "$monitor" != vm ] || killed=Error
    limit='.linux.resources.memory_limit_in_bytes = 33554432'
    ended end_well '0 Completed' . true
    ended end_with_a_code '7 Error' . sh -c 'exit 7'
    act=kills ended end_by_a_signal '137 Error' . $sleeps
    # The process that gets the signal reports it.
    act=asks ended stop_asks_first '9 Error' . \
        sh -c "trap 'exit 9' TERM; touch /ready; while :; do sleep 0.05; done"
    act=insists ended stop_kills_at_last '137 Error' . sh -c "trap '' TERM; while :; do sleep 0.05; done"
    ended end_by_memory "137 $killed" "$limit" sh -c 'exec dd if=/dev/zero of=/dev/null bs=128M count=1'
    ended memory_kill_of_a_child "3 $killed" "$limit" sh -c 'dd if=/dev/zero of=/dev/null bs=128M count=1; sleep 0.5; exit 3'
    check start_of_nothing starts_nothing
    check life_drop drops
}
memory_limit() {
    of=$(sed -n 's/.*:memory://p' "/proc/$(pid)/cgroup")
    [ -n "$of" ] || { cat "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(pid)/cgroup")/memory.max" && return; }
    cat "/sys/fs/cgroup/memory$of/memory.limit_in_bytes"
}
# NAME WANTED FILTER WORD...: the exit code and the reason of a container that ends, after $act if it does not by itself.
ended() {
    end=$1 its_end=$2
    shift 2
    check "${end}_runs" runs "$@"
    [ -z "${act:-}" ] || check "${end}_acts" "$act"
    becomes "$end" "CONTAINER_EXITED $its_end" status '"\(.state) \(.exitCode) \(.reason)"'
    check "${end}_rm" "$cri" rm "$id"
    act=
}
# Waits until a container that handles signals is ready.
handles() { wait_for "$patience" inside ls /ready; }
kills() { kill -KILL "$(pid)"; }
asks() { handles && "$cri" stop -t 20 "$id"; }
insists() { "$cri" stop -t 1 "$id"; }
# A runtime looks for the program when it creates the container, which CRI-O reports at once.
starts_nothing() {
    creates . /no/such 2>"$scratch/why" || { [ "$monitor" != containerd-shim ] && grep 'no such file' "$scratch/why"; return; }
    ! "$cri" start "$id" && [ "$(status .state)" = CONTAINER_EXITED ] && "$cri" rm "$id"
}

pods_logs() {
    check logs_pod pod
    check log_of_a_terminal_runs runs '.tty = true' sh -c 'tty; sleep 0.5; echo err >&2'
    becomes log_of_a_terminal '/dev/pts/0 err' sh -c "echo \$('$cri' logs -s stdout '$id' | tr -d '\r')"
    # Both streams, a megabyte each, complete and in order; the program ends at once.
    check log_is_complete_runs runs . sh -c 'seq 1 160000 >&2 & seq 1 160000; wait'
    for stream in stdout stderr; do
        becomes log_is_complete_$stream "$numbers" sums "$cri" logs -s $stream "$id"
    done
    # CRI-O's ReopenContainerLog does nothing for the type vm.
    [ "$monitor" = vm ] || {
        check log_runs runs . sh -c 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done'
        wait_for "$patience" test -s "$log"
        mv "$log" "$log.1"
        check reopen_container_log "$cri" logs --reopen "$id"
        check reopened_log_is_written wait_for "$patience" sh -c "[ \$(wc -l <'$log') -gt 5 ]"
        "$cri" stop -t 0 "$id" >/dev/null
        expect reopened_log_is_complete '' awk '$2 != "stdout" || $4 != NR { print; exit }' "$log.1" "$log"
    }
    check logs_drop drops
}

pods_kinds() {
    check kinds_pod pod
    # A volume `hostPath: /` is the host's root with what is mounted in it, in each propagation. The root of the engine's mount
    # namespace, which this program shares, must be shared. In mountinfo, the propagation follows six fields.
    root=$(stat -c %d:%i /) host_root='{ container_path: "/host", host_path: "/" }' private=-
    # That of what its storage lies in.
    [ "$monitor" = containerd-shim ] || private=master
    show='$(stat -c %d:%i /host; stat -f -c %T /host/proc; grep " /host " /proc/self/mountinfo | cut -d" " -f7 | cut -d: -f1)'
    for kind in "0 private $private" '1 host_to_container master' '2 bidirectional shared'; do
        set -- $kind
        shows "host_root_$2" "$root proc $3" ".mounts = [$host_root + { propagation: $1 }]" "echo $show"
    done
    # Nobody attaches: the program waits, and is stopped.
    check stdin_once runs '.stdin = true | .stdin_once = true' cat
    check stdin_once_ends ends "$id"
    check kinds_drop drops
    privileged='.linux.security_context.privileged = true'
    check privileged_pod pod "$privileged"
    # For the type vm, an exec's capabilities come from CRI-O itself: every one, which this host may not have.
    check privileged runs "$privileged" test -w /proc/sys/kernel/hostname
    becomes privileged_writes 'CONTAINER_EXITED 0' status '"\(.state) \(.exitCode)"'
    check privileged_drop drops
    alone pod_network "$own_network" 'apart box' . "[ \$(readlink /proc/self/ns/net) = '$net' ] || echo apart \$(hostname)"
    owner='$(stat -c %u /etc/passwd; touch /x 2>/dev/null && stat -c %u /x)'
    alone user_namespace "$mapped" '200000 0 0' . "echo \$(awk '{ print \$2 }' /proc/self/uid_map) $owner"
    # The kubelet maps the ids of volumes. For the type vm, CRI-O refuses that.
    [ "$monitor" = vm ] || alone user_namespace_volume "$mapped" "$root 0" \
        "[{ host_id: 200000, container_id: 0, length: 65536 }] as \$ids
            | .mounts = [$host_root + { uidMappings: \$ids, gidMappings: \$ids }]" "stat -c '%d:%i %u' /host"
}

# Concurrent containers in one pod, and many probes as on a node.
pods_many() {
    check many_pod pod
    all=
    for number in 0 1 2; do
        check "container_$number" runs . $sleeps
        check "container_${number}_has_the_pods_watcher" watcher
        all="$all $id"
        check "container_${number}_writes" inside sh -c "echo $number >/mine"
    done
    for number in 0 1 2; do
        nth $number
        expect "container_${number}_has_a_file_system_of_its_own" $number inside cat /mine
    done
    check execs_200_in_a_row many_execs
    expect execs_50_at_once 50 execs_at_once
    nth 1
    check one_ends ends "$id"
    for number in 0 2; do
        nth $number
        expect "container_${number}_goes_on" 'CONTAINER_RUNNING' status .state
        check "container_${number}_exec" inside true
    done
    check another_takes_its_place runs . $sleeps
    check another_has_the_pods_watcher watcher
    check stop_runs runs . sh -c "trap '' TERM; touch /ready; while :; do sleep 0.05; done"
    handles
    from=$(date +%s%N)
    check stop "$cri" stop -t 2 "$id"
    took=$((($(date +%s%N) - from) / 1000000))
    check stop_waits_as_long_as_it_should [ $took -ge 1900 -a $took -lt 15000 ]
    check memory_kill_runs runs '.linux.resources.memory_limit_in_bytes = 33554432' $sleeps
    check memory_kill_of_an_exec sh -c "'$cri' exec -s '$id' dd if=/dev/zero of=/dev/null bs=128M count=1 2>&1 |
        grep 'exited with 137'"
    expect memory_kill_leaves_the_container CONTAINER_RUNNING status .state
    check many_drop drops
}
# NUMBER: $id is that of one of the three containers.
nth() { id=$(echo $all | cut -d' ' -f$(($1 % 3 + 1))); }
many_execs() {
    for at in $(seq 200); do
        nth $at
        [ "$(inside echo $at)" = $at ] || return
    done
}
# Each tells its exit code, and what it has printed until then.
execs_at_once() {
    for at in $(seq 50); do
        nth $at
        (inside sh -c "echo err $at >&2; sleep 0.2; exit $at" 2>&1 | grep -q "exited with $at: err $at" && echo told) &
    done | grep -c told
}

# Root filesystems with many layers, also with hooks that look for them in the bundle.
pods_roots() {
    read_only='.linux.security_context.readonly_rootfs = true'
    alone user_namespace_read_only "$mapped" '200000 0' "$read_only" "echo \$(awk '{ print \$2 }' /proc/self/uid_map) $owner"
    image='.image.image = "localhost/dayfly:many"' last=$((layers - 2))
    for kind in . "$mapped"; do
        [ "$kind" = . ] && layered=layers || layered=user_namespace_layers
        alone $layered "$kind" "$((layers - 1)) 0 $last 0 written" "$image" \
            "cd /layers && echo \$(ls | wc -l; cat 0 $last; stat -c %u $last; echo >0 && echo written)"
    done
    # The hook writes what it finds in the bundle's rootfs to a file: here, the passwd of the image.
    [ -z "$hooks" ] || for kind in createRuntime createContainer; do
        device=".CDI_devices = [{ name: \"dayfly.test/hook=$kind\" }]"
        for way in '' _user_namespace _read_only; do
            hooked=hook_$kind$way
            rm -f "$hooks/$kind"
            [ "$way" = _user_namespace ] && of=$mapped || of=.
            alone $hooked "$of" "changed by $kind" "$device$([ "$way" != _read_only ] || echo " | $read_only")" 'cat /by-a-hook'
            expect ${hooked}_saw_it root:x:0:0:root:/root:/bin/sh cat "$hooks/$kind"
        done
    done
}

kills_watcher() { watcher && kill -KILL "$watcher"; }
# The engine and what watches a container are killed. The shim takes the container with it; without conmon it goes on, and can
# be stopped.
pods_deaths() {
    check deaths_pod pod
    check deaths_container runs . $sleeps
    kept=$id
    check a_watcher watcher
    check the_engine_restarts "$scratch/restart"
    becomes the_engine_is_ready true sh -c "'$cri' info | jq '.status.conditions[] | select(.type == \"RuntimeReady\").status'"
    expect running_after_restart CONTAINER_RUNNING status .state
    check exec_after_restart inside true
    check another_container_after_restart runs . $sleeps
    check another_container_ends ends "$id"
    id=$kept
    # For the type vm, CRI-O does not call the shim's `delete`: the container goes on, and CRI-O cannot stop it.
    [ "$monitor" = vm ] || {
        init=$(pid)
        check killed_watcher kills_watcher
        [ "$monitor" != conmon ] || {
            expect running_without_conmon CONTAINER_RUNNING status .state
            check stop_without_conmon "$cri" stop -t 0 "$id"
        }
        becomes killed_container_has_ended CONTAINER_EXITED status .state
        check killed_program_ends wait_for "$patience" test ! -e /proc/$init/exe
    }
    check deaths_drop drops
    daemon=$(cat "$scratch/daemon")
}

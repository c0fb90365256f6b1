# A group of the bed kubernetes: the CPU time that a pod's container costs beneath the kubelet, with cgroup v2 and the systemd
# driver.
#
# What counts is the CPU time of
#   the shim, and what it executes: in a cgroup of their own. The runtime's own work in the container's cgroup, and the
#     program's, are shown beside;
#   process 1: init.scope;
#   the bus: dbus.service.
# What does not: containerd, the kubelet, the journal, kernel threads, the script; and the statistics for which containerd asks
# each shim every second, which the bed kubernetes turns off.
#
# A pod first has a container that waits for this script, so that the script can give the shim its cgroup. Then the kubelet
# creates and starts the containers one after the other, and deleting the pod ends all of them. What a pod with one container
# costs is taken off, so that the sandbox and the container that waits do not count.
# shellcheck shell=sh disable=SC2154

# Prints the µs of CPU time so far: shims, process 1, bus, containers.
cost_so_far() {
    for group in "$shims" /sys/fs/cgroup/init.scope /sys/fs/cgroup/system.slice/dbus.service /sys/fs/cgroup/kubepods.slice; do
        sed -n 's/^usage_usec //p' "$group/cpu.stat"
    done | tr '\n' ' '
}
# After everybody has finished.
cost_now() { sleep 5 && cost_so_far; }

# NAME COUNT: measures a pod with so many containers; adds to the file NAME a line for their starts and one for their ends.
cost_pod() {
    serial=$((${serial:-1000000} + 1))
    mkfifo "$scratch/gate/$serial" || return 1
    {
        echo 'initContainers:'
        echo "- {name: wait, image: box, command: [sh, -c, 'read -r _ </gate/$serial'], volumeMounts: [{name: gate, mountPath: /gate}]}"
        echo 'containers:'
        for number in $(seq "$2"); do echo "- {name: c$number, image: box, command: [sleep, '$serial']}"; done
        echo "volumes: [{name: gate, hostPath: {path: $scratch/gate}}]"
    } | pod "cost-$serial" >"$scratch/pods.yaml"
    "$k" create -f "$scratch/pods.yaml" && wait_for "$patience" pgrep -f "read -r _ </gate/$serial" || return 1
    pod_shim=$(shim_of "$(pgrep -f "read -r _ </gate/$serial")")
    [ -n "$pod_shim" ] && echo "$pod_shim" >"$shims/cgroup.procs" || return 1
    before=$(cost_now)
    echo >"$scratch/gate/$serial"
    all_run() { [ "$(pgrep -cfx "sleep $serial")" = "$1" ]; }
    wait_for "$patience" all_run "$2" || return 1
    started=$(cost_now)
    "$k" delete pod "cost-$serial" --timeout="${patience}s" && wait_for "$patience" test ! -e "/proc/$pod_shim/exe" || return 1
    printf '%s\n' "start $before$started" "end $started$(cost_now)" |
        awk '{ print $1, $6 - $2, $7 - $3, $8 - $4, $9 - $5 }' >"$scratch/$1"
}
# Adds a line `CLASS STEP SHIM PROCESS-1 BUS CONTAINER` in ms for each step.
cost_round() {
    cost_pod few 1 && cost_pod many $((containers + 1)) || return 1
    paste -d' ' "$scratch/few" "$scratch/many" | awk -v class="$class" -v n="$((containers * 1000))" '{
        print class, $1, ($7 - $2) / n, ($8 - $3) / n, ($9 - $4) / n, ($10 - $5) / n }' | tee -a "$scratch/cost"
}
group_cost() {
    shims=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/shims
    mkdir -p "$shims" "$scratch/gate"
    row "CPU time of a container's start and end"
    # The first pod fills caches.
    check first_pod cost_pod first 2
    for round in $(seq "$rounds"); do
        check "round_$round" cost_round
        sed -n "s/^$class /    ms of shim, process 1, bus, container: &/p" "$scratch/out"
    done
}

# Prints the figures, and writes them to the results of the machine: medians of the rounds.
cost_table() {
    [ -s "$scratch/cost" ] || return 0
    result=$scratch/kubernetes-cost.json
    jq -Rn --arg date "$(date -u +%FT%TZ)" --argjson containers "$containers" '
        def median: sort | .[length / 2 | floor];
        def thousandths: . * 1000 | round / 1000;
        [inputs / " " | { runtime: .[0], step: (if .[1] == "start" then "create+start" else .[1] end), ms: (.[2:] | map(tonumber)) }]
        | group_by([.step, .runtime])
        | map({ runtime: .[0].runtime, step: .[0].step, shim_ms: map(.ms[0]) | median, process_1_ms: map(.ms[1]) | median,
            bus_ms: map(.ms[2]) | median, all_ms: map(.ms[:3] | add) | median, container_ms: map(.ms[3]) | median,
            rounds_ms: map(.ms[:3] | add | thousandths) })
        | . as $rows
        | map(.step as $step | . + { to_runc: ((.all_ms / ($rows[] | select(.runtime == "runc" and .step == $step).all_ms))? // null) })
        | { record: { date: $date, cgroups: "v2", driver: "systemd", containers: $containers },
            rows: map(map_values(if type == "number" then thousandths else . end)) }' <"$scratch/cost" >"$result"
    [ ! -d /run/job/results ] || cp "$result" /run/job/results/
    echo
    echo '| CPU time of a container of a pod, ms | | shim, runtime | process 1 | bus | all | all, each round | ÷ runc | in its cgroup |'
    echo '|---|---|---|---|---|---|---|---|---|'
    jq -r '.rows[] | "| \(.step) | \(.runtime) | \(.shim_ms) | \(.process_1_ms) | \(.bus_ms) | \(.all_ms) | \(.rounds_ms | join(" ")) | \(
        .to_runc // "-") | \(.container_ms) |"' "$result"
    echo
}

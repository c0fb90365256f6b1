# A group of the bed kubernetes: a node under churn for hours (scripts/soak). Jobs come and go, a Deployment is rolled, probes and
# execs run, containers run out of memory; the kubelet, containerd and shims are killed. Every minute a sample is taken of what
# could grow. build/soak keeps the samples, so that runs add up; it ends in a verdict for each column, and a picture.
# shellcheck shell=sh disable=SC2154,SC2016

# What a sample has: minutes of the node; KiB of private memory; numbers; ms of `ctr run --rm`, ten a minute.
soak_columns='minute containerd_KiB kubelet_KiB shim_KiB shims descriptors threads cgroups mounts namespaces files p50_ms p99_ms'

soak_starts() {
    for number in 1 2 3 4 5 6 7 8 9 10; do
        from=$(date +%s%N)
        NS=soak timeout 60 "$c" run --rm --null-io --runtime io.containerd.dayfly.v2 "$soak_image" "soak-$number" true >/dev/null 2>&1 || continue
        echo $((($(date +%s%N) - from) / 1000000))
    done | sort -n
}
# The DaemonSet's pod has containerd's own shim.
soak_shims() { shims | while read -r pid; do ! grep -q dayfly "/proc/$pid/cmdline" || echo "$pid"; done 2>/dev/null; }
soak_sample() {
    shim_pids=$(soak_shims) kubelet_pid=$(cat "$scratch/pid/kubelet")
    starts=$(soak_starts)
    # shellcheck disable=SC2086
    echo "$((($(date +%s) - soak_began) / 60)) $(private_memory "$daemon") $(private_memory "$kubelet_pid") \
$(private_memory $shim_pids) $(echo "$shim_pids" | wc -l) \
$(for pid in $daemon $kubelet_pid $shim_pids; do find "/proc/$pid/fd" 2>/dev/null; done | wc -l) \
$(for pid in $daemon $kubelet_pid $shim_pids; do find "/proc/$pid/task" -maxdepth 1 2>/dev/null; done | wc -l) \
$(find /sys/fs/cgroup/*/"$containerd_namespace" -type d 2>/dev/null | wc -l) $(wc -l </proc/self/mountinfo) \
$(find "$scratch/state" /run/netns -name 'cni-*' 2>/dev/null | wc -l) \
$(find /run/dayfly* /run/containerd /run/dayfly-trace "$scratch/state" -mindepth 1 2>/dev/null | wc -l) \
$(echo "$starts" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0, v[NR] + 0 }')"
}

# The churn, each in a process of its own, until $scratch/soak.stop, or until the bed has been killed.
soak_goes_on() { [ ! -e "$scratch/soak.stop" ] && kill -0 $$; }
soak_jobs() {
    number=0
    while soak_goes_on; do
        number=$((number + 1))
        sed "s/NUMBER/$number/g" "$scratch/soak-job.yaml" | "$k" create -f - &&
            timeout 300 "$k" wait --for=condition=Complete "job/job-$number" --timeout=290s && echo . >>"$scratch/soak.jobs" ||
            echo "job-$number" >>"$scratch/soak.lost"
        timeout 120 "$k" delete job "job-$number" --cascade=foreground
    done
}
soak_rolls() {
    while soak_goes_on; do
        "$k" rollout restart deployment/web && timeout 300 "$k" rollout status deployment/web --timeout=290s && echo . >>"$scratch/soak.rolls" ||
            echo rollout >>"$scratch/soak.lost"
        sleep 20
    done
}
soak_execs() {
    while soak_goes_on; do
        timeout 60 "$k" exec deployment/web -- true && echo . >>"$scratch/soak.execs"
        sleep 2
    done
}
soak_memory() {
    while soak_goes_on; do
        "$k" create -f "$scratch/soak-oom.yaml" && timeout 120 "$k" wait --for=jsonpath='{.status.phase}'=Failed pod/oom --timeout=110s &&
            echo . >>"$scratch/soak.ooms"
        timeout 120 "$k" delete pod oom
        sleep 15
    done
}

group_soak() {
    results=$top/build/soak
    mkdir -p "$results"
    soak_began=$(date +%s)
    [ ! -s "$results/samples" ] || soak_began=$((soak_began - 60 * $(awk 'END { print $1 + 1 }' "$results/samples")))
    soak_until=$(($(date +%s) + $(awk "BEGIN { print int($hours * 3600) }")))
    NS=soak "$c" image import --base-name localhost/dayfly "$scratch/image/image.tar" >/dev/null
    soak_image=$(NS=soak "$c" image ls -q | head -1)
    box oom 'exec tail /dev/zero' 'resources: {limits: {memory: 32Mi}}' >"$scratch/soak-oom.yaml"
    cat >"$scratch/soak-job.yaml" <<YAML
{apiVersion: batch/v1, kind: Job, metadata: {name: job-NUMBER}, spec: {completions: 8, parallelism: 4, template: {spec: {runtimeClassName: $class,
  restartPolicy: OnFailure, terminationGracePeriodSeconds: 1, containers: [{name: main, image: 'localhost/dayfly:box', command: ['true']}]}}}}
YAML
    cat >"$scratch/pods.yaml" <<YAML
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 6, selector: {matchLabels: {app: web}}, template: {metadata:
  {labels: {app: web}}, spec: {runtimeClassName: $class, terminationGracePeriodSeconds: 1, containers: [{name: main, image: 'localhost/dayfly:box',
  command: [sh, -c, 'trap "exit 0" TERM; while :; do sleep 1; done'], readinessProbe: {exec: {command: ['true']}, periodSeconds: 1,
  timeoutSeconds: 10}, livenessProbe: {exec: {command: ['true']}, periodSeconds: 2, timeoutSeconds: 10}}]}}}}
YAML
    row "under churn for $hours hours"
    make_pods
    check web_is_there timeout 300 "$k" rollout status deployment/web --timeout=290s
    soakers=
    for churn in jobs rolls execs memory; do
        "soak_$churn" >"$scratch/log/soak-$churn" 2>&1 </dev/null 9>&- &
        soakers="$soakers $!"
    done
    minute=0
    while [ "$(date +%s)" -lt "$soak_until" ]; do
        sample_at=$(($(date +%s) + 60))
        soak_sample | tee -a "$results/samples"
        minute=$((minute + 1))
        case $((minute % 10)) in
            3 | 6) kill -KILL "$(soak_shims | shuf -n 1)" 2>/dev/null ;;
            8) unserve kubelet KILL && kubelet_start ;;
            9) kill_daemon; containerd_start 60 ;;
        esac
        while [ "$(date +%s)" -lt $sample_at ]; do sleep 1; done
    done
    touch "$scratch/soak.stop"
    # shellcheck disable=SC2086
    wait $soakers
    echo "done: $(for what in jobs rolls execs ooms; do echo "$(wc -l <"$scratch/soak.$what") $what,"; done | tr '\n' ' ')lost: $([ ! -e "$scratch/soak.lost" ] && echo 0 || wc -l <"$scratch/soak.lost")"
    check no_job_is_lost test ! -e "$scratch/soak.lost"
    timeout 300 "$k" delete deployment web --cascade=foreground
    check web_is_gone wait_for "$patience" sh -c "[ -z \"\$('$get' pods '{.items[*].metadata.name}')\" ]"
    soak_verdict
}

# The slope of each column an hour, by least squares over means of ten minutes, and its interval of 95 %: it grows if the interval
# is above 0, and an hour adds more than a hundredth of the column's mean.
soak_verdict() {
    for column in $(seq 2 13); do
        name=$(echo "$soak_columns" | cut -d' ' -f"$column")
        verdict=$(awk -v c="$column" '
            { block = int($1 / 10); sum[block] += $c; count[block]++; all += $c; if (block > last) last = block }
            END {
                for (b = 0; b <= last; b++) if (count[b]) { n++; x[n] = b / 6; y[n] = sum[b] / count[b]; mx += x[n]; my += y[n] }
                if (n < 4) { print "too short"; exit }
                mx /= n; my /= n
                for (i = 1; i <= n; i++) { sxx += (x[i] - mx) ^ 2; sxy += (x[i] - mx) * (y[i] - my) }
                slope = sxy / sxx
                for (i = 1; i <= n; i++) rest += (y[i] - my - slope * (x[i] - mx)) ^ 2
                half = (n < 8 ? 2.8 : 2.1) * sqrt(rest / (n - 2) / sxx)
                mean = all / NR
                printf "%s: mean %.0f, %+.1f an hour [%+.1f %+.1f]", (slope - half > 0 && slope > mean / 100) ? "grows" : "flat", mean, slope, slope - half, slope + half
            }' "$results/samples")
        echo "    $name: $verdict"
        case $verdict in flat*) passes "soak_$name" ;; too*) skips "soak_$name" 'fewer than 40 minutes' ;; *) fails "soak_$name" " $verdict" ;; esac
    done
    { echo "minute,shim KiB / 100,descriptors,files,p50 ms,p99 ms"; awk '{ print $1 "," $4 / 100 "," $6 "," $11 "," $12 "," $13 }' "$results/samples"; } |
        "$runtime" host chart --kind lines --title 'A node under churn' --y 'as named' >"$results/soak.svg" && echo 'picture: build/soak/soak.svg'
}

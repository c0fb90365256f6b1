# Cases that engines with the command line of Podman and Docker have in common.
# shellcheck shell=sh disable=SC2034,SC2154

# FILE RUNTIME MANAGER [DRIVER]: writes a program that is Podman with storage, state and configuration of its own.
podman_at() {
    containers_conf >"$scratch/containers.conf"
    program "$1" <<WRAPPER
#!/bin/sh
export CONTAINERS_CONF='$scratch/containers.conf'
exec podman --root '$scratch/root' --runroot '$scratch/run' --tmpdir '$scratch/tmp' --storage-driver ${4:-overlay} \\
    --cgroup-manager $3 --events-backend none ${2:+--runtime "$2"} "\$@"
WRAPPER
}

# ENGINE IMAGE OPTION...: runs containers that end.
engine_runs() {
    e=$1 image=$2
    shift 2
    expect run hello "$e" run --rm "$@" "$image" echo hello
    expect run_exit_code 'exit 7' "$e" run --rm "$@" "$image" sh -c 'exit 7'
    expect run_missing_program 'exit 127' "$e" run --rm "$@" "$image" /no/such
    expect run_not_executable 'exit 126' "$e" run --rm "$@" "$image" /etc/passwd
    expect run_user 1000 "$e" run --rm "$@" --user 1000:1000 "$image" id -u
    expect run_terminal /dev/pts/0 "$e" run --rm -t "$@" "$image" tty
    expect run_hostname mayfly "$e" run --rm "$@" --hostname mayfly "$image" hostname
    expect run_environment blue "$e" run --rm "$@" -e COLOUR=blue "$image" sh -c 'echo $COLOUR'
    expect run_read_only 'exit 1' "$e" run --rm "$@" --read-only "$image" touch /x
    expect run_volume 'root:x:0:' "$e" run --rm "$@" -v "$scratch/image/rootfs/etc:/mnt:ro" "$image" cat /mnt/group
    expect run_tmpfs tmpfs "$e" run --rm "$@" --tmpfs /mnt "$image" sh -c "grep ' /mnt ' /proc/mounts | cut -d' ' -f1"
    expect run_capabilities 'exit 1' "$e" run --rm "$@" --cap-drop all "$image" chown 1:1 /etc/passwd
}

# ENGINE IMAGE OPTION...: the life of the container `one`; $pauses: it can be paused; $missing: the exit code of an exec of nothing.
engine_life() {
    e=$1 image=$2
    shift 2
    check run_detached "$e" run -d --name one "$@" "$image" sh -c 'echo logged; exec sleep 1000'
    expect exec inside "$e" exec one echo inside
    expect exec_exit_code 'exit 9' "$e" exec one sh -c 'exit 9'
    expect exec_terminal 'a terminal' "$e" exec -t one sh -c 'test -t 0 && echo a terminal'
    expect exec_user 1000 "$e" exec -u 1000 one id -u
    expect exec_directory /tmp "$e" exec -w /tmp one pwd
    check exec_detached "$e" exec -d one sleep 500
    expect exec_missing_program "exit ${missing:-127}" "$e" exec one /no/such
    expect logs logged "$e" logs one
    check top "$e" top one
    [ -z "${pauses:-}" ] || {
        check pause "$e" pause one
        expect paused paused "$e" inspect -f '{{.State.Status}}' one
        check unpause "$e" unpause one
    }
    check kill_hup "$e" kill -s HUP one
    expect running true "$e" inspect -f '{{.State.Running}}' one
    check stop "$e" stop -t 1 one
    expect stopped exited "$e" inspect -f '{{.State.Status}}' one
    check start_again "$e" start one
    expect exec_again inside "$e" exec one echo inside
}

# DIRECTORY RUNTIME: starts a buildkitd whose worker executes the runtime, in the network namespace; its files are in the
# directory, with a socket `sock`. $builder is its process.
buildkit_start() {
    mkdir -p "$1/tmp"
    cat >"$1/config.toml" <<CONFIG
root = "$1/root"
[grpc]
  address = ["unix://$1/sock"]
[otel]
  socketPath = "$1/otel.sock"
[cdi]
  disabled = true
[worker.containerd]
  enabled = false
[worker.oci]
  enabled = true
  binary = "$2"
  snapshotter = "overlayfs"
  networkMode = "host"
  defaultCgroupParent = "$containerd_namespace"
CONFIG
    TMPDIR=$1/tmp nsenter -t "$holder" -n "$BUILDKIT_BIN/buildkitd" --config "$1/config.toml" </dev/null >"$1.log" 2>&1 &
    builder=$!
    wait_for 60 timeout 5 "$BUILDKIT_BIN/buildctl" --addr "unix://$1/sock" debug workers
}

# OPTION...: starts or restarts Docker in the network namespace, and waits until it answers.
docker_start() {
    export DOCKER_HOST="unix://$scratch/docker.sock"
    nsenter -t "$holder" -n dockerd --data-root "$scratch/docker" --exec-root "$scratch/exec" --pidfile "$scratch/docker.pid" \
        --host "$DOCKER_HOST" --iptables=false --ip6tables=false --bridge=none --storage-driver overlay2 \
        --cgroup-parent "/$containerd_namespace" --exec-opt native.cgroupdriver=cgroupfs --add-runtime "dayfly=$runtime" "$@" \
        >>"$scratch/dockerd.log" 2>&1 </dev/null &
    daemon=$!
    wait_for 30 timeout 5 docker version
}

# DIRECTORY: makes the context of an image that is one program, without a base.
scratch_context() {
    mkdir -p "$1"
    cp "$scratch/image/rootfs/bin/busybox" "$1/busybox"
    cat >"$1/Dockerfile" <<'DOCKERFILE'
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "echo $((6 * 7)) >/answer"]
ENTRYPOINT ["/bin/busybox"]
DOCKERFILE
}

# How long the step of an interrupted build sleeps: no other process sleeps that long.
sleeps=$((1000000 + $$))
# Prints such processes.
steps_of_builds() { pgrep -fx "sleep $sleeps"; }
no_steps_of_builds() { ! steps_of_builds; }
# LABEL COMMAND...: starts a build that does not end, and interrupts it.
interrupted() {
    of=$1
    shift
    "$@" >"$scratch/interrupted" 2>&1 </dev/null &
    build=$!
    check "step_runs$of" wait_for "$patience" steps_of_builds
    # Until the engine knows of the step, too.
    sleep 1
    kill -TERM $build
    wait $build
    check "interrupted$of" wait_for "$patience" no_steps_of_builds
}

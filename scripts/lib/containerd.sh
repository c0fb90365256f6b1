# A private containerd with a shim, and checks that nothing is left. scripts/bed reads it.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2119,SC2120,SC2154

for place in "${CONTAINERD_BIN:-}" "${DOCKER_BIN:-}"; do [ -z "$place" ] || PATH=$place:$PATH; done
shim=${DAYFLY_SHIM:-}
case $shim in '' | /*) ;; *) shim=$PWD/$shim ;; esac
if [ -n "$shim" ]; then
    # containerd looks for the program containerd-shim-dayfly-v2 in its PATH.
    PATH=$(dirname "$shim"):$PATH
    shim_options="--runtime io.containerd.dayfly.v2"
else
    shim_options="--runtime io.containerd.runc.v2 --runc-binary $runtime"
fi
# A namespace that nobody else uses, because it also names cgroups.
containerd_namespace=dayfly-test-$$
daemon=
holder=

# DIRECTORY: covers it with a private one. Engines put sockets, FIFOs and state there regardless of their configuration.
made_directories=
cover() {
    [ -d "$1" ] || { mkdir "$1" && made_directories="$1 $made_directories"; }
    mount -t tmpfs -o "mode=${2:-755}" dayfly-test "$1" || exit 1
}

# DIRECTORY [CRI]: writes the configuration of a containerd whose files are there. With CRI, a file to append, the CRI plugins
# are enabled.
containerd_config() {
    {
        if [ -n "${2:-}" ]; then
            echo 'version = 3'
            off=
        else
            echo 'version = 2'
            off='"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", '
        fi
        cat <<CONFIG
root = "$1/root"
state = "$1/state"
disabled_plugins = [$off"io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
    "io.containerd.nri.v1.nri"]
[grpc]
  address = "$1/containerd.sock"
[ttrpc]
  address = "$1/containerd.ttrpc.sock"
CONFIG
        [ -z "${2:-}" ] || cat "$2"
    } >"$1/config.toml"
}

# A network namespace separates abstract sockets from others, and tells which processes are the bed's. A separate process
# holds it, so that it remains when the daemon is killed.
hold_network() {
    unshare -n sleep 1000000 </dev/null >/dev/null 2>&1 9>&- &
    holder=$!
    host_net=$(readlink /proc/self/ns/net)
    wait_for 5 sh -c "net=\$(readlink /proc/$holder/ns/net) && [ \"\$net\" != '$host_net' ]" || exit 1
    net=$(readlink "/proc/$holder/ns/net")
    nsenter -t "$holder" -n ip link set lo up
}
# Prints the processes of that namespace, except its holder, the daemon, and a registry.
in_network() { [ -z "$holder" ] || pgrep --ns "$holder" --nslist net 2>/dev/null | grep -vxE "$daemon|$holder|${registry:-}"; }
show_processes() { while read -r pid; do echo "process $pid $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"; done; }

# HANDLER...: prepares a containerd, with these runtimes for the CRI if there are any.
containerd_prepare() {
    case " $* " in *' dayfly-shim '*) [ -x "$shim" ] || give_up "no shim at ${shim:-DAYFLY_SHIM}: make build-shim" ;; esac
    # Root of a user namespace must be able to reach root filesystems.
    chmod 711 "$scratch"
    cover /run/containerd 711
    [ $# = 0 ] || containerd_cri_config "$scratch/cri.toml" "$@"
    containerd_config "$scratch" ${1:+"$scratch/cri.toml"}
    hold_network
    program "$scratch/ctr" <<WRAPPER
#!/bin/sh
export CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1
exec nsenter -t $holder -n ctr --address '$scratch/containerd.sock' --namespace "\${NS:-$containerd_namespace}" "\$@"
WRAPPER
    c=$scratch/ctr
    [ $# = 0 ] || export NS=k8s.io
}
# Starts or restarts containerd, and waits until it answers.
containerd_start() {
    nsenter -t "$holder" -n containerd --config "$scratch/config.toml" </dev/null >>"$scratch/containerd.log" 2>&1 9>&- &
    daemon=$!
    wait_for "${1:-30}" timeout 5 "$c" version
}
# Kills the daemon, which is this shell's child.
kill_daemon() {
    kill -KILL "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
}
# HANDLER...: prepares and starts a containerd, or ends the bed.
containerd_up() {
    containerd_prepare "$@"
    containerd_start || give_up 'containerd does not start:' "$scratch/containerd.log"
}
# Imports the image; $image is its name. $run starts a container: the default configuration asks for more open files than the
# host may allow.
containerd_image() {
    check import "$c" image import "$scratch/image/image.tar"
    image=$("$c" image ls -q | head -1)
    run="$c run $shim_options"
    ! "$c" run --help 2>&1 | grep -q rlimit-nofile || run="$run --rlimit-nofile 1024"
}

# ID: the state and the process of a task.
task_status() { "$c" task ls | awk -v id="$1" '$1 == id { print $3 }'; }
task_pid() { "$c" task ls | awk -v id="$1" '$1 == id { print $2 }'; }
# Prints the bed's own shims.
shims() { pgrep -x containerd-shim --ns "$holder" --nslist net; }
# PID: prints its parent, if that is a shim. No other process is killed.
shim_of() {
    parent=$(awk '/^PPid:/ { print $2 }' "/proc/$1/status" 2>/dev/null)
    ! grep -q containerd-shim "/proc/$parent/cmdline" 2>/dev/null || echo "$parent"
}

# Events, which `listener` writes to $scratch/events. ctr does not report when it has subscribed: events are made until it prints
# one.
listen() {
    "$c" events >"$scratch/events" 2>&1 </dev/null &
    listener=$!
    check listens sh -c "until grep -q /images/update '$scratch/events'; do '$c' image label '$image' made=\$(date +%s%N); sleep 0.1; done"
}
# ID EVENT: waits for the event of a task.
told() { wait_for "$patience" grep -q "/tasks/$2 .*\"$1\"" "$scratch/events"; }
# ID: prints the task's events in order, without the one that the Go shim may lose.
sent() {
    grep -F "\"$1\"" "$scratch/events" | grep -o ' /tasks/[a-z-]*' | cut -c9- |
        if [ -n "$shim" ]; then cat; else grep -v delete; fi | paste -sd ' '
}

# Prints what the host has in addition to the state before, except for containerd and what it is asked to keep:
# processes, mounts, cgroups, state, sockets, one per line.
shim_leftovers() {
    in_network | show_processes
    awk -v scratch="$scratch/" 'index($5, scratch) == 1 || index($5, "/run/containerd/") == 1 { print "mount", $5 }' /proc/self/mountinfo
    for group in /sys/fs/cgroup/"$containerd_namespace"/* /sys/fs/cgroup/*/"$containerd_namespace"/*; do
        [ ! -d "$group" ] || echo "cgroup $group"
    done
    # A name with a leading dot means that containerd was killed while it removed the directory.
    find "$scratch/state" -path '*/io.containerd.runtime.v2.task/*/*' -prune ! -name '.*' -print 2>/dev/null | sed 's/^/state /'
    # The Go shim leaves its socket if it is killed.
    find /run/containerd -mindepth 1 ! -type d ! -path "${shim:-/run/containerd/s}/*" 2>/dev/null | sed 's/^/file /'
    # A container's directory without contents is not state; directories that are made once stay.
    find /run/containerd/runc /run/containerd/dayfly -mindepth 2 -maxdepth 2 2>/dev/null | sed 's/^/state /'
}

# Passes when nothing is left on the host.
nothing_left_on_the_host() {
    # The Go shim leaves its sockets.
    [ -n "$shim" ] || rm -f /run/containerd/s/*
    leaves_nothing nothing_left_on_the_host shim_leftovers "${1:-100}"
}

# Ends the daemon, and the processes that are still in the namespace and in the containers' cgroups; then removes mounts,
# cgroups and files.
containerd_clean_up() {
    if [ -n "$daemon" ] && [ -d "/proc/$daemon" ]; then
        [ -z "${c:-}" ] || for task in $(timeout 10 "$c" task ls -q 2>/dev/null); do timeout 10 "$c" task rm -f "$task" >/dev/null 2>&1; done
        end_child "$daemon"
    fi
    daemon=
    for pid in $(in_network) ${registry:-} $holder; do kill -KILL "$pid" 2>/dev/null; done
    [ -z "$holder" ] || wait "$holder" 2>/dev/null
    for group in /sys/fs/cgroup/"$containerd_namespace"* /sys/fs/cgroup/*/"$containerd_namespace"*; do
        [ -d "$group" ] || continue
        # shellcheck disable=SC2038
        find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null | xargs -r kill -KILL 2>/dev/null
        sleep 0.1
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    unmount_scratch
    for directory in /run/containerd $made_directories; do umount -l "$directory" 2>/dev/null; done
    # shellcheck disable=SC2086
    [ -z "$made_directories" ] || rmdir $made_directories 2>/dev/null
}
clean_up() { containerd_clean_up; }

# [portmap]: pods get addresses of a bridge in the bed's network namespace; with portmap, ports of it, too.
cni_bridge() {
    mkdir -p "$scratch/cni/bin" "$scratch/cni/conf"
    for plugin in bridge host-local loopback "$@"; do ln -sf "$CNI_BIN/$plugin" "$scratch/cni/bin/$plugin" || return 1; done
    rm -f "$scratch/cni/conf/"*
    ports=
    [ $# = 0 ] || ports=", {\"type\": \"$1\", \"capabilities\": {\"portMappings\": true}}"
    cat >"$scratch/cni/conf/10-pods.conflist" <<CNI
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$scratch/cni/addresses", "routes": [{"dst": "0.0.0.0/0"}],
    "ranges": [[{"subnet": "${pod_subnet:-10.99.0.0/22}"}]]}}$ports]}
CNI
}

# FILE NAME...: writes the CRI part of a configuration, with runtimes of those names: runc-dayfly and dayfly-shim, and
# runc and crun for comparison.
containerd_cri_config() {
    cni_bridge || exit
    cat >"$1" <<CRI
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '${pause_name:-localhost/dayfly:pause}'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE, oom_score_adj cannot be lowered.
  restrict_oom_score_adj = $( (echo -1 >/proc/self/oom_score_adj) 2>/dev/null && echo false || echo true)
  enable_unprivileged_ports = false
  enable_unprivileged_icmp = false
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ['$scratch/cdi']
  ${stats_period:+stats_collect_period = '$stats_period'}
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = '$2'
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['$scratch/cni/bin']
    conf_dir = '$scratch/cni/conf'
    use_internal_loopback = true
[plugins.'io.containerd.grpc.v1.cri']
  disable_tcp_service = true
  stream_server_address = '127.0.0.1'
  stream_server_port = '0'
CRI
    file=$1
    shift
    for name in "$@"; do
        type=io.containerd.runc.v2
        case $name in
            dayfly-shim) type=io.containerd.dayfly.v2 binary= ;;
            runc-dayfly) binary=$runtime ;;
            *) binary=$(command -v "$name") ;;
        esac
        cat >>"$file" <<CRI
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.$name]
  runtime_type = '$type'
CRI
        # containerd 2 does not support user namespaces for options of another runtime than runc, because it wants to
        # change them.
        [ -z "$binary" ] || cat >>"$file" <<CRI
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.$name.options]
    BinaryName = '$binary'
    SystemdCgroup = $([ "${cgroup_driver:-}" = systemd ] && echo true || echo false)
CRI
    done
}

# Devices dayfly.test/hook=createRuntime and =createContainer: hooks that read and write the root filesystem in the
# bundle, as NVIDIA's do. $scratch/hooks contains what they have seen.
containerd_cri_hooks() {
    mkdir -p "$scratch/cdi" "$scratch/hooks"
    # In a user namespace, the writer is not root.
    chmod 1777 "$scratch/hooks"
    program "$scratch/hook" <<'HOOK'
#!/bin/sh
# KIND DIRECTORY
set -e
bundle=$(sed -n 's/.*"bundle" *: *"\([^"]*\)".*/\1/p')
cat "$bundle/rootfs/etc/passwd" >"$2/$1"
echo "changed by $1" >"$bundle/rootfs/by-a-hook"
HOOK
    devices=
    for kind in createRuntime createContainer; do
        devices="$devices${devices:+, }{\"name\": \"$kind\", \"containerEdits\": {\"hooks\": [
            {\"hookName\": \"$kind\", \"path\": \"$scratch/hook\", \"args\": [\"hook\", \"$kind\", \"$scratch/hooks\"]}]}}"
    done
    echo "{\"cdiVersion\": \"0.6.0\", \"kind\": \"dayfly.test/hook\", \"devices\": [$devices]}" >"$scratch/cdi/hook.json"
}

# [COUNT]: imports the images of the pods' containers, and `many`, the test image with COUNT layers in place of its one. Each
# layer adds a file to /layers, named by its number.
cri_images() {
    pause_image sleep 1000000 && tar -C "$scratch/image/layout" -cf "$scratch/image/images.tar" . || return
    [ -z "${1:-}" ] || layered_image "$1" "$scratch/many.tar" || return
    for archive in "$scratch/image/images.tar" ${1:+"$scratch/many.tar"}; do
        timeout "$patience" "$c" image import --base-name localhost/dayfly "$archive" || return
    done
}
# WORD...: adds the image `pause`, which runs this command.
pause_image() {
    for word in "$@"; do
        shift
        set -- "$@" --config.cmd "$word"
    done
    umoci config --image "$scratch/image/layout:box" --tag pause "$@"
}

# COUNT FILE: writes an image archive with the image `many`.
layered_image() {
    cp -r "$scratch/image/layout" "$scratch/many"
    mkdir -p "$scratch/layer/layers"
    # The first layer is the test image's own.
    for number in $(seq 0 $(($1 - 2))); do
        rm -f "$scratch/layer/layers"/*
        echo "$number" >"$scratch/layer/layers/$number"
        tar -C "$scratch/layer" -cf "$scratch/layer.tar" "layers/$number"
        umoci raw add-layer --image "$scratch/many:box" "$scratch/layer.tar" >/dev/null || return 1
    done
    umoci tag --image "$scratch/many:box" many && umoci rm --image "$scratch/many:box" &&
        tar -C "$scratch/many" -cf "$2" .
    result=$?
    rm -rf "$scratch/many" "$scratch/layer" "$scratch/layer.tar"
    return $result
}

# COMMAND: writes the programs `start`, which starts the daemon and keeps its pid in the file `daemon`, and `restart`.
restartable() {
    program "$scratch/start" <<START
#!/bin/sh
# In a directory of its own: conmon writes the file \`oom\` into the working directory when an exec runs out of memory.
cd '$scratch' || exit
nsenter -t $holder -n $1 </dev/null >>'$scratch/daemon.log' 2>&1 &
echo \$! >'$scratch/daemon'
START
    program "$scratch/restart" <<RESTART
#!/bin/sh
old=\$(cat '$scratch/daemon')
kill -KILL "\$old"
while [ -e "/proc/\$old/exe" ]; do sleep 0.05; done
rm -f '$socket'
exec '$scratch/start'
RESTART
    "$scratch/start"
    wait_for 60 test -S "$socket" || give_up 'the daemon does not start:' "$scratch/daemon.log"
    daemon=$(cat "$scratch/daemon")
}

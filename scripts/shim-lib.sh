# Shared by the scripts that run containerd with a shim, after engine-lib.sh: a private containerd, and checks that
# nothing is left.
# shellcheck shell=sh
# `runtime` and `scratch` come from engine-lib.sh; `shim_options` is for the caller.
# shellcheck disable=SC2034,SC2154
#
# CONTAINERD_BIN  a directory with another containerd, ctr and shim (scripts/containerd2 builds version 2)
# DAYFLY_SHIM     containerd-shim-dayfly-v2; if empty, containerd's own shim with dayfly as its runtime
# Needs scripts/view, whose mount namespace is its own.

[ -z "${CONTAINERD_BIN:-}" ] || PATH=$CONTAINERD_BIN:$PATH
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

# Ends with a counted skip in a view without CPU shares, which ctr and the CRI set in every container.
need_shares() {
    [ ! -e /sys/fs/cgroup/cgroup.controllers ] || grep -qw cpu /sys/fs/cgroup/cgroup.controllers || {
        echo "test $engine ... skipped: no cpu controller in this view, and containerd gives every container CPU shares"
        skipped=1
        finish
    }
}

# A private directory for the sockets, FIFOs and state of containerd and its shims, which they put there regardless of
# their configuration.
containerd_run_dir() {
    # Root of a user namespace must be able to reach root filesystems.
    chmod 711 "$scratch"
    made_run_dir=
    [ -d /run/containerd ] || { mkdir /run/containerd && made_run_dir=1; }
    mount -t tmpfs -o mode=711 dayfly-test /run/containerd || exit 1
}

# FILE [CRI]: writes a configuration. With CRI, a file to append, the CRI plugins are enabled.
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
root = "$scratch/root"
state = "$scratch/state"
disabled_plugins = [$off"io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
    "io.containerd.nri.v1.nri"]
[grpc]
  address = "$scratch/containerd.sock"
[ttrpc]
  address = "$scratch/containerd.ttrpc.sock"
CONFIG
        [ -z "${2:-}" ] || cat "$2"
    } >"$1"
}

# A network namespace separates its abstract sockets from others. A separate process holds it, so that it remains when
# containerd is killed.
containerd_hold() {
    unshare -n sleep 1000000 </dev/null >/dev/null 2>&1 &
    holder=$!
    host_net=$(readlink /proc/self/ns/net)
    wait_for 5 sh -c "net=\$(readlink /proc/$holder/ns/net) && [ \"\$net\" != '$host_net' ]" || exit 1
    net=$(readlink "/proc/$holder/ns/net")
    cat >"$scratch/ctr" <<WRAPPER
#!/bin/sh
export CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1
exec nsenter -t $holder -n ctr --address '$scratch/containerd.sock' --namespace "\${NS:-$containerd_namespace}" "\$@"
WRAPPER
    chmod +x "$scratch/ctr"
    c=$scratch/ctr
}

# Starts or restarts containerd, and waits until it answers.
containerd_start() {
    nsenter -t "$holder" -n containerd --config "$scratch/config.toml" </dev/null >>"$scratch/containerd.log" 2>&1 &
    daemon=$!
    wait_for "${1:-20}" timeout 5 "$c" version
}

# Prints what the host has in addition to the state before, except for containerd and what it is asked to keep:
# processes, mounts, cgroups, state, sockets, one per line.
shim_leftovers() {
    for place in /proc/[0-9]*/ns/net; do
        [ "$(readlink "$place" 2>/dev/null)" = "$net" ] || continue
        pid=${place#/proc/}
        pid=${pid%%/*}
        case $pid in "$daemon" | "$holder") continue ;; esac
        [ ! -e "/proc/$pid/exe" ] || echo "process $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
    done
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

# Prints what is left, after it has had time to disappear.
shim_nothing_left() {
    tries=${1:-100}
    while [ "$tries" -gt 0 ]; do
        left=$(shim_leftovers)
        [ -n "$left" ] || return 0
        sleep 0.1
        tries=$((tries - 1))
    done
    echo "$left"
    return 1
}

# Kills the processes that are still in the namespace and in the containers' cgroups; then removes mounts, cgroups and
# files.
containerd_clean_up() {
    if [ -n "$daemon" ] && [ -d "/proc/$daemon" ]; then
        for task in $(timeout 10 "$c" task ls -q 2>/dev/null); do timeout 10 "$c" task rm -f "$task" >/dev/null 2>&1; done
        kill "$daemon" 2>/dev/null
        wait_for 10 sh -c "! kill -0 $daemon 2>/dev/null" || kill -KILL "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
    fi
    for place in /proc/[0-9]*/ns/net; do
        [ -n "$holder" ] || break
        [ "$(readlink "$place" 2>/dev/null)" = "$net" ] || continue
        pid=${place#/proc/}
        kill -KILL "${pid%%/*}" 2>/dev/null
    done
    [ -z "$holder" ] || wait "$holder" 2>/dev/null
    for group in /sys/fs/cgroup/"$containerd_namespace" /sys/fs/cgroup/*/"$containerd_namespace"; do
        [ -d "$group" ] || continue
        # shellcheck disable=SC2038
        find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null | xargs -r kill -KILL 2>/dev/null
        sleep 0.1
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    grep " $scratch/" /proc/self/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l 2>/dev/null
    umount -l /run/containerd 2>/dev/null
    [ -z "${made_run_dir:-}" ] || rmdir /run/containerd 2>/dev/null
}

# Pods with their own network get an address from a plugin that does nothing.
cni_nothing() {
    mkdir -p "$scratch/cni/bin" "$scratch/cni/conf"
    cat >"$scratch/cni/bin/nothing" <<'PLUGIN'
#!/bin/sh
# A CNI plugin that reports an address without creating it.
case $CNI_COMMAND in
    VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
    ADD) echo "{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"$CNI_IFNAME\",\"sandbox\":\"$CNI_NETNS\"}],\"ips\":[{\"interface\":0,\"address\":\"10.99.0.2/24\"}]}" ;;
esac
PLUGIN
    chmod +x "$scratch/cni/bin/nothing"
    echo '{"cniVersion":"1.0.0","name":"nothing","plugins":[{"type":"nothing"}]}' >"$scratch/cni/conf/10-nothing.conflist"
}

# FILE NAME...: writes the CRI part of a configuration, with runtimes of those names: runc-dayfly and dayfly-shim, and
# runc and crun for comparison.
containerd_cri_config() {
    cni_nothing
    cat >"$1" <<CRI
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = 'localhost/dayfly:pause'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE, oom_score_adj cannot be lowered.
  restrict_oom_score_adj = true
  enable_unprivileged_ports = false
  enable_unprivileged_icmp = false
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ['$scratch/cdi']
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
    cat >"$scratch/hook" <<'HOOK'
#!/bin/sh
# KIND DIRECTORY
set -e
bundle=$(sed -n 's/.*"bundle" *: *"\([^"]*\)".*/\1/p')
cat "$bundle/rootfs/etc/passwd" >"$2/$1"
echo "changed by $1" >"$bundle/rootfs/by-a-hook"
HOOK
    chmod +x "$scratch/hook"
    devices=
    for kind in createRuntime createContainer; do
        devices="$devices${devices:+, }{\"name\": \"$kind\", \"containerEdits\": {\"hooks\": [
            {\"hookName\": \"$kind\", \"path\": \"$scratch/hook\", \"args\": [\"hook\", \"$kind\", \"$scratch/hooks\"]}]}}"
    done
    echo "{\"cdiVersion\": \"0.6.0\", \"kind\": \"dayfly.test/hook\", \"devices\": [$devices]}" >"$scratch/cdi/hook.json"
}

# The image of the pods' containers, besides that of scripts/image.
containerd_cri_images() {
    umoci config --image "$scratch/image/layout:box" --tag pause --config.cmd sleep --config.cmd 1000000 &&
        tar -C "$scratch/image/layout" -cf "$scratch/image/images.tar" . &&
        timeout "$patience" "$c" image import --base-name localhost/dayfly "$scratch/image/images.tar"
}

# COUNT FILE: writes an image archive with the image `many`: the test image with COUNT layers in place of its one. Each
# layer adds a file to /layers, named by its number.
layered_image() {
    cp -r "$scratch/image/layout" "$scratch/many"
    number=0
    # The first layer is the test image's own.
    while [ $number -lt $(($1 - 1)) ]; do
        mkdir -p "$scratch/layer/layers"
        echo $number >"$scratch/layer/layers/$number"
        tar -C "$scratch/layer" -cf "$scratch/layer.tar" "layers/$number"
        umoci raw add-layer --image "$scratch/many:box" "$scratch/layer.tar" >/dev/null || return 1
        number=$((number + 1))
    done
    umoci tag --image "$scratch/many:box" many && umoci rm --image "$scratch/many:box" &&
        tar -C "$scratch/many" -cf "$2" .
    result=$?
    rm -rf "$scratch/many" "$scratch/layer" "$scratch/layer.tar"
    return $result
}

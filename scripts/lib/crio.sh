# CRI-O with runc, dayfly as deploy/crio.conf adds it, and with DAYFLY_SHIM a runtime `vm`. A bed of CRI-O reads it.
# shellcheck shell=sh disable=SC2034,SC2154

newest_runc
vm=$shim
shim=
socket=$scratch/crio.sock

# These have names that no setting changes.
cover /run/containerd 711
cover /run/crio
chmod 711 "$scratch"
hold_network
cni_bridge || exit

# PROGRAM FILE SCRIPT: writes a program that CRI-O executes. CRI-O asks for oom_score_adj -998 for a pod's own container, and for
# every capability for privileged ones. On a host without CAP_SYS_RESOURCE the kernel refuses both: there, the script takes
# them out of configurations, by the function `edit`.
runtime_program() {
    mkdir -p "${2%/*}"
    {
        echo '#!/bin/sh'
        [ $((0x$(sed -n 's/^CapEff:[^0-9a-f]*//p' /proc/self/status) >> 24 & 1)) = 1 ] || {
            echo 'edit() { [ ! -e "$1" ] || sed -i -e '"'"'s/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/; s/"CAP_SYS_RESOURCE",//g'"'"' "$1"; }'
            echo "$3"
        }
        echo "exec '$1' \"\$@\""
    } | program "$2"
}
by_options='before=
for argument in "$@"; do
    case $before in
        --bundle) edit "$argument/config.json" ;;
        --process) edit "$argument" ;;
    esac
    before=$argument
done'
runtime_program "$runtime" "$scratch/programs/dayfly" "$by_options"
runtime_program "$runc" "$scratch/programs/runc" "$by_options"
# A shim starts in the bundle.
[ -z "$vm" ] || runtime_program "$vm" "$scratch/shims/${vm##*/}" 'edit config.json'
mkdir -p "$scratch/conf.d" "$scratch/empty" "$scratch/log"
sed -e "s|^runtime_path = .*|runtime_path = \"$scratch/programs/dayfly\"|" \
    -e "s|^runtime_root = .*|runtime_root = \"$scratch/state/dayfly\"|" "$top/deploy/crio.conf" >"$scratch/conf.d/10-dayfly.conf"
cat >"$scratch/crio.conf" <<CONFIG
[crio]
root = "$scratch/root"
runroot = "$scratch/runroot"
storage_driver = "overlay"
log_dir = "$scratch/log"
version_file = "$scratch/version"
version_file_persist = "$scratch/version.persist"
clean_shutdown_file = "$scratch/clean.shutdown"
internal_wipe = false
[crio.api]
listen = "$scratch/crio.sock"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
conmon = "$(command -v conmon)"
pinns_path = "$CRIO_BIN/pinns"
namespaces_dir = "$scratch/namespaces"
container_exits_dir = "$scratch/exits"
container_attach_socket_dir = "$scratch/attach"
apparmor_profile = "unconfined"
default_sysctls = []
hooks_dir = []
irqbalance_config_file = "$scratch/irqbalance"
irqbalance_config_restore_file = "disable"
decryption_keys_path = "$scratch/empty"
[crio.runtime.runtimes.runc]
runtime_path = "$scratch/programs/runc"
runtime_type = "oci"
runtime_root = "$scratch/state/runc"
[crio.image]
pause_image = "${pause_name:-localhost/dayfly:pause}"
pause_command = ""
signature_policy = "$scratch/policy.json"
signature_policy_dir = "$scratch/empty"
[crio.network]
network_dir = "$scratch/cni/conf"
plugin_dirs = ["$scratch/cni/bin"]
[crio.nri]
enable_nri = false
CONFIG
[ -z "$vm" ] || cat >"$scratch/conf.d/20-vm.conf" <<CONFIG
[crio.runtime.runtimes.vm]
runtime_path = "$scratch/shims/${vm##*/}"
runtime_type = "vm"
runtime_root = "$scratch/vm"
container_min_memory = "1MiB"
CONFIG
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$scratch/policy.json"

# Starts CRI-O; its programs `start` and `restart` are in $scratch.
crio_up() { restartable "'$CRIO_BIN/crio' --config '$scratch/crio.conf' --config-dir '$scratch/conf.d'"; }

# Prints what pods could leave.
crio_leftovers() {
    in_network | show_processes
    # A storage keeps its directory mounted.
    scratch_mounts | grep -v '/root/overlay$' | sed 's/^/mount /'
    # CRI-O leaves the empty cgroups of conmons that outlived it or were killed: with Kubernetes they go with the pod's cgroup.
    find /sys/fs/cgroup -mindepth 2 -type d -path "*/$containerd_namespace/*" ! -name 'crio-conmon-*' 2>/dev/null | sed 's/^/cgroup /'
    find "$scratch/state" -mindepth 2 -maxdepth 2 2>/dev/null | sed 's/^/state /'
    # The shim's state, its socket, and CRI-O's FIFOs for it.
    find /run/containerd/dayfly -mindepth 2 -maxdepth 2 2>/dev/null | sed 's/^/state /'
    find /run/containerd "$scratch/vm" -mindepth 1 ! -type d 2>/dev/null | sed 's/^/file /'
    find "$scratch/namespaces" "$scratch/exits" "$scratch/attach" -type f 2>/dev/null | sed 's/^/file /'
    nsenter -t "$holder" -n sh -c 'iptables-save; ip6tables-save; nft list ruleset' 2>/dev/null | grep -v '^#' | sed 's/^/rule /'
}

# Shared by the bed kubernetes and its cases: starts and ends the servers of a cluster of one node.
# shellcheck shell=sh
# `scratch`, `holder`, `runtime` and others come from scripts/lib.
# shellcheck disable=SC2154
#
# KUBERNETES_BIN, CNI_BIN   the programs that scripts/programs builds
# KUBERNETES_CONFIG   the kubeconfig of a control plane that runs outside of this machine (scripts/bed guest-kubernetes): then
#                     only the kubelet runs here, with the address of the machine's network device
# Needs scripts/view or scripts/guest-host: directories of the host are covered in a mount namespace of its own.

node_address=10.98.0.1
# The guest's address and its gateway, in QEMU's user network.
guest_address=10.0.2.15
[ -z "${KUBERNETES_CONFIG:-}" ] || node_address=$guest_address node_gateway=10.0.2.2 node_device=eth0
servers='etcd kube-apiserver kube-controller-manager kube-scheduler kubelet'
# With systemd and cgroup v2, all cgroups are made by systemd, below kubepods.slice.
cgroup_driver=cgroupfs
[ ! -d /run/systemd/system ] || [ ! -e /sys/fs/cgroup/cgroup.controllers ] || cgroup_driver=systemd

begun=$(date +%s)
progress() { echo "-- $1 after $(($(date +%s) - begun)) s"; }

# One cluster at a time: each covers the node's directories.
cluster_lock() {
    exec 9>"$KUBERNETES_BIN/lock"
    flock -n 9 || progress "waits for the end of another run, which holds $KUBERNETES_BIN/lock,"
    flock 9
}

# NAME COMMAND...: starts a server in the cluster's network namespace; its messages are in $scratch/log/NAME.
serve() {
    name=$1
    shift
    nsenter -t "$holder" -n "$@" </dev/null >>"$scratch/log/$name" 2>&1 9>&- &
    echo $! >"$scratch/pid/$name"
}
# NAME [SIGNAL]: ends a server and waits for its end.
unserve() {
    end_child "$(cat "$scratch/pid/$1" 2>/dev/null)" "${2:-}"
    rm -f "$scratch/pid/$1"
}

# The keys of the control plane, and a configuration with one token for all servers and kubectl.
control_files() {
    mkdir -p "$scratch/log" "$scratch/pid" "$scratch/pki" "$scratch/plugins" "$scratch/home"
    openssl genrsa -out "$scratch/pki/accounts.key" 2048 2>/dev/null &&
        openssl rsa -in "$scratch/pki/accounts.key" -pubout -out "$scratch/pki/accounts.pub" 2>/dev/null || return 1
    token=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
    (
        umask 077
        echo "$token,admin,admin,system:masters" >"$scratch/pki/tokens"
    )
    control_config "${control_address:-127.0.0.1}" >"$scratch/kubeconfig" && chmod 600 "$scratch/kubeconfig"
    control_kubectl
}
# ADDRESS: prints the configuration for a client that finds the API server at this address.
control_config() {
    cat <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: 'https://$1:6443', insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
CONFIG
}
# Makes the program `k`, which is kubectl in the namespace SPACE.
control_kubectl() {
    k=$scratch/k
    program "$k" <<WRAPPER
#!/bin/sh
export HOME='$scratch/home'
exec nsenter -t $holder -n '$KUBERNETES_BIN/kubectl' --kubeconfig '$scratch/kubeconfig' \${SPACE:+--namespace "\$SPACE"} "\$@"
WRAPPER
}

# The files of the kubelet, and of the control plane if it runs here.
cluster_files() {
    mkdir -p "$scratch/log" "$scratch/pid" "$scratch/static" "$scratch/home"
    if [ -z "${KUBERNETES_CONFIG:-}" ]; then
        control_files || return 1
    else
        cp "$KUBERNETES_CONFIG" "$scratch/kubeconfig" && control_kubectl || return 1
    fi
    echo 'nameserver 127.0.0.1' >"$scratch/resolv.conf"
    # Threshold: pods of one node are evicted when less than 96 of the 256 MiB below /var/lib/kubelet are left.
    kubelet_files <<CONFIG
containerRuntimeEndpoint: unix://$scratch/containerd.sock
address: $node_address
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
staticPodPath: $scratch/static
resolvConf: $scratch/resolv.conf
clusterDNS: [10.97.0.10]
clusterDomain: cluster.local
evictionHard: {nodefs.available: 96Mi, memory.available: 50Mi}
imageGCHighThresholdPercent: 100
maxPods: 500
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
CONFIG
}

# Writes the configuration of a kubelet, with the lines on standard input; and the program `kubelet`, which runs a kubelet where
# the kernel parameters that it sets, whatever its configuration, are files, with the directory of these files and the kubelet
# as arguments.
kubelet_files() {
    mkdir -p "$scratch/sysctl" "$scratch/plugins"
    {
        cat
        cat <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: $cgroup_driver
$([ $cgroup_driver = systemd ] || echo "cgroupRoot: /$containerd_namespace")
volumePluginDir: $scratch/plugins
failSwapOn: false
oomScoreAdj: 0
maxOpenFiles: $(awk '/^Max open files/ { print $5 }' /proc/self/limits)
makeIPTablesUtilChains: false
evictionPressureTransitionPeriod: 5s
CONFIG
    } >"$scratch/kubelet.yaml"
    for sysctl in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
        kernel/keys/root_maxbytes; do
        mkdir -p "$scratch/sysctl/${sysctl%/*}"
        cat "/proc/sys/$sysctl" >"$scratch/sysctl/$sysctl"
    done
    program "$scratch/kubelet" <<'KUBELET'
#!/bin/sh
# SYSCTLS COMMAND...
set -e
cd "$1"
shift
# Where mounts are shared, containerd would see these, and user namespaces could not mount proc.
mount --make-private /proc
find . -type f | while read -r name; do mount --bind "$name" "/proc/sys/$name"; done
cd /
exec "$@"
KUBELET
}

# The node's network device: by default, a bridge that nothing else is connected to.
cluster_network() {
    if [ -n "${KUBERNETES_CONFIG:-}" ]; then
        ip link set "$node_device" netns "$holder" || return 1
    else
        node_device=node0 node_gateway=$node_address
        nsenter -t "$holder" -n ip link add $node_device type bridge || return 1
    fi
    nsenter -t "$holder" -n sh -c "ip link set lo up && ip address add $node_address/24 dev $node_device &&
        ip link set $node_device up && ip route add default via $node_gateway"
}

# The cgroup below which the kubelet makes all others.
cluster_cgroup() {
    [ $cgroup_driver = cgroupfs ] || return 0
    for hierarchy in /sys/fs/cgroup/*/; do
        [ -e "$hierarchy/cgroup.procs" ] || continue
        mkdir "$hierarchy$containerd_namespace" || return 1
    done
    for file in cpuset.cpus cpuset.mems; do
        cat /sys/fs/cgroup/cpuset/$file >"/sys/fs/cgroup/cpuset/$containerd_namespace/$file" || return 1
    done
}

kubelet_start() {
    serve kubelet unshare -m --propagation unchanged "$scratch/kubelet" "$scratch/sysctl" "$KUBERNETES_BIN/kubelet" \
        --config "$scratch/kubelet.yaml" --kubeconfig "$scratch/kubeconfig" --hostname-override "${node_name:-node}" \
        --node-ip $node_address --cert-dir "$scratch/pki/kubelet" --root-dir /var/lib/kubelet
}

# Starts the servers of the control plane, and waits until the API server is ready.
control_start() {
    serve etcd "$KUBERNETES_BIN/etcd" --data-dir "$scratch/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster default=http://127.0.0.1:2380
    serve kube-apiserver "$KUBERNETES_BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --cert-dir "$scratch/pki/api" \
        --advertise-address $node_address --secure-port 6443 --service-cluster-ip-range 10.97.0.0/24 \
        --kubelet-preferred-address-types InternalIP --endpoint-reconciler-type "${endpoint_reconciler:-none}" \
        --allow-privileged --authorization-mode RBAC \
        --token-auth-file "$scratch/pki/tokens" --service-account-issuer https://kubernetes.default.svc \
        --service-account-key-file "$scratch/pki/accounts.pub" --service-account-signing-key-file "$scratch/pki/accounts.key"
    if ! wait_for "$patience" timeout 60 "$k" get --raw /readyz; then
        echo 'kube-apiserver is not ready'
        return 1
    fi
    progress 'kube-apiserver is ready'
    serve kube-controller-manager "$KUBERNETES_BIN/kube-controller-manager" --kubeconfig "$scratch/kubeconfig" \
        --leader-elect=false --bind-address 127.0.0.1 --cert-dir "$scratch/pki/controller" \
        ${node_grace:+--node-monitor-grace-period $node_grace} \
        --service-account-private-key-file "$scratch/pki/accounts.key" --root-ca-file "$scratch/pki/api/apiserver.crt" \
        --flex-volume-plugin-dir "$scratch/plugins"
    serve kube-scheduler "$KUBERNETES_BIN/kube-scheduler" --kubeconfig "$scratch/kubeconfig" --leader-elect=false \
        --bind-address 127.0.0.1 --cert-dir "$scratch/pki/scheduler"
}
control_stop() { for name in kube-scheduler kube-controller-manager kube-apiserver etcd; do unserve $name; done; }

# Starts every server, and waits until the node is ready.
cluster_start() {
    [ -n "${KUBERNETES_CONFIG:-}" ] || control_start || return 1
    kubelet_start
    wait_for "$patience" "$k" get node node || {
        echo 'the kubelet does not register its node'
        return 1
    }
    progress 'the node is registered'
    timeout "$patience" "$k" wait --for=condition=Ready node/node --timeout="${patience}s" >/dev/null &&
        wait_for "$patience" "$k" get serviceaccount default
}

# Prints the last messages of each server.
cluster_messages() {
    for name in $servers; do
        echo "-- $name"
        grep -vE '^(I|W)[0-9]{4} ' "$scratch/log/$name" 2>/dev/null | tail -"${1:-5}" | cut -c1-400
    done
    echo '-- containerd'
    grep -v level=info "$scratch/containerd.log" | tail -"${1:-5}" | cut -c1-400
}

# FILE: prints the last messages of the kubelet and containerd in which an id of the file occurs.
cluster_messages_of_ids() {
    grep -oE '[0-9a-f]{64}' "$1" | sort -u | while read -r id; do
        for file in log/kubelet containerd.log; do
            echo "-- $file on $id"
            grep -a "$id" "$scratch/$file" | tail -12 | cut -c1-400
        done
    done
}

# Prints the pods' cgroups that exist without the pods, one a line.
pod_cgroups() {
    find /sys/fs/cgroup/*/"$containerd_namespace" -mindepth 2 -type d -name 'pod*' 2>/dev/null
    find /sys/fs/cgroup/kubepods.slice -type d -name 'kubepods*-pod*.slice' 2>/dev/null
}

# Ends the servers, from the kubelet on, and removes the kubelet's own cgroups; these can only be removed if no pod's
# cgroup is left.
cluster_stop() {
    unserve kubelet
    control_stop
    # scripts/guest-host changes the root directory, where systemctl would do nothing.
    [ $cgroup_driver = cgroupfs ] || SYSTEMD_IGNORE_CHROOT=1 systemctl stop kubepods.slice
    for hierarchy in /sys/fs/cgroup/*/"$containerd_namespace"; do
        for group in kubepods/besteffort kubepods/burstable kubepods; do
            [ ! -d "$hierarchy/$group" ] || rmdir "$hierarchy/$group" 2>/dev/null
        done
    done
}

# Removes the rest, in whatever state it is.
cluster_clean_up() {
    cluster_stop
    containerd_clean_up
    # Removes the namespace's own cgroup, which is empty by now.
    for hierarchy in /sys/fs/cgroup/*/"$containerd_namespace"; do
        [ ! -d "$hierarchy" ] || find "$hierarchy" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    grep -E ' /(var/lib/kubelet|var/lib/cni|var/log)[/ ]' /proc/self/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l 2>/dev/null
}

# A cluster of three nodes on one machine: containerd, kubelet and kube-proxy of each have mount, network, process, IPC and UTS
# namespaces, /run, /var/lib, /var/log and a cgroup of their own. Pods of node N have addresses of 10.99.N.0/24, with routes
# between the nodes. The control plane, the registry and CoreDNS are in the bed's network namespace, with the bridge that
# connects the nodes.
# shellcheck shell=sh
# Variables of the other files; those of a node are its own.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154
nodes='1 2 3'
registry_address=$node_address control_address=$node_address endpoint_reconciler=lease

# N: writes the files of a node below $scratch/nodeN.
node_files() (
    export KUBERNETES_CONFIG="$scratch/kubeconfig"
    containerd_namespace=$containerd_namespace-$1 node_name=node$1 node_address=10.98.0.1$1 pod_subnet=10.99.$1.0/24
    scratch=$scratch/node$1
    mkdir -p "$scratch/services" "$scratch/pid" "$scratch/state" "$scratch/var/lib" "$scratch/var/log" "$scratch/bin"
    # What the first process keeps running.
    serve() {
        service=$1
        shift
        { printf '#!/bin/sh\nexec' && printf " '%s'" "$@"; } | program "$scratch/services/$service"
    }
    containerd_cri_config "$scratch/cri.toml" runc runc-dayfly dayfly-shim && cni_bridge portmap &&
        containerd_config "$scratch" "$scratch/cri.toml" && cluster_cgroup && cluster_files || return
    serve containerd containerd --config "$scratch/config.toml"
    kubelet_start
    serve kube-proxy "$KUBERNETES_BIN/kube-proxy" --kubeconfig "$scratch/kubeconfig" --hostname-override $node_name \
        --proxy-mode nftables --cluster-cidr 10.99.0.0/16 --conntrack-max-per-core 0 \
        --conntrack-tcp-timeout-established 0s --conntrack-tcp-timeout-close-wait 0s
)

# The program that is the first process of a node.
node_init() {
    program "$scratch/init" <<'INIT'
#!/bin/sh
# DIRECTORY N NODES
set -e
cd "$1"
hostname "node$2"
PATH=$1/bin:$PATH
mount --make-rshared /
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=711 state state
mount --bind var/lib /var/lib
mount --bind var/log /var/log
mkdir -p /run/lock /run/netns /run/node /var/lib/kubelet
# One place on all nodes, for a DaemonSet.
mount --bind . /run/node
until ip link set eth0 up 2>/dev/null; do sleep 0.05; done
ip link set lo up
ip address add "10.98.0.1$2/24" dev eth0
ip route add default via 10.98.0.1
for other in $3; do [ "$other" = "$2" ] || ip route add "10.99.$other.0/24" via "10.98.0.1$other"; done
for service in services/*; do
    service=${service#*/}
    while :; do
        "services/$service" >>"$1.$service.log" 2>&1 &
        echo $! >"pid/$service"
        wait $! || :
        sleep 0.2
    done &
done
# Reaps what has lost its parent, too.
wait
INIT
}

# N: starts a node.
node_start() {
    rm -f "$scratch/node$1/pid/"*
    unshare --mount --net --pid --ipc --uts --fork --kill-child --mount-proc --propagation private "$scratch/init" \
        "$scratch/node$1" "$1" "$nodes" </dev/null >>"$scratch/node$1.log" 2>&1 9>&- &
    echo $! >"$scratch/pid/node$1"
    wait_for 10 sh -c "pgrep -P $! >'$scratch/pid/init$1'" &&
        in_net ip link add "node$1" type veth peer name eth0 netns "$(cat "$scratch/pid/init$1")" &&
        in_net ip link set "node$1" master $node_device up
}
# N: ends all of a node's processes at once. What was mounted there, and its /run, end with them; its cgroups are removed.
node_stop() {
    unserve "node$1" KILL
    for hierarchy in /sys/fs/cgroup/*/"$containerd_namespace-$1"; do
        wait_for 10 sh -c "find '$hierarchy' -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null; ! ls -d '$hierarchy'/*/"
    done
}
# N COMMAND...: runs it on a node.
on_node() {
    number=$1
    shift
    nsenter -t "$(cat "$scratch/pid/init$number")" -m -n -p -i -u "$@"
}
# HANDLER: makes it the default runtime of all nodes.
nodes_handler() {
    for node in $nodes; do
        sed -i "s/default_runtime_name = .*/default_runtime_name = '$1'/" "$scratch/node$node/config.toml"
        on_node $node kill "$(cat "$scratch/node$node/pid/containerd")"
    done
    # The first answer may be that of the old one.
    wait_for 3 false
    for node in $nodes; do wait_for 60 timeout 5 ctr --address "$scratch/node$node/containerd.sock" version || return; done
}
# shellcheck disable=SC2046
nodes_ready() { timeout "$patience" "$k" wait --for=condition=Ready $(printf 'node/node%s ' $nodes) --timeout="${patience}s"; }

# CoreDNS, and the Service by which pods find it.
dns_start() {
    echo ".:53 { errors
        kubernetes cluster.local in-addr.arpa ip6.arpa { kubeconfig $scratch/kubeconfig test
            ttl 1
            pods insecure
        }
    }" >"$scratch/Corefile"
    serve coredns "$COREDNS_BIN/coredns" -conf "$scratch/Corefile"
    "$k" apply -f - <<YAML
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.97.0.10, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [$node_address], conditions: {ready: true}}]
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]
YAML
}

# Starts all of it.
# shellcheck disable=SC2046
nodes_start() {
    servers='etcd kube-apiserver kube-controller-manager kube-scheduler coredns'
    hold_network
    node_init
    { cluster_network && control_files && suite_images; } >"$scratch/images.log" 2>&1 ||
        give_up 'no network or no images' "$scratch/images.log"
    for node in $nodes; do
        { in_net ip route add 10.99.$node.0/24 via 10.98.0.1$node && node_files $node && node_start $node; } \
            >"$scratch/nodes.log" 2>&1 || give_up "no node $node" "$scratch/nodes.log"
    done
    control_start && dns_start >"$scratch/dns.log" || { cluster_messages 10; give_up 'no control plane'; }
    wait_for "$patience" "$k" get $(printf 'node/node%s ' $nodes) && nodes_ready >"$scratch/ready.log" 2>&1 || {
        "$k" describe nodes | tail -60
        give_up 'the nodes are not ready' "$scratch"/node*.log
    }
    progress 'the nodes are ready'
}
nodes_clean_up() {
    for node in $nodes; do unserve node$node KILL; done
    unserve coredns
    cluster_clean_up
}

# Cases of the bed kubernetes: the contents of deploy/, on the cluster. The shim that the class `dayfly` uses in
# all other cases is the one that the DaemonSet has installed.
# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034

# DIRECTORY TARGET: makes the image of the DaemonSet with the programs there, by its Dockerfile.
deploy_image() {
    rm -rf "$scratch/deploy" && mkdir "$scratch/deploy"
    (cd "$top/deploy" && cp Dockerfile containerd.toml node "$scratch/deploy/") &&
        cp "$1/dayfly" "$1/containerd-shim-dayfly-v2" "$scratch/deploy/" || return 1
    build="buildah --root $scratch/deploy.root --runroot $scratch/deploy.run --storage-driver vfs"
    # buildah makes a name from the path, which may have no capital letters.
    (cd "$scratch/image" && $build bud --isolation chroot --build-arg BASE=oci:layout:box -t localhost/dayfly-node "$scratch/deploy") &&
        $build push localhost/dayfly-node "$2"
    result=$?
    $build rmi --all >/dev/null 2>&1
    rm -rf "$scratch/deploy.root" "$scratch/deploy.run"
    return $result
}

# The same for the bed's only node, with the programs under test.
deploy_import() {
    mkdir "$scratch/new" && cp "$runtime" "$shim" "$scratch/new/" && deploy_image "$scratch/new" "oci-archive:$scratch/node.tar:node" &&
        timeout "$patience" "$c" image import --base-name localhost/dayfly "$scratch/node.tar"
}

# FILE IMAGE DIRECTORY RESTART: prints a manifest with the image, the directory of a node's containerd, and how it is restarted.
deploy_manifest() {
    sed -e "s|image: dayfly-node:.*|image: $2|" \
        -e "s|- {name: HOST, value: /host}|&\n        - {name: BIN, value: $3/bin}\n        - {name: CONFIG, value: $3/config.toml}\n        - {name: RESTART, value: $4}|" "$1"
}
# FILE: prints a manifest for the bed's only node, which restarts containerd itself.
deploy_here() { deploy_manifest "$1" localhost/dayfly:node "$scratch" "touch /host$scratch/restart"; }

# Waits until the node script asks for a restart of containerd, and restarts it.
deploy_restart() {
    wait_for "$patience" test -e "$scratch/restart" || return 1
    rm "$scratch/restart"
    end_child "$daemon"
    containerd_start 60
}

deploy_installs() {
    class=dayfly
    row 'deploy/: the DaemonSet installs the shim'
    check make_class "$k" create -f "$top/deploy/runtimeclass.yaml"
    wait_for "$patience" "$k" get serviceaccount default
    box unplaced "['true']" >"$scratch/pods.yaml"
    check make_a_pod "$k" create -f "$scratch/pods.yaml"
    becomes without_a_node Unschedulable "$get" pod/unplaced '{.status.conditions[?(@.type=="PodScheduled")].reason}'
    check delete_a_pod "$k" delete pod unplaced --timeout=60s
    cp "$scratch/config.toml" "$scratch/config.before"
    deploy_here "$top/deploy/daemonset.yaml" >"$scratch/daemonset.yaml"
    check make_daemonset "$k" create -f "$scratch/daemonset.yaml"
    # No pod of the DaemonSet runs before the node has the label.
    "$k" label node node dayfly.run/shim=true >/dev/null
    deploy_restart
    expect containerd_restarts 0 echo $?
    check rollout "$k" rollout status daemonset/dayfly-node -n kube-system --timeout="$((patience - 10))s"
    check shim_is_installed cmp "$shim" "$scratch/bin/containerd-shim-dayfly-v2"
    check runtime_is_installed cmp "$runtime" "$scratch/bin/dayfly"
    becomes node_has_the_handler yes sh -c "'$get' node/node '{.status.runtimeHandlers[*].name}' | tr ' ' '\n' | grep -qx dayfly && echo yes"
    row_end
}

deploy_removes() {
    class=dayfly
    row 'deploy/: a DaemonSet removes it'
    box holds:Always "[sleep, '1000']" >"$scratch/pods.yaml"
    make_pods
    ready holds
    check delete_class "$k" delete runtimeclass dayfly
    check delete_daemonset "$k" delete daemonset dayfly-node -n kube-system --cascade=foreground --timeout="$((patience - 10))s"
    deploy_here "$top/deploy/remove.yaml" >"$scratch/remove.yaml"
    check make_removal "$k" create -f "$scratch/remove.yaml"
    becomes waits_for_the_pods yes sh -c "'$k' logs -n kube-system daemonset/dayfly-node-remove 2>&1 |
        grep -q 'containers run on this node with this shim' && echo yes"
    check shim_is_still_there test -x "$scratch/bin/containerd-shim-dayfly-v2"
    box refused "['true']" >"$scratch/pods.yaml"
    expect no_new_pod 'RuntimeClass "dayfly" not found' sh -c "'$k' create -f '$scratch/pods.yaml' 2>&1 | grep -o 'RuntimeClass \"dayfly\" not found'"
    # As if the pod had started during the removal, when the handler was being taken away.
    cp "$scratch/config.toml" "$scratch/config.with"
    cp "$scratch/config.before" "$scratch/config.toml"
    end_child "$daemon"
    containerd_start 60
    becomes handler_is_gone '' sh -c "'$get' node/node '{.status.runtimeHandlers[*].name}' | tr ' ' '\n' | grep -x dayfly"
    expect pod_still_runs Running "$get" pod/holds '{.status.phase}'
    check delete_pod_without_handler "$k" delete pod holds --timeout=60s
    cp "$scratch/config.with" "$scratch/config.toml"
    deploy_restart
    expect containerd_restarts 0 echo $?
    check rollout "$k" rollout status daemonset/dayfly-node-remove -n kube-system --timeout="$((patience - 10))s"
    check shim_is_gone test ! -e "$scratch/bin/containerd-shim-dayfly-v2"
    check configuration_is_as_before cmp "$scratch/config.before" "$scratch/config.toml"
    check delete_removal "$k" delete daemonset dayfly-node-remove -n kube-system --cascade=foreground --timeout="$((patience - 10))s"
    "$k" label node node dayfly.run/shim- >/dev/null
    row_end
}

# Cases of the bed conformance that are this project's own, with the shim that the DaemonSet of deploy/ installs on the three nodes.
# shellcheck shell=sh
# Variables of the other files; commands with `$` for the shell of a container.
# shellcheck disable=SC2016,SC2086,SC2154

# NAME REPLICAS COMMAND [CONTAINER]: prints a Deployment.
deployment() {
    cat <<YAML
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: $2
  strategy: {rollingUpdate: {maxSurge: 10%, maxUnavailable: 10%}}
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      runtimeClassName: dayfly
      terminationGracePeriodSeconds: 10
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: $1}}
      containers:
      - {name: main, image: $box, command: [sh, -c, '$3'], resources: {requests: {cpu: 1m, memory: 1Mi}}${4:+, $4}}
YAML
}
# NAME APP CLASS COMMAND: prints a pod of the first node.
node_pod() {
    cat <<YAML
---
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: $2}}
spec: {nodeName: node1, runtimeClassName: $3, containers: [{name: main, image: $agnhost, command: [sh, -c, '$4']}]}
YAML
}
rolled_out() { "$k" rollout status "deployment/$1" --timeout="${long}s"; }
# FIELDS OPTION...: prints these fields of the status of each pod's container, after the pod's uid.
pods() {
    fields=$(for field in $1; do printf ' {.status.containerStatuses[0].%s}' $field; done)
    shift
    "$k" get pods "$@" -o "jsonpath={range .items[*]}{.metadata.uid}$fields{\"\\n\"}{end}" | sort
}
# NAME: pushes the image of the DaemonSet with the programs in $scratch/NAME.
push_programs() { deploy_image "$scratch/$1" "oci:$scratch/suite:node-$1" && suite_push node-$1 $programs:$1; }
# Waits until the DaemonSet has installed its image's programs on all nodes.
installed() { "$k" rollout status daemonset/dayfly-node -n kube-system --timeout="${long}s"; }
# N: what is left of pods on a node.
left_on() {
    find "/sys/fs/cgroup/memory/$containerd_namespace-$1/" -mindepth 2 -type d -name 'pod*'
    on_node $1 pgrep -af containerd-shim
}

own_cases() {
    e2e=registry.k8s.io/e2e-test-images
    box=$e2e/busybox:1.37.0-2 agnhost=$e2e/agnhost:2.66.1 long=900 programs=registry.k8s.io/dayfly-node
    serving='hostname >/tmp/index.html; trap exit TERM; httpd -f -p 8080 -h /tmp & wait'
    cases_scripts
    runtime_classes
    # DAYFLY_OLD: pods start with the programs of scripts/old-programs, and stay when those under test come.
    mkdir "$scratch/new" "$scratch/old"
    cp "$runtime" "$shim" "$scratch/new/"
    cp "${DAYFLY_OLD:-$scratch/new}"/* "$scratch/old/"
    for name in old new; do check "the_image_$name" push_programs $name; done
    # hostPID: the pids are those of the node.
    deploy_manifest "$top/deploy/daemonset.yaml" $programs:old /run/node 'xargs kill </host/run/node/pid/containerd' >"$scratch/daemonset.yaml"
    check makes_the_class_and_the_daemonset "$k" create -f "$top/deploy/runtimeclass.yaml" -f "$scratch/daemonset.yaml"
    "$k" label nodes --all dayfly.run/shim=true >/dev/null
    check installs installed
    becomes nodes_have_the_handler 3 sh -c "'$k' get nodes -o yaml | grep -c 'name: dayfly\$'"
    {
        deployment many 150 'trap exit TERM; sleep 100000 & wait'
        deployment web 6 "$serving" \
            'readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}, lifecycle: {preStop: {sleep: {seconds: 3}}}'
        node_pod client client dayfly 'while sleep 0.2; do curl -sf -m 3 http://web/ || echo failed; done'
    } >"$scratch/own.yaml"
    check makes_150_pods "$k" create -f "$scratch/own.yaml"
    "$k" create poddisruptionbudget web --selector app=web --min-available 4 >/dev/null
    for name in web mixed; do "$k" create service clusterip $name --tcp 80:8080 >/dev/null; done
    for name in many web; do check "all_of_${name}_run" rolled_out $name; done
    ready client
    # The scheduler does not make it 50 each.
    busy_nodes() { "$k" get pods -l app=many -o wide | grep -o ' node[0-9] ' | sort | uniq -c | awk '$1 > 40' | wc -l; }
    expect on_all_nodes 3 busy_nodes
    pods 'containerID restartCount' >"$scratch/before"
    check upgrades "$k" set image -n kube-system daemonset/dayfly-node node=$programs:new
    check installs_the_new_programs installed
    for node in $nodes; do check node_${node}_has_them cmp "$shim" "$scratch/node$node/bin/${shim##*/}"; done
    expect containers_stay_as_they_are "$(cat "$scratch/before")" pods 'containerID restartCount'
    expect execs_after_the_upgrade upgraded "$k" exec deployment/many -- echo upgraded
    check the_daemonset_may_go "$k" delete daemonset dayfly-node -n kube-system --cascade=foreground --timeout="${long}s"
    check rolls "$k" set env deployment/many GENERATION=2
    check all_are_rolled rolled_out many
    becomes no_more_and_no_less 157 sh -c "'$k' get pods | grep -c ' 1/1 *Running *0 '"
    check drains on_time "$k" drain node2 --ignore-daemonsets --timeout="${long}s"
    expect no_pod_on_the_drained_node '' "$k" get pods --field-selector spec.nodeName=node2 -o name
    for name in many web; do check "all_of_${name}_run_elsewhere" rolled_out $name; done
    becomes nothing_left_on_the_drained_node '' left_on 2
    "$k" logs client >"$scratch/client"
    echo "$(wc -l <"$scratch/client") requests of the client"
    expect no_request_has_failed 0 grep -c failed "$scratch/client"
    check uncordons "$k" uncordon node2
    there='--field-selector spec.nodeName=node3'
    pods '' $there >"$scratch/before"
    check a_node_ends node_stop 3
    expect its_cgroups_are_gone '' find "/sys/fs/cgroup/memory/$containerd_namespace-3/" -mindepth 1 -type d
    check it_comes_back node_start 3
    wanted=$(sed 's/$/ 1 true/' "$scratch/before")
    again() { [ "$(pods 'restartCount ready' $there)" = "$wanted" ]; }
    check the_same_pods_run_again wait_for $long again
    expect a_shim_each "$(wc -l <"$scratch/before")" on_node 3 pgrep -fc containerd-shim
    for class in runc dayfly-go dayfly; do node_pod mixed-$class mixed $class "$serving"; done >"$scratch/mixed.yaml"
    check makes_mixed_classes "$k" create -f "$scratch/mixed.yaml"
    for class in runc dayfly-go dayfly; do ready mixed-$class; done
    becomes classes_serve_together 'mixed-dayfly mixed-dayfly-go mixed-runc ' "$k" exec mixed-dayfly -- \
        sh -c 'for i in $(seq 40); do curl -s -m 3 http://mixed/; done | sort -u | tr "\n" " "'
    check deletes_all on_time "$k" delete deployments,pods,services,poddisruptionbudgets --all --timeout="${long}s"
    for node in $nodes; do becomes nothing_left_on_node_$node '' left_on $node; done
}

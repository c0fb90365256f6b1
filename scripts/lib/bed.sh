# What all beds have: $runtime, the directory $scratch, the image, and a clean-up.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154

# shellcheck source=results.sh
. "$top/scripts/lib/results.sh"
runtime=${DAYFLY:-$top/target/release/dayfly}
case $runtime in /*) ;; *) runtime=$PWD/$runtime ;; esac

# A bed defines it: ends what it has begun.
clean_up() { :; }

keep() { [ -z "${DAYFLY_KEEP:-}" ] || { mkdir -p "$DAYFLY_KEEP" && cp "$scratch"/*.log "$scratch"/*.conf "$DAYFLY_KEEP/" 2>/dev/null; }; }

# TOOL...: ends with a counted skip if a needed tool is missing; makes the scratch directory and the image.
need() {
    has without-root || [ "$(id -u)" = 0 ] || skip 'needs root'
    [ -x "$runtime" ] || has without-root || skip "no runtime at $runtime: make build"
    for tool in "$@"; do command -v "$tool" >/dev/null || skip "no $tool: scripts/install-deps test"; done
    scratch=$(mktemp -d /tmp/dayfly-engine.XXXXXX) || exit
    # A second signal must not end the clean-up.
    trap 'trap "" INT TERM HUP; clean_up; keep; rm -rf "$scratch"' EXIT
    trap 'exit 130' INT TERM HUP
    case " $* " in *' umoci '*) "$top/scripts/image" "$scratch/image" >"$scratch/image.log" 2>&1 || give_up 'no image' "$scratch/image.log" ;; esac
}

# FILE: writes a program from standard input.
program() {
    cat >"$1"
    chmod +x "$1"
}

# PID [SIGNAL]: ends a child, and waits for it.
end_child() {
    [ -n "$1" ] || return 0
    kill "-${2:-TERM}" "$1" 2>/dev/null
    wait_for 20 test ! -e "/proc/$1/exe" || kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# Prints the mounts below the scratch directory.
scratch_mounts() { awk -v scratch="$scratch/" 'index($5, scratch) == 1 { print $5 }' /proc/self/mountinfo; }
unmount_scratch() { scratch_mounts | sort -r | xargs -r -n1 umount -l 2>/dev/null; }

# ID COMMAND...: passes if these commands of the container ID have left traces, and removes the traces.
traces_of() {
    id=$1
    shift
    for command in "$@"; do
        check "trace_of_$command" grep -q "\"command\":\"dayfly $command\"" "/run/dayfly-trace/$id-$command.jsonl"
        rm -f "/run/dayfly-trace/$id-$command.jsonl"
    done
}

# FILE DIRECTORY: a script that runs a command on a host that has been in use, with shared mounts and a pinned mount
# namespace below the directory.
used_host() {
    mkdir -p "$2"
    program "$1" <<USED
#!/bin/sh
exec unshare -m --propagation private sh -c '
    mount --make-rshared / && mount --bind "$2" "$2" && mount --make-private "$2" && "$top/scripts/pin-mounts" "$2/pin" &&
    exec "\$@"' used "\$@"
USED
}

# Prints settings of Podman: the host may not allow raising limits, and its v2 may lack the pids controller, as does a user's.
containers_conf() {
    printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
    [ -z "${uid:-}" ] && [ ! -e /sys/fs/cgroup/cgroup.controllers ] || echo 'pids_limit = 0'
}

# Sets $runc to that of scripts/peers: Debian 12's gives the root another propagation, and pods with user namespaces need 1.2.
newest_runc() {
    runc=${DAYFLY_RUNC:-${CARGO_TARGET_DIR:-$top/target}/peers/bin/runc}
    [ -x "$runc" ] || "$top/scripts/peers" runc >"$scratch/why" 2>&1 || skip "$(tail -n 1 "$scratch/why")"
}

# Whether criu works on this kernel, which that of scripts/peers may do.
has_criu() {
    criu=${DAYFLY_CRIU:-$top/target/peers/bin/criu}
    [ ! -x "$criu" ] || PATH=$(dirname "$criu"):$PATH
    criu check >/dev/null 2>&1
}

# NAME UID FIRST: a user without root, who exists in the mount namespace of the bed: nothing is added to the machine. Makes
# the directories home, run and tmp in $scratch, a cgroup that the user owns, as systemd would delegate it, and the program
# as-user, which runs a command as that user there. SESSION: another cgroup of the user's.
make_user() {
    uid=$2 home=$scratch/home
    mkdir -p "$home" "$scratch/run" "$scratch/tmp" "$scratch/etc"
    { cat /etc/passwd; echo "$1:x:$uid:$uid::$home:/bin/sh"; } >"$scratch/etc/passwd"
    { cat /etc/group; echo "$1:x:$uid:"; } >"$scratch/etc/group"
    echo "$1:$3:65536" | tee "$scratch/etc/subuid" >"$scratch/etc/subgid"
    for file in passwd group subuid subgid; do mount --bind "$scratch/etc/$file" "/etc/$file" || exit 1; done
    chmod 755 "$scratch"
    chmod -R a+rX "$scratch/image"
    # A path from which the user may run the runtime, whoever owns the checkout.
    install -m 755 "$runtime" "$scratch/dayfly"
    unified=/sys/fs/cgroup
    [ -e $unified/cgroup.controllers ] || unified=/sys/fs/cgroup/unified
    delegated=$unified/dayfly-rootless-$$
    mkdir -p "$delegated/session"
    chown -R "$uid:$uid" "$delegated" "$home" "$scratch/run" "$scratch/tmp"
    program "$scratch/as-user" <<WRAPPER
#!/bin/sh
echo \$\$ >"$delegated/\${SESSION:-session}/cgroup.procs"
cd '$home' || exit 1
exec setpriv --reuid $uid --regid $uid \${GROUPS_KEPT:---clear-groups} env -i PATH="\$PATH" HOME='$home' USER=$1 \
    XDG_RUNTIME_DIR='$scratch/run' TMPDIR='$scratch/tmp' CONTAINERS_CONF='$home/containers.conf' DAYFLY_BED='$scratch' "\$@"
WRAPPER
    containers_conf >"$home/containers.conf"
}
# Removes the user's cgroups, once the processes in them have ended.
remove_user() {
    [ -n "${delegated:-}" ] || return 0
    wait_for 5 sh -c "find '$delegated' -depth -type d -exec rmdir {} + 2>/dev/null; [ ! -d '$delegated' ]"
    for file in passwd group subuid subgid; do umount "/etc/$file"; done
}

# Prints network interfaces and rules of netfilter.
network_state() {
    ip -o link | sed -e 's/^[0-9]*: //' -e 's/:.*//' -e 's/^/link /'
    for tables in iptables-save ip6tables-save; do
        $tables 2>/dev/null | sed -e '/^#/d' -e 's/\[[0-9:]*\]//' -e "s/^/$tables /"
    done
}

# NAME PORT [YAML]: starts a registry in the bed's network namespace, with its files in $scratch/NAME, and more lines after those of
# `http`. $registry_address: the loopback, unless it is set before. $registry is its process.
serve_registry() {
    cat >"$scratch/$1.yml" <<CONFIG
version: 0.1
log: { level: warn }
storage: { filesystem: { rootdirectory: $scratch/$1 } }
http:
  addr: ${registry_address:-127.0.0.1}:$2
  secret: test
${3:-}
CONFIG
    ${holder:+nsenter -t "$holder" -n} "$REGISTRY_BIN/registry" serve "$scratch/$1.yml" </dev/null >"$scratch/$1.log" 2>&1 9>&- &
    registry=$!
}

# FILE: makes a certificate authority; its key is $scratch/ca.key.
authority() {
    authority=$1
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=test authority' -keyout "$scratch/ca.key" -out "$1" 2>/dev/null
}
# FILE NAMES: makes a certificate of the authority, FILE.pem, and its key, FILE.key.
certify() {
    openssl req -newkey rsa:2048 -nodes -subj /CN=test -keyout "$1.key" -out "$scratch/request.pem" 2>/dev/null
    echo "subjectAltName=$2" >"$scratch/names"
    openssl x509 -req -in "$scratch/request.pem" -CA "$authority" -CAkey "$scratch/ca.key" -CAcreateserial -days 2 \
        -extfile "$scratch/names" -out "$1.pem" 2>/dev/null
}

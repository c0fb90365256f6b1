# Shared by the engine tests: a scratch directory, the image, counted checks.
# shellcheck shell=sh
#
# DAYFLY        the runtime under test, default target/release/dayfly
# DAYFLY_TALLY  file that gets one line `passed failed skipped`
# DAYFLY_PATIENCE  seconds until a command counts as hung, default 60

top=$(cd "$(dirname "$0")/.." && pwd)
runtime=${DAYFLY:-$top/target/release/dayfly}
case $runtime in /*) ;; *) runtime=$PWD/$runtime ;; esac
patience=${DAYFLY_PATIENCE:-60}
passed=0
failed=0
skipped=0

# ENGINE TOOL...: ends with a counted skip if a needed tool is missing.
need() {
    engine=$1
    shift
    reason=
    [ "$(id -u)" = 0 ] || reason='needs root'
    [ -x "$runtime" ] || reason="no runtime at $runtime: make build"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || reason="no $tool: scripts/install-deps test"
    done
    if [ -n "$reason" ]; then
        echo "test $engine ... skipped: $reason"
        skipped=1
        finish
    fi
    scratch=$(mktemp -d /tmp/dayfly-engine.XXXXXX)
    "$top/scripts/image" "$scratch/image" >"$scratch/image.log" 2>&1 || {
        cat "$scratch/image.log"
        exit 1
    }
    trap 'clean_up; rm -rf "$scratch"' EXIT
    trap 'exit 130' INT TERM HUP
}

# ARG...: runs the script again with these arguments where all mounts are shared, as systemd makes them, in a mount
# namespace of its own. A script's first call.
shared_mounts() {
    [ -n "${DAYFLY_SHARED_MOUNTS:-}" ] || [ "$(id -u)" != 0 ] ||
        DAYFLY_SHARED_MOUNTS=1 exec unshare --mount --propagation private -- sh -c 'mount --make-rshared / && exec "$@"' sh "$0" "$@"
}

# FILE DIRECTORY: a script that runs a command on a host that has been in use, with shared mounts and a pinned mount
# namespace below the directory.
used_host() {
    mkdir -p "$2"
    cat >"$1" <<USED
#!/bin/sh
exec unshare -m --propagation private sh -c '
    mount --make-rshared / && mount --bind "$2" "$2" && mount --make-private "$2" && "$top/scripts/pin-mounts" "$2/pin" &&
    exec "\$@"' used "\$@"
USED
    chmod +x "$1"
}

# NAME COMMAND...: passes when the command succeeds in time.
check() {
    name=$1
    shift
    if timeout "$patience" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null; then
        passed=$((passed + 1))
        echo "test $engine::$name ... ok"
    else
        code=$?
        failed=$((failed + 1))
        echo "test $engine::$name ... FAILED"
        echo "    exit $code: $*"
        sed 's/^/    /' "$scratch/err" | tail -8
    fi
}

# NAME WANTED COMMAND...: passes when the command prints exactly WANTED, or
# exits with N where WANTED is `exit N`.
expect() {
    name=$1
    wanted=$2
    shift 2
    code=0
    timeout "$patience" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    case $wanted in
        'exit '*) got="exit $code" ;;
        *) got=$(tr -d '\r' <"$scratch/out") ;;
    esac
    if [ "$got" = "$wanted" ]; then
        passed=$((passed + 1))
        echo "test $engine::$name ... ok"
    else
        failed=$((failed + 1))
        echo "test $engine::$name ... FAILED"
        echo "    exit $code, printed '$(printf %s "$got" | head -c 2000)' instead of '$wanted': $*"
        sed 's/^/    /' "$scratch/err" | tail -8
    fi
}

# ID COMMAND...: passes if these commands of the container ID have left traces, and removes the traces.
traces_of() {
    id=$1
    shift
    for command in "$@"; do
        check "trace_of_$command" grep -q "\"command\":\"dayfly $command\"" "/run/dayfly-trace/$id-$command.jsonl"
        rm -f "/run/dayfly-trace/$id-$command.jsonl"
    done
}

# Waits up to SECONDS for a command to succeed. DAYFLY_POLL: seconds between two attempts, for an emulated machine, where
# each attempt takes seconds.
wait_for() {
    wait_end=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$wait_end" ] || return 1
        sleep "${DAYFLY_POLL:-0.1}"
    done
}

# Prints and records the counts; the last call of an engine test.
finish() {
    echo "$engine: $passed passed, $failed failed, $skipped skipped"
    [ -z "${DAYFLY_TALLY:-}" ] || echo "$passed $failed $skipped" >>"$DAYFLY_TALLY"
    [ $failed = 0 ]
    exit
}

clean_up() { :; }

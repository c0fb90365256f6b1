# Results of a script's tests: prints them, counts them, and ends the script.
# shellcheck shell=sh disable=SC2154
#
# The script sets `engine`, how the names of its tests begin, and has a directory $scratch.
# DAYFLY_TALLY     file that gets one line `passed failed skipped`
# DAYFLY_PATIENCE  seconds until a command counts as hung, default 60

patience=${DAYFLY_PATIENCE:-60}
passed=0
failed=0
skipped=0

# NAME [TEXT]
passes() {
    passed=$((passed + 1))
    echo "test $engine::$1 ... ok${2:-}"
}
# NAME [TEXT]: the caller prints the reason below, indented.
fails() {
    failed=$((failed + 1))
    echo "test $engine::$1 ... FAILED${2:-}"
}
# NAME REASON...
skips() {
    skipped=$((skipped + 1))
    name=$1
    shift
    echo "test $engine::$name ... skipped: $*"
}
# REASON...: ends the script as one skipped test.
skip() {
    echo "test $engine ... skipped: $*"
    skipped=$((skipped + 1))
    finish
}
# MESSAGE [FILE]...: ends the script because it cannot go on; prints the ends of the files.
give_up() {
    echo "test $engine ... FAILED: $1"
    shift
    for file in "$@"; do tail -n 5 "$file"; done
    failed=$((failed + 1))
    finish
}

# COMMAND...: runs a function, or a program with the time limit.
limited() {
    case $(command -V "$1" 2>/dev/null) in
        *function*) "$@" ;;
        *) timeout "$patience" "$@" ;;
    esac
}

# NAME CODE LINES [TEXT]: counts a command by its exit code; prints the text and the last lines of $scratch/out if it has failed.
judge() {
    case $2 in
        0) passes "$1" ;;
        77) skips "$1" "$(tail -n 1 "$scratch/out")" ;;
        *)
            fails "$1"
            { [ -z "${4:-}" ] || echo "$4"; tail -n "${DAYFLY_LINES:-$3}" "$scratch/out"; } | sed 's/^/    /'
            ;;
    esac
}

# NAME COMMAND...: passes when the command succeeds in time.
check() {
    title=$1
    shift
    code=0
    limited "$@" >"$scratch/out" 2>&1 </dev/null || code=$?
    judge "$title" "$code" 8 "exit $code: $*"
}

# NAME [FUNCTION]: passes when every command of the function succeeds, of that name if there is no other. Its output is
# printed when it fails; what `say` prints, in any case.
steps() {
    # Not in a condition, which would disable `set -e`.
    (set -e && "${2:-$1}") >"$scratch/out" 2>&1 </dev/null &
    wait $! && code=0 || code=$?
    sed -n 's/^say: /    /p' "$scratch/out"
    judge "$1" "$code" 30
    return "$code"
}
say() { echo "say: $*"; }
# Ends a step.
fail() {
    echo "$*"
    exit 1
}
# TEXT COMMAND...: checks that the command's output contains the text.
says() {
    text=$1
    shift
    "$@" >"$scratch/said" 2>&1 || { cat "$scratch/said" && return 1; }
    grep -qF -- "$text" "$scratch/said" || { cat "$scratch/said" && echo "does not say: $text" && return 1; }
}

# NAME WANTED COMMAND...: passes when the command prints exactly WANTED, or exits with N where WANTED is `exit N`.
expect() {
    name=$1
    wanted=$2
    shift 2
    code=0
    limited "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    case $wanted in
        'exit '*) got="exit $code" ;;
        *) got=$(tr -d '\r' <"$scratch/out") ;;
    esac
    if [ "$got" = "$wanted" ]; then passes "$name"; else
        fails "$name"
        echo "    exit $code, printed '$(printf %s "$got" | head -c 2000)' instead of '$wanted': $*"
        tail -n 8 "$scratch/err" | sed 's/^/    /'
    fi
}

# NAME WANTED COMMAND...: passes when the command at last prints exactly WANTED.
becomes() {
    title=$1 wanted=$2
    shift 2
    says_it() {
        said=$(limited "$@" 2>&1 </dev/null)
        [ "$said" = "$wanted" ]
    }
    if wait_for "$patience" says_it "$@"; then passes "$title"; else
        fails "$title"
        echo "    printed '$said' instead of '$wanted': $*"
    fi
}

# TRIES COMMAND...: runs the command until it prints nothing; prints its last output.
settled() {
    tries=$1
    shift
    while left=$("$@") && :; [ -n "$left" ] && [ "$tries" -gt 0 ]; do
        sleep "${DAYFLY_POLL:-0.1}"
        tries=$((tries - 1))
    done
    echo "$left"
}
# NAME COMMAND [TRIES]: passes when the command, which prints what is left, at last prints nothing.
leaves_nothing() { expect "$1" '' settled "${3:-100}" "$2"; }

# SECONDS COMMAND...: waits for a command to succeed. DAYFLY_POLL: seconds between two attempts, for an emulated machine,
# where each attempt takes seconds.
wait_for() {
    wait_end=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$wait_end" ] || return 1
        sleep "${DAYFLY_POLL:-0.1}"
    done
}

# Prints the median of numbers, one a line; 0 if there is none.
median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? int((v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2) : 0 }'; }

# 'PASSED FAILED SKIPPED': adds the counts of other tests.
add_counts() {
    # shellcheck disable=SC2086
    set -- $1
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}
# COMMAND...: runs tests that write a tally of their own; without one, they are one failed test.
counted() {
    : >"$scratch/tally"
    DAYFLY_TALLY=$scratch/tally "$@"
    code=$?
    [ -s "$scratch/tally" ] || case $code in 77) skips counts ;; *) fails counts " without a count, exit $code: $*" ;; esac
    add_counts "$(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$scratch/tally")"
}

# Prints and records the counts, and ends the script.
finish() {
    engine=${engine%%::*}
    echo "$engine: $passed passed, $failed failed, $skipped skipped"
    [ -z "${DAYFLY_TALLY:-}" ] || echo "$passed $failed $skipped" >>"$DAYFLY_TALLY"
    [ $failed = 0 ]
    exit
}

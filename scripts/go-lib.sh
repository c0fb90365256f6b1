# Shared by scripts that build programs of others from the Go module proxy.
# shellcheck shell=sh
#
# DAYFLY_TALLY  file that gets the line of a skipped script: `passed failed skipped`

# MINOR: returns whether Go 1.MINOR or newer is installed.
have_go() {
    command -v go >/dev/null &&
        go version | awk -v least="$1" '{ split(substr($3, 3), v, "."); exit !(v[1] > 1 || v[2] >= least) }'
}

# REASON...: ends the script as one skipped test.
skip() {
    echo "test ${0##*/} ... skipped: $*"
    [ -z "${DAYFLY_TALLY:-}" ] || echo '0 0 1' >>"$DAYFLY_TALLY"
    exit 0
}

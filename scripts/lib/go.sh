# Shared by scripts that build programs of others from the Go module proxy.
# shellcheck shell=sh

# MINOR: returns whether Go 1.MINOR or newer is installed.
have_go() {
    command -v go >/dev/null &&
        go version | awk -v least="$1" '{ split(substr($3, 3), v, "."); exit !(v[1] > 1 || v[2] >= least) }'
}

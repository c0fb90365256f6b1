# Shared by the scripts that run tests in the guest and count them here.
# shellcheck shell=sh

# FILE TALLY: adds the counts in the guest's output, `NAME: N passed, N failed, N skipped` in FILE, to the file TALLY.
# Returns 0 if no test has failed, 77 if no guest can run here, otherwise 1.
guest_count() {
    line=$(grep -E '^[a-z0-9]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$1" | tail -1)
    if [ -z "$line" ]; then
        ! grep -q '^scripts/guest: skipped:' "$1" || return 77
        return 1
    fi
    echo "${line#*: }" | tr -c '0-9\n' ' ' | awk '{ print $1, $2, $3 }' >>"$2"
    case $line in *' 0 failed'*) ;; *) return 1 ;; esac
}

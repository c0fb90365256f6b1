# Beds whose cases run in the guest, a virtual machine: the bed calls itself there, as one of its parts. scripts/bed reads it.
# shellcheck shell=sh disable=SC2034,SC2154

# The part that runs in a machine; empty outside.
part=${DAYFLY_BED_PART:-}
unset DAYFLY_BED_PART

# ARG...: runs scripts/guest with these arguments, by the command $guest_by if there is one, and counts here what the command
# counts there.
in_guest() {
    # The tally is a file of this host. Emulated processors: fewer cases at a time, more time for each.
    # shellcheck disable=SC2086
    (unset DAYFLY_TALLY && DAYFLY=$runtime DAYFLY_JOBS=${DAYFLY_JOBS:-2} DAYFLY_PATIENCE=${DAYFLY_PATIENCE:-300} && export DAYFLY DAYFLY_JOBS DAYFLY_PATIENCE &&
        ${guest_by:-} "$top/scripts/guest" "$@") 2>&1 |
        tee "$scratch/machine"
    counts=$(sed -n 's/^[a-z0-9_-]*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped.*/\1 \2 \3/p' "$scratch/machine" | tail -1)
    if [ -n "$counts" ]; then
        add_counts "$counts"
    else
        why=$(sed -n 's/^scripts\/guest: skipped: //p' "$scratch/machine")
        [ -z "$why" ] || skip "$why"
        fails the_machine_ends_the_cases
    fi
}
# PART SECONDS [OPTION...]: runs a part of this bed in a machine, with options of scripts/guest, in this time.
machine() {
    export DAYFLY_BED_PART="$1" GUEST_TIMEOUT="${GUEST_TIMEOUT:-$2}"
    shift 2
    in_guest "$@" "$top/scripts/bed" "${bed##*/}"
    unset DAYFLY_BED_PART
    [ "$failed" = 0 ]
}

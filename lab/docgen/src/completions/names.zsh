
# Prints the existing names on this host: containers of the state directory, or images of the store.
_dayfly_containers() {
    # Uses the whole line, because `words` contains only the words of the subcommand.
    local at names; local -a root line=(${(z)LBUFFER})
    for ((at = 2; at < ${#line}; at++)); do
        case $line[at] in
            --root=* | -root=*) root=(--root ${(Q)line[at]#*=}) ;;
            --root | -root) root=(--root ${(Q)line[at + 1]}) ;;
        esac
    done
    names=(${(f)"$(_call_program containers dayfly $root list -q 2>/dev/null)"})
    compadd -a names
}
_dayfly_images() {
    local names; local -a store
    (( ${+opt_args[--store]} )) && store=(--store ${(Q)opt_args[--store]})
    names=(${${(f)"$(_call_program images dayfly image ls $store 2>/dev/null)"}%% *})
    names=(${names:#(NAME|-)})
    compadd -a names
}

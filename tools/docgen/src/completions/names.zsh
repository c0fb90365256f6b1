
# Names that there are on this host: containers of the state directory, images of the store.
_dayfly_containers() {
    # The whole line: of `words` only those of the command are left.
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


# Prints the existing names on this host: containers of the state directory, or images of the store.
_dayfly_names() {
    case $1 in
        container) command "$program" "${root[@]}" list -q ;;
        image) command "$program" image ls "${store[@]}" | while read -r name _; do
            case $name in NAME | -) ;; *) echo "$name" ;; esac
        done ;;
    esac 2>/dev/null
}

# Parses the line's words, without splitting at colons and equals signs, and completes names where one is expected.
_dayfly_with_names() {
    local line=${COMP_LINE:0:COMP_POINT} words cur prev='' path='' given=0 wanted='' awaits='' at word takes program
    local root=() store=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    cur=${words[${#words[@]} - 1]} program=${words[0]} takes=$(_dayfly_takes '')
    for ((at = 1; at < ${#words[@]} - 1; at++)); do
        word=${words[at]}
        case $word in
            --root=* | -root=*) root=(--root "${word#*=}") ;;
            --store=* | -store=*) store=(--store "${word#*=}") ;;
            -*)
                [[ " ${takes#* } " == *" $word "* ]] || continue
                ((at++))
                if ((at == ${#words[@]} - 1)); then
                    awaits=$word
                    break
                fi
                case $word in
                    --root | -root) root=(--root "${words[at]}") ;;
                    --store | -store) store=(--store "${words[at]}") ;;
                esac
                ;;
            *)
                if [[ ${takes%% *} == words ]]; then
                    path=${path:+$path }$word takes=$(_dayfly_takes "$path")
                else
                    ((given++))
                fi
                ;;
        esac
    done
    case "${takes%% *}:$given:$awaits" in
        *:--image) wanted=image ;;
        container:0: | image:0:) wanted=${takes%% *} ;;
        images:*:) wanted=image ;;
    esac
    if [[ -z $wanted || $cur == -* ]]; then
        _dayfly "$@"
        return
    fi
    compopt +o default +o bashdefault 2>/dev/null
    # bash does not replace the part before the last colon or equals sign.
    prev=${cur%"${cur##*[:=]}"}
    COMPREPLY=()
    while read -r word; do
        COMPREPLY+=("${word#"$prev"}")
    done < <(compgen -W "$(_dayfly_names "$wanted")" -- "$cur" | sort -u)
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _dayfly_with_names -o nosort -o bashdefault -o default dayfly
else
    complete -F _dayfly_with_names -o bashdefault -o default dayfly
fi

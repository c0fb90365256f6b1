
# Print the existing names on this host (containers of the state directory, images of the store), with a helper.
function __dayfly_value --description 'The value that the line has for an option, with the option'
    set -l words (commandline -opc)
    for at in (seq 2 (count $words))
        switch $words[$at]
            case "--$argv[1]=*"
                string split -m 1 = -- $words[$at]
                return
            case "--$argv[1]"
                test $at -lt (count $words)
                and string join \n -- $words[$at] $words[(math $at + 1)]
                return
        end
    end
end

function __dayfly_containers
    dayfly (__dayfly_value root) list -q 2>/dev/null
end

function __dayfly_images
    dayfly image ls (__dayfly_value store) 2>/dev/null | string replace -r ' .*' '' | string match -v -r '^(NAME|-)$'
end

# Returns whether the command `path` expects a name next: as its first argument, or, if `several` is 1, as any argument.
# The remaining arguments are the options with a value.
function __dayfly_awaits --argument-names path several
    set -l path (string split ' ' -- $path)
    set -l skip 0
    set -l found
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word $argv[3..-1]
            set skip 1
        else if not string match -q -- '-*' $word
            set -a found $word
        end
    end
    set -l given (math (count $found) - (count $path))
    test $skip = 0 -a $given -ge 0
    and test $several = 1 -o $given = 0
    and test "$found[1..$(count $path)]" = "$path"
end


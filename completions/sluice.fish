# SPDX-License-Identifier: Apache-2.0
#
# Completion of `sluice` for fish. All words come from the command's own --help.

function __sluice_words # COMMAND...: "name<TAB>text"
    $argv --help 2>/dev/null | awk '
        /^ +(-[A-Za-z], )?--[a-z-]+/ {
            name = $0; sub(/^ +(-[A-Za-z], )?/, "", name)
            text = name; sub(/ .*/, "", name)
            if (!sub(/^[^ ]+( [A-Z=]+)?  +/, "", text)) text = ""
            print name "\t" text
        }
        /^  [a-z]+  / { name = $1; text = $0; sub(/^  [a-z]+ +/, "", text); print name "\t" text }'
end

function __sluice_complete
    set -l line (commandline -opc)
    if test (count $line) -eq 1
        __sluice_words $line[1]
    else if contains -- -- $line
        set -l at (contains -i -- -- $line)
        complete -C(string join -- ' ' $line[(math $at + 1)..-1] (commandline -ct))
    else
        __sluice_words $line[1] $line[2]
    end
end

complete -c sluice -n 'test (count (commandline -opc)) -eq 1' -f
complete -c sluice -a '(__sluice_complete)'

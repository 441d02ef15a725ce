# SPDX-License-Identifier: Apache-2.0
#
# Completion of `sluice` for bash. All words come from the command's own --help.

# The words that begin lines of a help text: "name<TAB>placeholder", nothing behind the tab if none.
_sluice_words()
{
	"$@" --help 2>/dev/null | awk '
		match($0, /^ +(-[A-Za-z], )?--[a-z-]+/) {
			name = $0; sub(/^ +(-[A-Za-z], )?/, "", name)
			value = name; sub(/ .*/, "", name); sub(/^[^ ]+ ?/, "", value)
			if (value !~ /^[A-Z]/) value = ""
			sub(/ .*/, "", value)
			print name "\t" value
		}
		/^  [a-z]+  / { print $1 "\t" }'
}

_sluice()
{
	local tool=${COMP_WORDS[0]} command=${COMP_WORDS[1]:-} cur=${COMP_WORDS[COMP_CWORD]} word value
	local -A takes=()
	local names=() k=2 waits=

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		while IFS=$'\t' read -r word value; do names+=("$word"); done < <(_sluice_words "$tool")
		mapfile -t COMPREPLY < <(compgen -W "${names[*]}" -- "$cur")
		return
	fi
	while IFS=$'\t' read -r word value; do
		names+=("$word")
		takes[$word]=$value
	done < <(_sluice_words "$tool" "$command")
	for ((; k < COMP_CWORD; k++)); do
		word=${COMP_WORDS[k]}
		if [ -n "$waits" ]; then
			waits=
		elif [ "$word" = -- ]; then
			break
		elif [[ $word == -* ]]; then
			waits=${takes[$word]:-}
		elif [ "$command" = run ]; then
			((k--)) # the program
			break
		fi
	done
	if ((k < COMP_CWORD)); then # behind it: the program, then its own words
		if ((k + 1 == COMP_CWORD)); then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
		elif declare -F _command_offset >/dev/null; then
			_command_offset $((k + 1))
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		return
	fi
	case $waits in
	DIR) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	FILE) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	"")
		mapfile -t COMPREPLY < <(compgen -W "${names[*]}" -- "$cur")
		if [[ $cur != -* ]]; then
			[ "$command" != run ] ||
				mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$cur")
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
		fi
		;;
	esac
}
complete -o filenames -F _sluice sluice

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who may include whom (ARCHITECTURE.md), read from the #include lines. A folder's allowed headers
# are a list of prefixes; everything else in quotes is a breach. The storeys of src/core are checked by
# calls as well, and so is the largest circle of files that call each other: scripts/house --calls.
set -euo pipefail
root=${SLUICE_SOURCE_DIR:?}
failed=0
looked=0

# layer_check <what> <allowed regex> <files ...>
layer_check()
{
	local what=$1 allowed=$2 file header
	shift 2
	for file in "$@"; do
		[ -e "$file" ] || continue
		looked=$((looked + 1))
		while read -r header; do
			[[ $header =~ ^($allowed) ]] || {
				echo "$what: ${file#"$root"/} includes \"$header\""
				failed=1
			}
		done < <(sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$file")
	done
}

cd "$root"
layer_check "public headers include public headers only" 'sluice/' include/sluice/*.h
layer_check "base knows nothing of paging" 'base/|sluice/error\.h' src/base/*.[ch]
layer_check "the codec knows bytes alone" 'base/error\.h|codec/' src/codec/*.[ch]
layer_check "the learner knows launches, bytes and times" 'base/|predict/|sluice/(launch|error)\.h' \
	src/predict/*.[ch]
layer_check "programs that share a GPU know bytes and processes" 'base/|share/' src/share/*.[ch]
layer_check "core knows no back end" \
	'base/|core/|sluice/|predict/predict\.h|share/member\.h|device/device[a-z_]*\.h|store/store\.h' src/core/*.[ch] src/core/*/*.[ch]
# A storey includes its own header and those below.
types='base/|sluice/|device/device[a-z_]*\.h|core/(types|chunk_state|events|policy|limits|timeouts)\.h'
layer_check "state stands on the types" "$types|core/state/" src/core/state/*.[ch]
layer_check "transfer stands on state" "$types|core/(state|transfer)/" src/core/transfer/*.[ch]
layer_check "launches stand on transfer" \
	"$types|(predict/predict|share/member)\.h|core/(state|transfer|launch)/|core/interpose\.h" src/core/launch/*.[ch]
layer_check "a device knows neither core nor store" 'base/|codec/|device/|sluice/' \
	src/device/*.[ch] src/device/*/*.[ch]
layer_check "wrappers know the contract, not a back end" \
	'base/|device/(device[a-z_]*|wrap_dev)\.h|sluice/' src/device/*_dev.c
layer_check "a store knows neither core nor device" 'base/|codec/codec\.h|store/|sluice/' src/store/*.[ch]
layer_check "a trace knows nothing but base and the public words" 'base/|trace/|sluice/' src/trace/*.[ch]
layer_check "plans stand on traces" 'base/|trace/|plan/|sluice/' src/plan/*.[ch]
# The pager in virtual time is a device, a store engine, and a door into core.
virtual='src/sim/(virtual|core_run)[a-z_]*\.[ch]'
layer_check "the simulator stands on plans" 'base/|trace/|plan/|sim/|sluice/' \
	$(printf '%s\n' src/sim/*.[ch] | grep -Ev "^$virtual\$")
layer_check "the virtual machine knows contracts and the door into core" \
	'base/|sim/|sluice/|device/device[a-z_]*\.h|store/(store|engine)\.h|core/space_on\.h' \
	$(printf '%s\n' src/sim/*.[ch] | grep -E "^$virtual\$")
layer_check "the preload library stands on its doors into core, the learner, the recorder, the codec, and the CUDA driver" \
	'base/|preload/|share/|sluice/|predict/predict\.h|core/(interpose|events|limits)\.h|trace/record\.h|codec/codec\.h|device/cuda/cuda_(driver|abi)\.h' \
	src/preload/*.[ch] src/preload/*/*.[ch]
layer_check "compat stands on the public API" 'base/|compat/|sluice/' src/compat/*.[ch]
layer_check "examples use the public API" 'sluice/|example\.h' examples/*.[ch]
layer_check "workloads use the public API" 'sluice/|[a-z_]+\.h' workloads/*.[ch] papers/workloads/*.[ch]
# doctor probes the engines and the GPU's driver; stat shares the name of the socket with the
# publisher, run the names of variables with the library; ps reads the books of GPUs.
layer_check "tools have no other door into the library" \
	'sluice/|base/|[a-z_]+\.h|store/store\.h|device/cuda/(cuda_driver|gds)\.h|core/(publish|environment)\.h|share/book\.h|trace/|plan/|sim/' \
	tools/*.[ch]
layer_check "the papers stand on the tool's shared files, plans and the simulator" \
	'sluice/|base/|g10/|[a-z_]+\.h|trace/|plan/|sim/' papers/*.[ch] papers/suite/*.[ch] \
	papers/g10/*.[ch]
if grep -rnE 'pthread_(mutex|rwlock|cond|spin)' src/preload; then
	echo "src/preload has a lock without a rank: src/base/lock.h"
	failed=1
fi
if grep -rnE '^ *# *include "(papers|suite|chart|bar_json|g10/)' src tools; then
	echo "the product includes the papers"
	failed=1
fi

# One place chooses victims: nobody else asks for the coldest chunk, or evicts for room.
choosers=$(grep -lE 'sl_lru_coldest(_for)?\(' -r src --include=*.c | sort | tr '\n' ' ')
[ "$choosers" = "src/core/state/lru.c src/core/state/victim.c " ] || {
	echo "the coldest chunk is asked for by: $choosers"
	failed=1
}
if grep -rn 'sl_evict([^)]*SL_EVICT_ROOM' src; then
	echo "room is made by sl_evict_victim() alone"
	failed=1
fi

if [ "$looked" -lt 60 ]; then
	echo "only $looked files were looked at: the tree has moved, change this test"
	failed=1
fi
# The check itself sees a breach.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if command -v python3 > /dev/null && command -v nm > /dev/null; then
	scripts/house --calls "${SLUICE_BUILD_DIR:?}" > "$scratch/calls" || {
		cat "$scratch/calls"
		failed=1
	}
	# The check itself sees a call that goes up.
	mkdir -p "$scratch/objects/state"
	echo 'int sl_evict(void *, int); int breach(void); int breach(void) { return sl_evict(0, 0); }' |
		"${CC:-cc}" -c -x c -o "$scratch/objects/state/breach.c.o" -
	if scripts/house --calls "$SLUICE_BUILD_DIR" "$scratch/objects" > "$scratch/calls" ||
		! grep -q '^state/breach.c calls up: sl_evict of transfer/evict.c' "$scratch/calls"; then
		echo "a call that goes up was not seen"
		failed=1
	fi
else
	echo "calls were not checked: there is no python3, or no nm"
fi
printf '#include "base/log.h"\n#include "device/soft/soft.h"\n' > "$scratch/breach.c"
if (layer_check "core knows no back end" 'base/|core/|device/device\.h' "$scratch/breach.c"; exit $failed) \
	> /dev/null; then
	echo "a breach was not seen"
	failed=1
fi
exit $failed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# network: wrong command lines are refused; weights are the same by policy, by faults and on one
# thread, and others with another seed; where OpenBLAS cannot be opened it says what to install.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_SOURCE_DIR.
set -u

# shellcheck source=tests/cli/network.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/network.sh"

refused() { # text of the message, then the arguments
	local text=$1
	shift
	timeout -k 1 600 "$bin" bench "$@" --dir "$dir" >"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" = 2 ] || fail "$*: exit $code, not 2: $(cat "$dir/err")"
	grep -qF -- "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
}

wrong_command_lines_are_refused() {
	refused "--model alexnet: no such choice" network --model alexnet
	refused "the edge must be a multiple of 32" network --size 40
	refused "sequences of 400 steps" network --model rnn --size 400
	refused "with a batch of 4000 needs a footprint of at least" network --batch 4000 \
		--footprint 32M
	refused "--tile does not apply to network" network --tile 4M
	refused "an option of network, not of train" train --model rnn
}

results_are_the_same_by_policy_and_by_faults() {
	local want small=(--model resnet53 --batch 24 --steps 2)

	runs 64 "${small[@]}"
	want=$weights
	runs 22 "${small[@]}" --policy uvm --discard lazy
	[ "$weights" = "$want" ] || fail "policy uvm: other weights"
	runs 22 "${small[@]}" --presence fault --threads 1
	[ "$weights" = "$want" ] || fail "by faults, on one thread: other weights"
	runs 64 "${small[@]}" --seed 2
	[ "$weights" != "$want" ] || fail "the seed makes no difference"
}

without_openblas_it_says_what_to_install() {
	cat >"$dir/broken.c" <<-'END'
		int not_openblas(void) { return 0; }
	END
	"${CC:-cc}" -shared -fPIC -o "$dir/libopenblas.so.0" "$dir/broken.c" || return
	LD_LIBRARY_PATH=$dir timeout -k 1 600 "$bin" bench network --footprint 16M --size 32 \
		--width 5 --batch 2 --device-memory 32M --dir "$dir" >"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" = 1 ] || fail "with another library of that name: exit $code"
	grep -q "Debian: libopenblas0" "$dir/err" || fail "it does not say what to install: $(cat "$dir/err")"
}

skip_where_it_cannot_run
wrong_command_lines_are_refused
results_are_the_same_by_policy_and_by_faults
without_openblas_it_says_what_to_install
finish

/* SPDX-License-Identifier: Apache-2.0 */
/* The host's codec and the tests' data, as codec_kernels.cc calls them: codec_twin.c is C, it is C++. */
#ifndef TESTS_CLI_CODEC_TWIN_H
#define TESTS_CLI_CODEC_TWIN_H

#include <stddef.h>
#include <stdint.h>

void twin_seed(uint64_t seed);
uint64_t twin_random(uint64_t below);
/* A block: in the first rounds one kind of data each, then any. */
void twin_fill(unsigned round, uint8_t *block);
/* Room for sl_codec_bound(). most_bytes: of sl_codec_is_stored(). Returns the encoded bytes; a failure ends the
 * program. */
size_t twin_encode(const uint8_t *raw, size_t bytes, unsigned check, uint64_t most_bytes,
		   uint8_t *out);
int twin_decode(const uint8_t *in, size_t n, unsigned check, uint8_t *raw, size_t bytes);

#endif

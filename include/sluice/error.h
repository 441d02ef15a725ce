/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All errors, and their text.
 *
 * Every function that can fail returns 0 or a negative errno value of this list. Out-parameters
 * come last and are untouched on failure. sluice_last_error() has the text of the calling thread's
 * last failure: the operation, its object, and a remedy.
 *
 *   -EINVAL     a parameter is wrong (unaligned, contradicting flags, unknown value): fix the call
 *   -ENOENT     a file or address that is not there
 *   -EISDIR     a directory where a file is needed
 *   -EACCES     no permission, or a read-only file mapped for writing
 *   -EFBIG      the file is shorter than the mapping, or a size beyond the address range
 *   -ENOMEM     the process is out of memory or addresses
 *   -EMFILE     no file descriptor is free: raise the limit (ulimit -n) or close some
 *   -EAGAIN     no thread could be started, or (sluice_event_query) not complete yet
 *   -ENOBUFS    a budget is too small: for one chunk, or for what a launch declares
 *   -ENOSPC     the disk, or the store budget, is full: free space, then try again
 *   -EIO        reading or writing the store failed; data still held in memory is kept
 *   -EBUSY      the range is pinned, or in a launch that only the caller can end, or the stream
 *               is being captured
 *   -EDEADLK    a block of a kernel acquires while it holds (sluice/fetch.h)
 *   -EFAULT     a kernel touched an address outside its region or its declared uses
 *   -EPERM      the system refuses a mechanism; the text says which setting allows it
 *   -ENOTSUP    this machine or device cannot do it
 *   -ECHILD     the space belongs to the parent process (after fork)
 *   -ECANCELED  the launch was not run because an earlier one on its stream failed
 */
#ifndef SLUICE_ERROR_H
#define SLUICE_ERROR_H

#if defined(__GNUC__)
#define SLUICE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define SLUICE_MUST_CHECK
#endif

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The text of the calling thread's last failure, or "" if nothing failed. The library owns it. It
 * is valid until the thread's next failing call.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API const char *sluice_last_error(void);

/*
 * The version of the library, "MAJOR.MINOR.PATCH", in static storage.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API const char *sluice_version(void);

#ifdef __cplusplus
}
#endif
#endif

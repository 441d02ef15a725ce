/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFile (GPUDirect Storage): could this machine move file data to the GPU without host memory?
 * Only `sluice doctor` asks. The library reads through pinned host memory.
 */
#ifndef SL_DEVICE_CUDA_GDS_H
#define SL_DEVICE_CUDA_GDS_H

#include "device/cuda/cuda_driver.h"

/*
 * Open cuFile and register the file fd (opened with O_DIRECT, not empty) with it. 0: both worked and
 * the kernel has what it takes. -ENOTSUP: the text says which step did not, with cuFile's number. The
 * library cuFile stays loaded (SLUICE_CUFILE_LIBRARY names another one than libcufile.so.0). Any
 * thread, one at a time. Blocks on opening a context of the device and on cuFile's own start.
 */
int sl_cuda_gds_probe(const struct sl_cuda_driver *driver, int device, int fd) SL_MUST_CHECK;

#endif

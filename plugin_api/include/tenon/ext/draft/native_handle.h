/* SPDX-License-Identifier: Apache-2.0 */
/* Draft device extension "tenon.native_handle/1": the vendor's own handles behind a device and its queues, for kernels
 * of other packages and for libraries of the vendor. Found through tenon_device_driver.get_extension. Not frozen until
 * a real user has passed.
 *
 * A kernel that gives work to a native stream does so inside run(), on the frame's queue; the work is then in the
 * queue's order, of the frame's timeline as far as order goes, and its own failures are the vendor's. While a graph is
 * captured (ext/draft/capture.h) the frame's queue has a stream of its own, which keeps the work. */
#ifndef TENON_EXT_DRAFT_NATIVE_HANDLE_H_
#define TENON_EXT_DRAFT_NATIVE_HANDLE_H_

#include "tenon/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXTENSION_NATIVE_HANDLE "tenon.native_handle/1" TENON_TEXT_NATIVE_HANDLE

typedef struct tenon_native_handle {
  uint32_t struct_size;
  uint32_t must_understand;
  /* "CUDA", "ROCm": whose handles these are. */
  TENON_THREAD(any) TENON_OWN(static) tenon_span (*vendor)(tenon_device* device);
  /* The vendor's number of the device, as cudaSetDevice takes it. */
  TENON_THREAD(any) TENON_OWN(borrow) int32_t (*ordinal)(tenon_device* device);
  /* CUstream (which cudaStream_t is) or hipStream_t; lives as long as the queue. */
  TENON_THREAD(any) TENON_OWN(borrow) void* (*stream)(tenon_queue* queue);
  /* What is submitted to the queue from now on begins when what the vendor's stream was given so far has ended. The
   * stream is another library's, of any GPU of this vendor; the host does not wait. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*wait_for)(tenon_queue* queue, void* stream);
} tenon_native_handle;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_NATIVE_HANDLE_H_ */

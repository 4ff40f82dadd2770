// SPDX-License-Identifier: Apache-2.0
// A library with MIOpen's functions that computes in the host's memory, on emulated streams
// (devices/gpu/emulation/stream.h), as far as devices/rocm/miopen.h asks it. Of its three solutions one wants too much
// workspace, one cannot be compiled, one computes; a solution that was not compiled does not run. For tests.
#include <memory>
#include <set>

#include "emulation/convolution.h"
#include "emulation/stream.h"
#include "library_abi.h"

using tenon::gpu::Convolved;
using tenon::gpu::ConvolvedTensor;
using tenon::gpu::Number;
using namespace tenon::gpu::rocm;  // NOLINT: a library of its own

namespace tenon::gpu::rocm {

struct miopenHandle {
  void* stream = nullptr;
  std::set<uint64_t> compiled;
};
struct miopenTensorDescriptor {
  ConvolvedTensor tensor;
};
struct miopenConvolutionDescriptor {
  int pads[2] = {}, strides[2] = {}, dilations[2] = {}, groups = 0, deterministic = 0;
};

}  // namespace tenon::gpu::rocm

namespace {

constexpr Status kBadParameter = 3, kUnknown = 7;
constexpr uint64_t kGreedy = 11, kCannotBeCompiled = 12, kComputes = 13;
constexpr size_t kWorkspace = 320;

Convolved ProblemOf(Convolved::Result result, OpenTensor x, OpenTensor w, OpenTensor y, OpenWindow window) {
  Convolved c;
  c.result = result;
  c.x = x->tensor;
  c.w = w->tensor;
  c.y = y->tensor;
  const auto two = [](const int* of) { return std::vector<int64_t>(of, of + 2); };
  c.before = c.after = two(window->pads);
  c.strides = two(window->strides);
  c.dilations = two(window->dilations);
  return c;
}
bool MayRun(const Convolved& c, OpenWindow window) {
  return c.Fits() && window->deterministic == 1 && c.x.dims[1] == c.w.dims[1] * window->groups;
}

Status GetSolutions(const Convolved& c, OpenWindow window, size_t most, size_t* count, OpenSolution* solutions) {
  if (!MayRun(c, window) || most < 3) return kBadParameter;
  *count = 3;
  solutions[0] = {1, size_t{1} << 40, kGreedy, 0};
  solutions[1] = {2, 0, kCannotBeCompiled, 0};
  solutions[2] = {3, kWorkspace, kComputes, 0};
  return 0;
}
Status Compile(OpenHandle handle, uint64_t id) {
  if (id != kComputes) return kUnknown;
  handle->compiled.insert(id);
  return 0;
}
Status Run(OpenHandle handle, const Convolved& c, const void* x, const void* w, const void* y, void* workspace,
           size_t bytes, uint64_t id) {
  if (handle->compiled.count(id) == 0 || bytes < kWorkspace || workspace == nullptr) return kBadParameter;
  static_cast<tenon::gpu::EmulatedStream*>(handle->stream)->Give([=] {
    c.Compute(52, const_cast<void*>(x), const_cast<void*>(w), const_cast<void*>(y));
  });
  return 0;
}

}  // namespace

extern "C" {

Status miopenCreate(OpenHandle* handle) {
  *handle = new miopenHandle;
  return 0;
}
Status miopenDestroy(OpenHandle handle) {
  delete handle;
  return 0;
}
Status miopenSetStream(OpenHandle handle, StreamHandle stream) {
  handle->stream = stream;
  return 0;
}
Status miopenCreateTensorDescriptor(OpenTensor* tensor) {
  *tensor = new miopenTensorDescriptor;
  return 0;
}
Status miopenDestroyTensorDescriptor(OpenTensor tensor) {
  delete tensor;
  return 0;
}
Status miopenSetTensorDescriptor(OpenTensor tensor, OpenType type, int rank, const int* dims, const int* strides) {
  if (rank != 4) return kBadParameter;
  tensor->tensor.type = type == kOpenDouble     ? Number::kDouble
                        : type == kOpenHalf     ? Number::kHalf
                        : type == kOpenBfloat16 ? Number::kBfloat16
                                                : Number::kFloat;
  tensor->tensor.dims.assign(dims, dims + rank);
  tensor->tensor.strides.assign(strides, strides + rank);
  return 0;
}
Status miopenCreateConvolutionDescriptor(OpenWindow* window) {
  *window = new miopenConvolutionDescriptor;
  return 0;
}
Status miopenDestroyConvolutionDescriptor(OpenWindow window) {
  delete window;
  return 0;
}
Status miopenInitConvolutionDescriptor(OpenWindow window, int mode, int pad_h, int pad_w, int stride_h, int stride_w,
                                       int dilation_h, int dilation_w) {
  *window = {{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1, 0};
  return mode == kOpenConvolution ? 0 : kBadParameter;
}
Status miopenSetConvolutionGroupCount(OpenWindow window, int groups) {
  window->groups = groups;
  return 0;
}
Status miopenSetConvolutionAttribute(OpenWindow window, int attribute, int value) {
  if (attribute != kOpenDeterministic) return kBadParameter;
  window->deterministic = value;
  return 0;
}

Status miopenConvolutionForwardGetSolution(OpenHandle, OpenTensor w, OpenTensor x, OpenWindow window, OpenTensor y,
                                           size_t most, size_t* count, OpenSolution* out) {
  return GetSolutions(ProblemOf(Convolved::kForward, x, w, y, window), window, most, count, out);
}
Status miopenConvolutionForwardCompileSolution(OpenHandle handle, OpenTensor, OpenTensor, OpenWindow, OpenTensor,
                                               uint64_t id) {
  return Compile(handle, id);
}
Status miopenConvolutionForwardImmediate(OpenHandle handle, OpenTensor w, const void* w_data, OpenTensor x,
                                         const void* x_data, OpenWindow window, OpenTensor y, void* y_data,
                                         void* workspace, size_t bytes, uint64_t id) {
  return Run(handle, ProblemOf(Convolved::kForward, x, w, y, window), x_data, w_data, y_data, workspace, bytes, id);
}

Status miopenConvolutionBackwardDataGetSolution(OpenHandle, OpenTensor y, OpenTensor w, OpenWindow window, OpenTensor x,
                                                size_t most, size_t* count, OpenSolution* out) {
  return GetSolutions(ProblemOf(Convolved::kImage, x, w, y, window), window, most, count, out);
}
Status miopenConvolutionBackwardDataCompileSolution(OpenHandle handle, OpenTensor, OpenTensor, OpenWindow, OpenTensor,
                                                    uint64_t id) {
  return Compile(handle, id);
}
Status miopenConvolutionBackwardDataImmediate(OpenHandle handle, OpenTensor y, const void* y_data, OpenTensor w,
                                              const void* w_data, OpenWindow window, OpenTensor x, void* x_data,
                                              void* workspace, size_t bytes, uint64_t id) {
  return Run(handle, ProblemOf(Convolved::kImage, x, w, y, window), x_data, w_data, y_data, workspace, bytes, id);
}

Status miopenConvolutionBackwardWeightsGetSolution(OpenHandle, OpenTensor y, OpenTensor x, OpenWindow window,
                                                   OpenTensor w, size_t most, size_t* count, OpenSolution* out) {
  return GetSolutions(ProblemOf(Convolved::kFilter, x, w, y, window), window, most, count, out);
}
Status miopenConvolutionBackwardWeightsCompileSolution(OpenHandle handle, OpenTensor, OpenTensor, OpenWindow,
                                                       OpenTensor, uint64_t id) {
  return Compile(handle, id);
}
Status miopenConvolutionBackwardWeightsImmediate(OpenHandle handle, OpenTensor y, const void* y_data, OpenTensor x,
                                                 const void* x_data, OpenWindow window, OpenTensor w, void* w_data,
                                                 void* workspace, size_t bytes, uint64_t id) {
  return Run(handle, ProblemOf(Convolved::kFilter, x, w, y, window), x_data, w_data, y_data, workspace, bytes, id);
}

}  // extern "C"

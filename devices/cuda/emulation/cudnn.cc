// SPDX-License-Identifier: Apache-2.0
// A library with the functions of cuDNN's backend that computes in the host's memory, on emulated streams
// (devices/gpu/emulation/ stream.h), as far as devices/cuda/cudnn_library.h asks it: convolutions of two dims and their
// gradients, grouped, dilated, padded on either side alone. Its heuristics name four engines: one whose bits vary, one
// of tensor cores (which rounds floats to TF32), one that cannot be built, one that is exact. It refuses what is not
// finalized, not complete or does not fit. TENON_EMULATED_LIES=1: it tells sizes and counts that no library has, and
// that all went well. For tests.
#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "emulation/convolution.h"
#include "emulation/stream.h"

using tenon::gpu::Convolved;
using tenon::gpu::ConvolvedTensor;
using tenon::gpu::Number;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

enum Engine : int64_t { kVaries, kTensorCores, kCannotBeBuilt, kExact, kEngines };
constexpr int64_t kWorkspace = 768;

// A descriptor: what was set, as bytes, and copies of the descriptors among them, as of the real ones, which may be
// destroyed.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  int64_t engine = -1;
  std::shared_ptr<const Convolved> problem;  // of a plan, which outlives what it was made of
  std::map<int, std::vector<char>> attributes;
  std::map<int, std::shared_ptr<const Descriptor>> others;

  template <class T>
  std::vector<T> All(int name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T One(int name) const {
    const std::vector<T> values = All<T>(name);
    return values.size() == 1 ? values[0] : T();
  }
  const Descriptor* Other(int name) const {
    const auto found = others.find(name);
    return found == others.end() ? nullptr : found->second.get();
  }
};
Descriptor* Of(cudnnBackendDescriptor_t descriptor) { return static_cast<Descriptor*>(descriptor); }

size_t BytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void*);
    default: return 4;
  }
}

bool Read(const Descriptor* d, ConvolvedTensor* out) {
  if (d == nullptr || !d->finalized) return false;
  switch (d->One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    case CUDNN_DATA_DOUBLE: out->type = Number::kDouble; break;
    case CUDNN_DATA_HALF: out->type = Number::kHalf; break;
    case CUDNN_DATA_BFLOAT16: out->type = Number::kBfloat16; break;
    default: out->type = Number::kFloat; break;
  }
  out->id = d->One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  out->dims = d->All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  out->strides = d->All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  return out->dims.size() == 4 && out->strides.size() == 4;
}

// A convolution, read out of its graph.
bool Read(const Descriptor* operation, Convolved* p) {
  if (operation == nullptr || !operation->finalized) return false;
  int x, w, y, window, beta;
  switch (operation->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      p->result = Convolved::kForward;
      x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, w = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      y = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y;
      window = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      p->result = Convolved::kImage;
      x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY;
      window = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      p->result = Convolved::kFilter;
      x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY;
      window = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA;
      break;
    default: return false;
  }
  const Descriptor* const c = operation->Other(window);
  if (!Read(operation->Other(x), &p->x) || !Read(operation->Other(w), &p->w) || !Read(operation->Other(y), &p->y) ||
      c == nullptr || !c->finalized)
    return false;
  if (operation->attributes.find(beta) == operation->attributes.end()) return false;
  p->before = c->All<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  p->after = c->All<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  p->dilations = c->All<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  p->strides = c->All<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  return p->Fits();
}

cudnnStatus_t Give(const void* values, size_t bytes, int64_t available, int64_t requested, int64_t* count, void* out) {
  *count = available;
  std::memcpy(out, values, bytes * static_cast<size_t>(std::min(available, requested)));
  return CUDNN_STATUS_SUCCESS;
}

// The operation of a graph, by what was made of it.
const Descriptor* OperationOf(const Descriptor* d) {
  if (d == nullptr) return nullptr;
  switch (d->type) {
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return OperationOf(d->Other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    default: return d->Other(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  }
}

std::atomic<int> plans{0};  // that were built

bool Lies() {
  const char* const wished = std::getenv("TENON_EMULATED_LIES");
  return wished != nullptr && *wished == '1';
}

}  // namespace

extern "C" {

int tenon_emulated_cudnn_plans() { return plans; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "an error of the emulated cuDNN";
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  *out = new Descriptor{type, false, -1, nullptr, {}, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Descriptor* const d = Of(descriptor);
  if (d->finalized) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (count != 1) return CUDNN_STATUS_NOT_SUPPORTED;
    d->others[name] = std::make_shared<const Descriptor>(*Of(*static_cast<const cudnnBackendDescriptor_t*>(values)));
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* bytes = static_cast<const char*>(values);
  d->attributes[name].assign(bytes, bytes + BytesOf(type) * static_cast<size_t>(count));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor* const d = Of(descriptor);
  Convolved problem;
  if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !Read(OperationOf(d), &problem))
    return CUDNN_STATUS_BAD_PARAM;
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Descriptor* const configuration = d->Other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (configuration == nullptr || configuration->engine == kCannotBeBuilt) return CUDNN_STATUS_NOT_SUPPORTED;
    if (!Read(OperationOf(configuration), &problem)) return CUDNN_STATUS_BAD_PARAM;
    ++plans;
    d->engine = configuration->engine;
    d->problem = std::make_shared<const Convolved>(problem);
  }
  d->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t requested, int64_t* count, void* out) {
  const Descriptor* const d = Of(descriptor);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const bool first = d->One<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
      *count = std::min<int64_t>(requested, first ? kEngines - 1 : 1);
      for (int64_t i = 0; i < *count; ++i) {
        Descriptor* const configuration = Of(static_cast<cudnnBackendDescriptor_t*>(out)[i]);
        configuration->engine = first ? i : kExact;
        configuration->others = d->others;
        configuration->finalized = true;
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      Of(*static_cast<cudnnBackendDescriptor_t*>(out))->engine = d->engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      if (Lies()) {
        *count = -1;
        return CUDNN_STATUS_SUCCESS;
      }
      const cudnnBackendNumericalNote_t note =
          d->engine == kVaries ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      return Give(&note, sizeof note, d->engine == kVaries || d->engine == kTensorCores ? 1 : 0, requested, count, out);
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (constexpr int64_t kLie = -4096; Lies()) return Give(&kLie, sizeof kLie, 1, requested, count, out);
      return d->finalized ? Give(&kWorkspace, sizeof kWorkspace, 1, requested, count, out) : CUDNN_STATUS_BAD_PARAM;
    default: return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Descriptor *const p = Of(plan), *const v = Of(pack);
  const auto ids = v->All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = v->All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* const workspace = v->One<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (!p->finalized || !v->finalized || ids.size() != 3 || addresses.size() != 3 || workspace == nullptr)
    return CUDNN_STATUS_BAD_PARAM;
  const Convolved& problem = *p->problem;
  void* found[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (reinterpret_cast<uintptr_t>(addresses[i]) % 16 != 0) return CUDNN_STATUS_BAD_PARAM;
    if (ids[i] == problem.x.id) found[0] = addresses[i];
    if (ids[i] == problem.w.id) found[1] = addresses[i];
    if (ids[i] == problem.y.id) found[2] = addresses[i];
  }
  if (found[0] == nullptr || found[1] == nullptr || found[2] == nullptr) return CUDNN_STATUS_BAD_PARAM;
  reinterpret_cast<tenon::gpu::EmulatedStream*>(handle->stream)->Give([=, problem = p->problem, engine = p->engine] {
    std::memset(workspace, 0x5A, static_cast<size_t>(kWorkspace));
    problem->Compute(engine == kTensorCores ? 10 : 52, found[0], found[1], found[2]);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"

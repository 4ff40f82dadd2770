// SPDX-License-Identifier: Apache-2.0
#include "cudnn_library.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/sdk/span.h"

namespace tenon::gpu {
namespace {

// Names of the operands in a graph.
constexpr int64_t kImage = 'x', kFilter = 'w', kResult = 'y';
constexpr int64_t kAlignment = 16;
constexpr size_t kMostPlans = 4096;  // that are kept
// Engines that the heuristics are asked for.
constexpr int64_t kMostEngines = 16;

std::optional<cudnnDataType_t> TypeOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return CUDNN_DATA_FLOAT;
    case TENON_DT_DOUBLE: return CUDNN_DATA_DOUBLE;
    case TENON_DT_HALF: return CUDNN_DATA_HALF;
    case TENON_DT_BFLOAT16: return CUDNN_DATA_BFLOAT16;
    default: return {};
  }
}

// What an operation is called and what its operands are.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};
Names NamesOf(Convolution::Result result) {
  switch (result) {
    case Convolution::Result::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Convolution::Result::kGradientOfInput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

// What the output needs behind the image; before it there is `before`.
int64_t After(const Convolution::Direction& d) {
  return std::max<int64_t>(0, (d.output - 1) * d.stride + (d.size - 1) * d.dilation + 1 - d.input - d.before);
}

std::string TextOf(const Convolution& c) {
  static constexpr const char* kResults[] = {"", " (gradient of the input)", " (gradient of the filter)"};
  return sdk::Concat("of ", c.batch, " images of ", c.rows.input, " by ", c.columns.input, ", ", c.channels,
                     " channels, by ", c.filters, " filters of ", c.rows.size, " by ", c.columns.size,
                     kResults[static_cast<size_t>(c.result)]);
}

}  // namespace

// A descriptor of the backend. It remembers the first thing that went wrong.
class Cudnn::Descriptor {
 public:
  Descriptor(const Cudnn& library, cudnnBackendDescriptorType_t type)
      : library_(library), status_(library.f_.cudnnBackendCreateDescriptor(type, &get_)) {}
  Descriptor(Descriptor&& other) noexcept
      : library_(other.library_), get_(std::exchange(other.get_, nullptr)), status_(other.status_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(get_, other.get_);
    status_ = other.status_;
    return *this;
  }
  ~Descriptor() {
    if (get_ != nullptr) (void)library_.f_.cudnnBackendDestroyDescriptor(get_);
  }
  cudnnBackendDescriptor_t get() const { return get_; }
  bool ok() const { return status_ == CUDNN_STATUS_SUCCESS; }

  template <class T>
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values, int64_t count) {
    if (ok()) status_ = library_.f_.cudnnBackendSetAttribute(get_, name, type, count, values);
    return *this;
  }
  template <class T>
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return Set(name, type, &value, 1);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    if (ok() && !other.ok()) status_ = other.status_;
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get_);
  }
  Descriptor& Finalize() {
    if (ok()) status_ = library_.f_.cudnnBackendFinalize(get_);
    return *this;
  }
  // How many there are; at most `count` are written. Elements that are descriptors stand there before.
  template <class T>
  int64_t Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T* out, int64_t count) const {
    int64_t found = 0;
    return ok() && library_.f_.cudnnBackendGetAttribute(get_, name, type, count, &found, out) == CUDNN_STATUS_SUCCESS
               ? std::clamp<int64_t>(found, 0, count)
               : 0;
  }

 private:
  const Cudnn& library_;
  cudnnBackendDescriptor_t get_ = nullptr;
  cudnnStatus_t status_;
};

class Cudnn::Work final : public LibraryWork {
 public:
  Work(const Cudnn& library, const Convolution& convolution, cudnnDataType_t type)
      : library_(library), result_(convolution.result), plan_(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    alignment_ = kAlignment;
    const Descriptor graph = Graph(convolution, type);
    for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      if (graph.ok() && !is_planned_) Choose(graph, mode, convolution);
    }
  }
  bool is_planned() const { return is_planned_; }

  Outcome Launch(const LibraryOperands& on, Stream stream) const override {
    static constexpr int64_t kNames[] = {kImage, kFilter, kResult};
    const std::array<const void*, 3> operands = OperandsOf(on);
    Descriptor pack(library_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kNames, 3)
        .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, operands.data(), 3)
        .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, on.workspace)
        .Finalize();
    if (!pack.ok()) return Fault(TENON_INTERNAL, "cuDNN takes no operands");
    const std::lock_guard lock(library_.mutex_);
    cudnnStatus_t status = library_.f_.cudnnSetStream(library_.handle_, reinterpret_cast<cudaStream_t>(stream));
    if (status == CUDNN_STATUS_SUCCESS)
      status = library_.f_.cudnnBackendExecute(library_.handle_, plan_.get(), pack.get());
    return status == CUDNN_STATUS_SUCCESS
               ? Outcome()
               : Fault(TENON_INTERNAL, "cudnnBackendExecute: ", library_.f_.cudnnGetErrorString(status));
  }

 private:
  // In the order of the names.
  std::array<const void*, 3> OperandsOf(const LibraryOperands& on) const {
    switch (result_) {
      case Convolution::Result::kForward: return {on.left, on.right, on.out};
      case Convolution::Result::kGradientOfInput: return {on.out, on.right, on.left};
      default: return {on.left, on.out, on.right};
    }
  }
  // Tensor cores round floats to TF32; inputs are converted to float16.
  static bool Allows(const Convolution& c, cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return c.dtype != TENON_DT_FLOAT || c.precision != TENON_PRECISION_STRICT;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return c.dtype != TENON_DT_FLOAT || c.precision == TENON_PRECISION_ALLOW_FLOAT16;
      default: return true;
    }
  }

  Descriptor Tensor(int64_t name, cudnnDataType_t type, const Four& dims, bool channels_first) const {
    Descriptor tensor(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const Four strides = StridesOf(dims, channels_first);
    tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name)
        .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
        .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment)
        .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims.data(), 4)
        .Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.data(), 4)
        .Finalize();
    return tensor;
  }
  Descriptor Window(const Convolution& c, cudnnDataType_t compute) const {
    const int64_t before[] = {c.rows.before, c.columns.before}, after[] = {After(c.rows), After(c.columns)};
    const int64_t dilations[] = {c.rows.dilation, c.columns.dilation}, strides[] = {c.rows.stride, c.columns.stride};
    Descriptor window(library_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    window.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
        .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute)
        .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
        .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, before, 2)
        .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, after, 2)
        .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dilations, 2)
        .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, strides, 2)
        .Finalize();
    return window;
  }
  Descriptor Graph(const Convolution& c, cudnnDataType_t type) const {
    const bool is_double = type == CUDNN_DATA_DOUBLE;
    const Names names = NamesOf(c.result);
    const Descriptor x = Tensor(kImage, type, {c.batch, c.channels, c.rows.input, c.columns.input}, c.channels_first);
    const Descriptor w = Tensor(kFilter, c.sums ? CUDNN_DATA_FLOAT : type,
                                {c.filters, c.channels / c.groups, c.rows.size, c.columns.size}, c.channels_first);
    const Descriptor y = Tensor(kResult, type, {c.batch, c.filters, c.rows.output, c.columns.output}, c.channels_first);
    const Descriptor window = Window(c, is_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    Descriptor operation(library_, names.operation);
    operation.Set(names.x, x).Set(names.w, w).Set(names.y, y).Set(names.convolution, window);
    if (is_double) {
      operation.Set(names.alpha, CUDNN_TYPE_DOUBLE, 1.0).Set(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
    } else {
      operation.Set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f).Set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
    }
    operation.Finalize();
    Descriptor graph(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
        .Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library_.handle_)
        .Finalize();
    return graph;
  }

  // The first engine that may be used and can be built.
  void Choose(const Descriptor& graph, cudnnBackendHeurMode_t mode, const Convolution& convolution) {
    Descriptor heuristics(library_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode)
        .Finalize();
    std::vector<Descriptor> configurations;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int64_t i = 0; i < kMostEngines; ++i) {
      handles.push_back(configurations.emplace_back(library_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
    }
    const int64_t count =
        heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles.data(), kMostEngines);
    for (int64_t i = 0; i < count && !is_planned_; ++i) {
      const Descriptor& configuration = configurations[static_cast<size_t>(i)];
      if (MayUse(configuration, convolution)) Build(configuration);
    }
  }
  bool MayUse(const Descriptor& configuration, const Convolution& convolution) const {
    const Descriptor engine(library_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = engine.get();
    if (configuration.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &handle, 1) != 1) return false;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    const int64_t count =
        engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes, std::size(notes));
    return std::all_of(notes, notes + count,
                       [&](cudnnBackendNumericalNote_t note) { return Allows(convolution, note); });
  }
  void Build(const Descriptor& configuration) {
    Descriptor plan(library_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library_.handle_)
        .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
        .Finalize();
    int64_t bytes = 0;
    if (plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes, 1) != 1 || bytes < 0 ||
        bytes > kMostLibraryWorkspace)
      return;
    plan_ = std::move(plan);
    workspace_bytes_ = bytes;
    is_planned_ = true;
  }

  const Cudnn& library_;
  const Convolution::Result result_;
  Descriptor plan_;
  bool is_planned_ = false;
};

Cudnn::Cudnn(const Options& options) {
  NamedLibrary library(PlacesOf(options, sdk::Concat("libcudnn.so.", CUDNN_MAJOR), "/usr/local/cuda/lib64"));
  TENON_CUDNN_FUNCTIONS(TENON_GPU_FIND)
  if (!library.problem().empty()) {
    about_ = sdk::Concat("cuDNN: ", library.problem(), kLibraryHelp);
    return;
  }
  const size_t version = f_.cudnnGetVersion();
  about_ = sdk::Concat("cuDNN ", version / 10000, ".", version / 100 % 100);
  if (const cudnnStatus_t status = f_.cudnnCreate(&handle_); status != CUDNN_STATUS_SUCCESS) {
    about_ += sdk::Concat(" cannot be used: ", f_.cudnnGetErrorString(status));
    handle_ = nullptr;
  }
}

Cudnn::~Cudnn() {
  plans_.clear();  // before the handle that they were built with
  if (handle_ != nullptr) (void)f_.cudnnDestroy(handle_);
}

// Of a plan that others may launch too.
class Cudnn::KeptWork final : public LibraryWork {
 public:
  explicit KeptWork(std::shared_ptr<const Work> work) : work_(std::move(work)) {
    workspace_bytes_ = work_->workspace_bytes();
    alignment_ = work_->alignment();
  }
  Outcome Launch(const LibraryOperands& on, Stream stream) const override { return work_->Launch(on, stream); }

 private:
  const std::shared_ptr<const Work> work_;
};

std::unique_ptr<LibraryWork> Cudnn::Take(const Convolution& convolution) const {
  const std::optional<cudnnDataType_t> type = TypeOf(convolution.dtype);
  if (handle_ == nullptr || !type.has_value()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= kMostPlans) plans_.clear();  // those in use stay
  const auto [place, is_new] = plans_.try_emplace(convolution.Key());
  if (is_new) {
    auto work = std::make_shared<Work>(*this, convolution, *type);
    if (work->is_planned()) {
      place->second = std::move(work);
    } else {
      const std::string text = sdk::Concat(
          "convolutions ", TextOf(convolution), " of ", sdk::TypeName(convolution.dtype),
          convolution.sums
              ? " are not given as sums of float32: cuDNN has no engine for that whose bits are the same each time"
              : " are computed by kernels of this plugin: cuDNN has no engine for them that gives the same bits each "
                "time");
      tenon_plugin_host->log(TENON_LOG_WARNING, sdk::ToSpan(text));
    }
  }
  return place->second == nullptr ? nullptr : std::make_unique<KeptWork>(place->second);
}

}  // namespace tenon::gpu

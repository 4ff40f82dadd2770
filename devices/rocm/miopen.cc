// SPDX-License-Identifier: Apache-2.0
#include "miopen.h"

#include <algorithm>
#include <array>
#include <optional>

#include "named_library.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostSolutions = 16;

std::optional<rocm::OpenType> OpenTypeOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return rocm::kOpenFloat;
    case TENON_DT_HALF: return rocm::kOpenHalf;
    case TENON_DT_BFLOAT16: return rocm::kOpenBfloat16;
    default: return {};
  }
}

// Whether as much padding on both sides gives the output.
bool IsEven(const Convolution::Direction& d) {
  const int64_t reach = (d.size - 1) * d.dilation + 1;
  return d.input + 2 * d.before >= reach && (d.input + 2 * d.before - reach) / d.stride + 1 == d.output;
}

}  // namespace

class Miopen::Work final : public LibraryWork {
 public:
  explicit Work(const Miopen& library, const Convolution& c)
      : library_(library), calls_(library.f_.calls[static_cast<size_t>(c.result)]), result_(c.result) {}
  ~Work() override {
    for (rocm::OpenTensor tensor : {x_, w_, y_}) {
      if (tensor != nullptr) (void)library_.f_.miopenDestroyTensorDescriptor(tensor);
    }
    if (window_ != nullptr) (void)library_.f_.miopenDestroyConvolutionDescriptor(window_);
  }

  // Needs the library's lock. Whether there is a solution.
  bool Plan(const Convolution& c, rocm::OpenType type) {
    const Functions& f = library_.f_;
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    bool ok = Describe(type, {c.batch, c.channels, c.rows.input, c.columns.input}, c.channels_first, &x_) &&
              Describe(type, {c.filters, c.channels / c.groups, c.rows.size, c.columns.size}, c.channels_first, &w_) &&
              Describe(type, {c.batch, c.filters, c.rows.output, c.columns.output}, c.channels_first, &y_);
    ok = ok && f.miopenCreateConvolutionDescriptor(&window_) == 0 &&
         f.miopenInitConvolutionDescriptor(window_, rocm::kOpenConvolution, number(c.rows.before),
                                           number(c.columns.before), number(c.rows.stride), number(c.columns.stride),
                                           number(c.rows.dilation), number(c.columns.dilation)) == 0 &&
         f.miopenSetConvolutionGroupCount(window_, number(c.groups)) == 0 &&
         f.miopenSetConvolutionAttribute(window_, rocm::kOpenDeterministic, 1) == 0;
    return ok && Choose();
  }

  Outcome Launch(const LibraryOperands& on, Stream stream) const override {
    const auto [first, second, out] = Tensors();
    // The filter stands first in a forward convolution, the result's gradient in a gradient.
    const bool swapped = result_ != Convolution::Result::kGradientOfInput;
    const std::lock_guard lock(library_.mutex_);
    rocm::Status status = library_.f_.miopenSetStream(library_.handle_, stream);
    if (status == 0) {
      status = calls_.run(library_.handle_, first, swapped ? on.right : on.left, second, swapped ? on.left : on.right,
                          window_, out, on.out, on.workspace, static_cast<size_t>(workspace_bytes_), solution_);
    }
    return status == 0 ? Outcome() : Fault(TENON_INTERNAL, "a convolution of MIOpen: miopenStatus_t ", status);
  }

 private:
  bool Describe(rocm::OpenType type, const Four& dims, bool channels_first, rocm::OpenTensor* out) const {
    const Four strides = StridesOf(dims, channels_first);
    int d[4], s[4];
    std::copy(dims.begin(), dims.end(), d);
    std::copy(strides.begin(), strides.end(), s);
    return library_.f_.miopenCreateTensorDescriptor(out) == 0 &&
           library_.f_.miopenSetTensorDescriptor(*out, type, 4, d, s) == 0;
  }
  // In the order of the library's functions.
  std::array<rocm::OpenTensor, 3> Tensors() const {
    switch (result_) {
      case Convolution::Result::kForward: return {w_, x_, y_};
      case Convolution::Result::kGradientOfInput: return {y_, w_, x_};
      default: return {y_, x_, w_};
    }
  }
  bool Choose() {
    const auto [first, second, out] = Tensors();
    rocm::OpenSolution solutions[kMostSolutions];
    size_t count = 0;
    if (calls_.get(library_.handle_, first, second, window_, out, kMostSolutions, &count, solutions) != 0) return false;
    for (size_t i = 0; i < std::min(count, kMostSolutions); ++i) {
      if (solutions[i].workspace_bytes > static_cast<size_t>(kMostLibraryWorkspace)) continue;
      if (calls_.compile(library_.handle_, first, second, window_, out, solutions[i].id) != 0) continue;
      solution_ = solutions[i].id;
      workspace_bytes_ = static_cast<int64_t>(solutions[i].workspace_bytes);
      return true;
    }
    return false;
  }

  const Miopen& library_;
  const Calls& calls_;
  const Convolution::Result result_;
  rocm::OpenTensor x_ = nullptr, w_ = nullptr, y_ = nullptr;
  rocm::OpenWindow window_ = nullptr;
  uint64_t solution_ = 0;
};

Miopen::Miopen(const Options& options) {
  NamedLibrary library(PlacesOf(options, "libMIOpen.so.1", "/opt/rocm/lib"));
  TENON_GPU_FIND(miopenCreate)
  TENON_GPU_FIND(miopenDestroy)
  TENON_GPU_FIND(miopenSetStream)
  TENON_GPU_FIND(miopenCreateTensorDescriptor)
  TENON_GPU_FIND(miopenDestroyTensorDescriptor)
  TENON_GPU_FIND(miopenSetTensorDescriptor)
  TENON_GPU_FIND(miopenCreateConvolutionDescriptor)
  TENON_GPU_FIND(miopenDestroyConvolutionDescriptor)
  TENON_GPU_FIND(miopenInitConvolutionDescriptor)
  TENON_GPU_FIND(miopenSetConvolutionGroupCount)
  TENON_GPU_FIND(miopenSetConvolutionAttribute)
  static constexpr const char* kDirections[] = {"Forward", "BackwardData", "BackwardWeights"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string name = sdk::Concat("miopenConvolution", kDirections[i]);
    library.Find((name + "GetSolution").c_str(), &f_.calls[i].get);
    library.Find((name + "CompileSolution").c_str(), &f_.calls[i].compile);
    library.Find((name + "Immediate").c_str(), &f_.calls[i].run);
  }
  if (!library.problem().empty()) {
    about_ = sdk::Concat("MIOpen: ", library.problem(), kLibraryHelp);
    return;
  }
  about_ = "MIOpen";
  if (const rocm::Status status = f_.miopenCreate(&handle_); status != 0) {
    about_ += sdk::Concat(" cannot be used: miopenStatus_t ", status);
    handle_ = nullptr;
  }
}

Miopen::~Miopen() {
  if (handle_ != nullptr) (void)f_.miopenDestroy(handle_);
}

std::unique_ptr<LibraryWork> Miopen::Take(const Convolution& c) const {
  const std::optional<rocm::OpenType> type = OpenTypeOf(c.dtype);
  if (handle_ == nullptr || !type.has_value() || c.sums || !IsEven(c.rows) || !IsEven(c.columns)) return nullptr;
  // Its dims and strides are of 32 bits.
  const int64_t image = c.channels * c.rows.input * c.columns.input,
                result = c.filters * c.rows.output * c.columns.output;
  if (std::max({image, result, c.batch, c.filters * c.channels * c.rows.size * c.columns.size}) > INT32_MAX)
    return nullptr;
  const std::lock_guard lock(mutex_);
  auto work = std::make_unique<Work>(*this, c);
  return work->Plan(c, *type) ? std::move(work) : nullptr;
}

}  // namespace tenon::gpu

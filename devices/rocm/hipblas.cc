// SPDX-License-Identifier: Apache-2.0
#include "hipblas.h"

#include <algorithm>
#include <optional>

#include "named_library.h"

namespace tenon::gpu {
namespace {

std::optional<rocm::BlasType> TypeOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return rocm::kBlasFloat;
    case TENON_DT_DOUBLE: return rocm::kBlasDouble;
    case TENON_DT_HALF: return rocm::kBlasHalf;
    case TENON_DT_BFLOAT16: return rocm::kBlasBfloat16;
    default: return {};
  }
}

}  // namespace

class Hipblas::Work final : public LibraryWork {
 public:
  Work(const Hipblas& library, const MatrixProduct& product, rocm::BlasType type)
      : library_(library), product_(product), type_(type) {}

  Outcome Launch(const LibraryOperands& on, Stream stream) const override {
    static constexpr double kOne = 1, kZero = 0;
    static constexpr float kOneFloat = 1, kZeroFloat = 0;
    const bool is_double = type_ == rocm::kBlasDouble;
    const MatrixProduct& p = product_;
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    const auto turn = [](const MatrixProduct::Matrix& m) { return m.turned ? rocm::kBlasTurned : rocm::kBlasPlain; };
    const std::lock_guard lock(library_.mutex_);
    rocm::Status status = library_.f_.hipblasSetStream(library_.handle_, stream);
    if (status == 0) {
      status = library_.f_.gemm(library_.handle_, turn(p.right), turn(p.left), number(p.columns), number(p.rows),
                                number(p.depth), is_double ? static_cast<const void*>(&kOne) : &kOneFloat, on.right,
                                type_, number(p.right.step), p.right.batch, on.left, type_, number(p.left.step),
                                p.left.batch, is_double ? static_cast<const void*>(&kZero) : &kZeroFloat, on.out,
                                p.sums ? rocm::kBlasFloat : type_, number(p.out.step), p.out.batch, number(p.batches),
                                is_double ? rocm::kBlasCompute64F : rocm::kBlasCompute32F, rocm::kBlasDefault);
    }
    return status == 0 ? Outcome() : Fault(TENON_INTERNAL, "hipblasGemmStridedBatchedEx: hipblasStatus_t ", status);
  }

 private:
  const Hipblas& library_;
  const MatrixProduct product_;
  const rocm::BlasType type_;
};

Hipblas::Hipblas(const Options& options) {
  constexpr char kFolder[] = "/opt/rocm/lib";
  // The release says what the function is called. Newest first.
  static constexpr const char* kReleases[][2] = {{"libhipblas.so.3", "hipblasGemmStridedBatchedEx"},
                                                 {"libhipblas.so.2", "hipblasGemmStridedBatchedEx_v2"}};
  std::string problem;
  for (const auto& [file, gemm] : kReleases) {
    NamedLibrary library(PlacesOf(options, file, kFolder));
    TENON_GPU_FIND(hipblasCreate)
    TENON_GPU_FIND(hipblasDestroy)
    TENON_GPU_FIND(hipblasSetStream)
    TENON_GPU_FIND(hipblasSetAtomicsMode)
    library.Find(gemm, &f_.gemm);
    if (problem.empty()) problem = library.problem();
    if (!library.problem().empty()) continue;
    about_ = sdk::Concat("hipBLAS (", file, ")");
    rocm::Status status = f_.hipblasCreate(&handle_);
    if (status == 0) status = f_.hipblasSetAtomicsMode(handle_, rocm::kBlasAtomicsNotAllowed);
    if (status == 0) return;
    about_ += sdk::Concat(" cannot be used: hipblasStatus_t ", status);
    if (handle_ != nullptr) (void)f_.hipblasDestroy(handle_);
    handle_ = nullptr;
    return;
  }
  about_ = sdk::Concat("hipBLAS: ", problem, kLibraryHelp);
}

Hipblas::~Hipblas() {
  if (handle_ != nullptr) (void)f_.hipblasDestroy(handle_);
}

std::unique_ptr<LibraryWork> Hipblas::Take(const MatrixProduct& p) const {
  const std::optional<rocm::BlasType> type = TypeOf(p.dtype);
  const int64_t largest = std::max({p.rows, p.columns, p.depth, p.batches, p.left.step, p.right.step, p.out.step});
  if (handle_ == nullptr || !type.has_value() || p.bias || p.relu || largest > INT32_MAX) return nullptr;
  return std::make_unique<Work>(*this, p, *type);
}

}  // namespace tenon::gpu

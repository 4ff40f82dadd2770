// SPDX-License-Identifier: Apache-2.0
#include "cublas_lt.h"

#include <vector>

#include "tenon/sdk/span.h"

namespace tenon::gpu {
namespace {

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
  const char* name;
};

// The ways to compute it that the policy allows, the fastest first.
std::vector<Types> WaysOf(const MatrixProduct& product) {
  switch (product.dtype) {
    case TENON_DT_DOUBLE: return {{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, "float64"}};
    case TENON_DT_HALF: return {{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, "float16"}};
    case TENON_DT_BFLOAT16: return {{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, "bfloat16"}};
    case TENON_DT_FLOAT: break;
    default: return {};
  }
  std::vector<Types> ways;
  const auto add = [&](cublasComputeType_t compute, const char* name) {
    ways.push_back({CUDA_R_32F, CUDA_R_32F, compute, name});
  };
  if (product.precision == TENON_PRECISION_ALLOW_FLOAT16) add(CUBLAS_COMPUTE_32F_FAST_16F, "float32 by float16");
  if (product.precision == TENON_PRECISION_ALLOW_BFLOAT16) add(CUBLAS_COMPUTE_32F_FAST_16BF, "float32 by bfloat16");
  if (product.precision != TENON_PRECISION_STRICT) add(CUBLAS_COMPUTE_32F_FAST_TF32, "float32 by TF32");
  add(CUBLAS_COMPUTE_32F, "float32");
  return ways;
}

std::string TextOf(const MatrixProduct& p) {
  const auto matrix = [](const MatrixProduct::Matrix& of) {
    return sdk::Concat(of.turned ? "turned, " : "", "lines ", of.step, " apart");
  };
  return sdk::Concat(p.sums ? "(sums of) " : "", p.batches, " of [", p.rows, ",", p.depth, "] by [", p.depth, ",",
                     p.columns, "] (", matrix(p.left), "; ", matrix(p.right), "; ", matrix(p.out), ")");
}

constexpr uint32_t kAlignment = 16;
constexpr size_t kMostSaid = 64;  // of refusals

}  // namespace

// The turned product: the library's A is our right operand, its B our left one, its rows are our columns.
class CublasLt::Work final : public LibraryWork {
 public:
  Work(const CublasLt& library, const Types& types, bool has_end)
      : library_(library), is_double_(types.scale == CUDA_R_64F), types_(types) {
    has_end_ = has_end;
  }

  cublasStatus_t Plan(const MatrixProduct& p) {
    const auto batches = static_cast<int32_t>(p.batches);
    cublasStatus_t status =
        library_.f_.cublasLtMatmulDescInit_internal(&product_, sizeof product_, types_.compute, types_.scale);
    const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status = library_.f_.cublasLtMatmulDescSetAttribute(&product_, name, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.right.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.left.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    const uint32_t epilogue = p.bias ? (p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                                     : (p.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<cublasLtEpilogue_t>(epilogue));
    const auto lay = [&](cublasLtMatrixLayoutOpaque_t* layout, cudaDataType_t type, const MatrixProduct::Matrix& matrix,
                         int64_t rows, int64_t columns) {
      if (status == CUBLAS_STATUS_SUCCESS) {
        status = library_.f_.cublasLtMatrixLayoutInit_internal(
            layout, sizeof *layout, type, static_cast<uint64_t>(matrix.turned ? columns : rows),
            static_cast<uint64_t>(matrix.turned ? rows : columns), matrix.step);
      }
      const auto attribute = [&](cublasLtMatrixLayoutAttribute_t name, const auto& value) {
        if (status == CUBLAS_STATUS_SUCCESS)
          status = library_.f_.cublasLtMatrixLayoutSetAttribute(layout, name, &value, sizeof value);
      };
      if (batches == 1) return;
      attribute(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
      attribute(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch);
    };
    lay(&right_, types_.data, p.right, p.columns, p.depth);
    lay(&left_, types_.data, p.left, p.depth, p.rows);
    lay(&out_, p.sums ? CUDA_R_32F : types_.data, p.out, p.columns, p.rows);
    return status == CUBLAS_STATUS_SUCCESS ? Choose() : status;
  }

  Outcome Launch(const LibraryOperands& on, Stream stream) const override {
    cublasLtMatmulDescOpaque_t product = product_;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (on.bias != nullptr && has_end_)
      status = library_.f_.cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &on.bias,
                                                          sizeof on.bias);
    static constexpr double kOne = 1, kZero = 0;
    static constexpr float kOneFloat = 1, kZeroFloat = 0;
    const auto number = [&](const double& wide, const float& narrow) {
      return is_double_ ? static_cast<const void*>(&wide) : &narrow;
    };
    auto layout = [](const cublasLtMatrixLayoutOpaque_t& of) { return const_cast<cublasLtMatrixLayout_t>(&of); };
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = library_.f_.cublasLtMatmul(
          library_.handle_, &product, number(kOne, kOneFloat), on.right, layout(right_), on.left, layout(left_),
          number(kZero, kZeroFloat), on.out, layout(out_), on.out, layout(out_), &algorithm_, on.workspace,
          static_cast<size_t>(workspace_bytes_), reinterpret_cast<cudaStream_t>(stream));
    }
    return status == CUBLAS_STATUS_SUCCESS
               ? Outcome()
               : Fault(TENON_INTERNAL, "cublasLtMatmul: ", library_.f_.cublasLtGetStatusString(status));
  }

 private:
  cublasStatus_t Choose() {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasStatus_t status = library_.f_.cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status = library_.f_.cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMostLibraryWorkspace));
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(name, kAlignment);
    }
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = library_.f_.cublasLtMatmulAlgoGetHeuristic(library_.handle_, &product_, &right_, &left_, &out_, &out_,
                                                          &preference, 1, &found, &count);
    }
    if (status == CUBLAS_STATUS_SUCCESS)
      status = count < 1 || found.workspaceSize > static_cast<size_t>(kMostLibraryWorkspace)
                   ? CUBLAS_STATUS_NOT_SUPPORTED
                   : found.state;
    algorithm_ = found.algo;
    workspace_bytes_ = static_cast<int64_t>(found.workspaceSize);
    alignment_ = kAlignment;
    return status;
  }

  const CublasLt& library_;
  const bool is_double_;
  const Types types_;
  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t left_, right_, out_;
  cublasLtMatmulAlgo_t algorithm_;
};

CublasLt::CublasLt(const Options& options) {
  const std::string file = sdk::Concat("libcublasLt.so.", CUBLAS_VER_MAJOR);
  NamedLibrary library(PlacesOf(options, file, "/usr/local/cuda/lib64"));
  TENON_CUBLAS_LT_FUNCTIONS(TENON_GPU_FIND)
  if (!library.problem().empty()) {
    about_ = sdk::Concat("cuBLASLt: ", library.problem(), kLibraryHelp);
    return;
  }
  const size_t version = f_.cublasLtGetVersion();
  about_ = sdk::Concat("cuBLASLt ", version / 10000, ".", version / 100 % 100);
  if (const cublasStatus_t status = f_.cublasLtCreate(&handle_); status != CUBLAS_STATUS_SUCCESS) {
    about_ += sdk::Concat(" cannot be used: ", f_.cublasLtGetStatusString(status));
    handle_ = nullptr;
  }
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) (void)f_.cublasLtDestroy(handle_);
}

void CublasLt::Say(const std::string& text, bool is_last) const {
  {
    const std::lock_guard lock(mutex_);
    if (said_.size() >= kMostSaid || !said_.insert(text).second) return;
  }
  tenon_plugin_host->log(is_last ? TENON_LOG_WARNING : TENON_LOG_INFO, sdk::ToSpan(text));
}

std::unique_ptr<LibraryWork> CublasLt::Take(const MatrixProduct& product) const {
  const std::vector<Types> ways = WaysOf(product);
  if (handle_ == nullptr || ways.empty() || product.batches > INT32_MAX) return nullptr;
  MatrixProduct sums = product;
  sums.bias = sums.relu = false;
  const bool has_end = product.bias || product.relu;
  for (const Types& way : ways) {
    for (const bool with_end : {true, false}) {
      if (!with_end && !has_end) break;
      auto work = std::make_unique<Work>(*this, way, with_end);
      const cublasStatus_t status = work->Plan(with_end ? product : sums);
      if (status == CUBLAS_STATUS_SUCCESS) return work;
      Say(sdk::Concat("cuBLASLt does not take products ", TextOf(product), " as ", way.name,
                      with_end && has_end ? " with what is done to the sums: " : ": ",
                      f_.cublasLtGetStatusString(status)),
          false);
    }
  }
  Say(sdk::Concat("products ", TextOf(product), " of ", sdk::TypeName(product.dtype),
                  " are computed by kernels of this plugin, which use no tensor cores: cuBLASLt takes them in no way"),
      true);
  return nullptr;
}

}  // namespace tenon::gpu

// SPDX-License-Identifier: Apache-2.0
// A few oneDNN primitives in a row over the tensors and the workspace of one kernel run.
//
// prepare() builds Programs: slots are memories (an input, an output, a part of the workspace, a constant of the
// program's own), steps are primitives over slots. run() binds addresses and executes. The library's memory objects
// carry the addresses, so each run in flight needs a set of its own: sets are kept in a pool and made when more runs
// are in flight than ever before, so a steady state makes none.
//
// Threads. oneDNN's own team (OpenMP) would fight the host's helpers for the cores, so that it is never used: every
// primitive is made and executed with one thread (SingleThread), and a kernel's work is split into one program for each
// share, which the host's parallel_for runs.
#ifndef TENON_DEVICES_CPU_ONEDNN_PROGRAM_H_
#define TENON_DEVICES_CPU_ONEDNN_PROGRAM_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "library.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_onednn {

// The most shares of one kernel; 0: as many as the host has threads. The plugin's option "threads".
inline std::atomic<int64_t> thread_limit{0};
int64_t Shares(const sdk::PrepareContext& c);
// Those times the pieces of each, between which a step can be given up: of work that takes so many nanoseconds on one
// thread.
int64_t SharesAndPieces(const sdk::PrepareContext& c, double ns, double most_pieces);
// Whether oneDNN is used however small the work: the plugin's option "always", for measurements and tests.
inline std::atomic<bool> use_always{false};
// Whether convolutions and their gradients may go through Winograd's transforms, whose last digits are others
// (CHOICES.md): the plugin's option "winograd".
inline std::atomic<bool> winograd{true};

// While it lives, OpenMP regions that this thread enters have one thread; the caller's setting comes back after.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};

// A constant of the plan, of float32 or bfloat16 as `from` says, from `offset` (in elements) on, in the layout
// `wanted`, each of its innermost elements times its `scale` (empty: 1). Whoever asks for the same while another still
// has it gets the same copy: shares of a kernel, bindings of a plan, plans of a graph. Any thread.
struct PackedConstant;
std::shared_ptr<const PackedConstant> Packed(const tenon_tensor_view& constant, int64_t offset,
                                             const dnnl::memory::desc& from, const dnnl::memory::desc& wanted,
                                             const std::vector<float>& scale = {});

// The same of a constant that was made 8-bit integers, `values`, in the layout `from`; columns that were
// `column_stride` apart.
std::shared_ptr<const PackedConstant> PackedBytes(const tenon_tensor_view& constant, int64_t column_stride,
                                                  const std::vector<int8_t>& values, const dnnl::memory::desc& from,
                                                  const dnnl::memory::desc& wanted);

// A product of matrices of float32, [m, k] and [k, n] or turned ([k, m], [n, k]); rows as they lie are so many elements
// apart.
struct MatrixProduct {
  bool turned_a, turned_b;
  int64_t m, k, n;
  int64_t row_a, row_b, row_out;
};

class Program {
 public:
  using Desc = dnnl::memory::desc;
  Program() = default;
  Program(Program&& other) noexcept;
  Program(const Program&) = delete;
  ~Program();

  // Slots; offsets in bytes.
  int Input(int32_t index, const Desc& desc, int64_t offset = 0) { return Add({Kind::kInput, index, offset, desc}); }
  int Output(int32_t index, const Desc& desc, int64_t offset = 0) { return Add({Kind::kOutput, index, offset, desc}); }
  int Workspace(sdk::PrepareContext& c, const Desc& desc);
  int WorkspaceAt(int64_t offset, const Desc& desc) { return Add({Kind::kWorkspace, 0, offset, desc}); }
  int Constant(std::shared_ptr<const PackedConstant> value);
  template <class T>
  int Constant(const std::vector<T>& values, const Desc& desc) {
    constants_.emplace_back(desc, Engine());
    std::copy(values.begin(), values.end(), static_cast<T*>(constants_.back().get_data_handle()));
    return Add({Kind::kConstant, static_cast<int32_t>(constants_.size()) - 1, 0, desc});
  }

  // `slot` in the layout `desc`: itself, or a part of the workspace that a reorder fills.
  int Converted(sdk::PrepareContext& c, int slot, const Desc& desc);
  // Where a primitive writes `desc` for `slot`: itself, or a part of the workspace; Finish() then adds the reorder.
  int Target(sdk::PrepareContext& c, int slot, const Desc& desc);
  void Finish(int target, int slot);
  // Copies one into the other, unless they are one memory in the run. Both have one layout.
  void CopyUnlessSame(int from, int to);

  // By the library's GEMM (dnnl_sgemm), of slots.
  void Multiply(const MatrixProduct& product, int a, int b, int out);
  // Zeros in all bytes that a slot's layout spans.
  void Clear(int slot);
  // A primitive with its arguments; a scratchpad is added.
  void Step(sdk::PrepareContext& c, const dnnl::primitive& primitive, const Desc& scratchpad,
            std::vector<std::pair<int, int>> arguments);

  // A part of the workspace that lies elsewhere in this run.
  struct Elsewhere {
    int64_t offset;
    char* data;
  };
  void Run(sdk::RunContext c, std::span<const Elsewhere> elsewhere = {}) const;

 private:
  enum class Kind { kInput, kOutput, kWorkspace, kConstant };
  struct Slot {
    Kind kind;
    int32_t index;
    int64_t offset;
    Desc desc;
  };
  struct StepEntry {
    enum class Do { kPrimitive, kPrimitiveUnlessSame, kMultiply, kClear };
    dnnl::primitive primitive;
    std::vector<std::pair<int, int>> arguments;  // what it is for the primitive, and the slot
    Do what = Do::kPrimitive;                    // unless same: of two slots in one place there is nothing to do
    MatrixProduct product{};
  };
  struct Execution;

  int Add(Slot slot) {
    slots_.push_back(std::move(slot));
    return static_cast<int>(slots_.size()) - 1;
  }
  Execution* Take() const;
  void Give(Execution* execution) const;

  std::vector<Slot> slots_;
  std::vector<StepEntry> steps_;
  std::vector<dnnl::memory> constants_;
  std::vector<std::shared_ptr<const PackedConstant>> packed_;  // that constants_ are of
  mutable std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  mutable Execution* free_ = nullptr;
};

// Calls make(), with one thread, and turns oneDNN's refusal into UNIMPLEMENTED: the host then tries the next kernel.
template <class Function>
auto Made(Function&& make) {
  const SingleThread single;
  try {
    return make();
  } catch (const dnnl::error& error) {
    sdk::Fail(TENON_UNIMPLEMENTED, "oneDNN has no primitive for this: ", error.message);
  }
}

// The same, but empty where oneDNN has none: for what there is another way to do.
template <class Function>
auto MadeOrNone(Function&& make) -> decltype(make()) {
  const SingleThread single;
  try {
    return make();
  } catch (const dnnl::error&) {
    return {};
  }
}

// Left to the plain kernels: work too small to pay for a call of oneDNN (CHOICES.md), and none at all, which it cannot
// do.
inline void RefuseBelow(double work, double limit) {
  if (work == 0) sdk::Fail(TENON_UNIMPLEMENTED, "nothing to do for oneDNN; the plain kernel has an answer");
  if (work < limit && !use_always.load(std::memory_order_relaxed))
    sdk::Fail(TENON_UNIMPLEMENTED, "too small for oneDNN to pay; the plain kernel is faster");
}

// Left to the plain kernels, too: what lasts, in rough nanoseconds. A primitive cannot be stopped; they look between
// blocks whether the step was given up.
inline void RefuseLong(double ns) {
  constexpr double kLongest = 500e6;
  if (ns > kLongest)
    sdk::Fail(TENON_UNIMPLEMENTED, "too long for one call of oneDNN, which cannot be stopped; the plain kernel can");
}

// Left to the plain kernels, too: oneDNN's loops for any case, a hundred times slower than either. In bfloat16 the
// plain kernels of convolutions are such loops as well.
template <class Desc>
void RefuseSlow(const Desc& desc, ElementType type = ElementType::f32) {
  if (type != ElementType::bf16 && std::string_view(desc.impl_info_str()).starts_with("ref") &&
      !use_always.load(std::memory_order_relaxed))
    sdk::Fail(TENON_UNIMPLEMENTED, "oneDNN has no fast primitive for this; the plain kernel is faster");
}

// Whether oneDNN may use the instructions; a level's number has the bits of those below it.
inline bool Has(dnnl::cpu_isa level) {
  const auto bits = static_cast<unsigned>(level);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}
// Whether the machine multiplies bytes without saturating in between (VNNI).
inline bool HasByteProducts() {
  static const bool has = Has(dnnl::cpu_isa::avx2_vnni) || Has(dnnl::cpu_isa::avx512_core_vnni);
  return has;
}

inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline dnnl::memory::desc Strided(dnnl::memory::dims dims, dnnl::memory::dims strides,
                                  ElementType type = ElementType::f32) {
  return {std::move(dims), type, std::move(strides)};
}
inline dnnl::memory::desc Any(dnnl::memory::dims dims, ElementType type = ElementType::f32) {
  return {std::move(dims), type, dnnl::memory::format_tag::any};
}
inline ElementType TypeOf(const tenon_tensor_view& view) {
  return view.dtype == TENON_DT_BFLOAT16 ? ElementType::bf16 : ElementType::f32;
}
inline int64_t BytesOf(ElementType type) { return type == ElementType::bf16 ? 2 : 4; }

// Whether this processor multiplies bfloat16: without it oneDNN would do so in float32, and take longer than for
// float32.
bool HasBfloat16();
// Left to the plain kernels where it does not.
inline void RefuseWithoutBfloat16(ElementType type) {
  if (type == ElementType::bf16 && !HasBfloat16())
    sdk::Fail(TENON_UNIMPLEMENTED, "this processor has no bfloat16 (AVX-512 BF16)");
}

// Parts of [0, total), at most `shares`.
inline std::vector<std::pair<int64_t, int64_t>> Parts(int64_t total, int64_t shares) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  shares = std::clamp<int64_t>(shares, 1, std::max<int64_t>(1, total));
  for (int64_t i = 0; i < shares; ++i) parts.emplace_back(total * i / shares, total * (i + 1) / shares);
  return parts;
}

// Runs the programs, one a share.
void RunShares(sdk::RunContext c, const std::vector<Program>& programs, double cost,
               std::span<const Program::Elsewhere> elsewhere = {});

// What brings an input into the layout `wanted` at a place of the workspace before the shares of a kernel run: large
// ones along their first dimension by as many programs as there are shares, where layouts can be cut so.
std::vector<Program> ReorderInShares(sdk::PrepareContext& c, int32_t input, const dnnl::memory::desc& given,
                                     const dnnl::memory::desc& wanted, int64_t at);

using FloatAlone = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>;
using Bfloat16Alone = sdk::Constraints<sdk::Allowed<"T", TENON_DT_BFLOAT16>>;
using FloatOrBfloat16 = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_BFLOAT16>>;

template <class Kernel, class Types = FloatOrBfloat16>
constexpr tenon_kernel_registration OnednnKernel(std::string_view op, uint32_t flags = TENON_KERNEL_DETERMINISTIC) {
  return sdk::Registration<Kernel>(op, {.device_type = "CPU",
                                        .constraints = Types::list,
                                        .flags = flags | TENON_KERNEL_EXPENSIVE,
                                        .priority = library::kPriority});
}

// Defines a kernel of this package.
#define TENON_ONEDNN_KERNEL(name) TENON_KERNEL_OF(tenon_onednn_kernels, k##name##Kernel)

}  // namespace tenon::cpu_onednn

#endif  // TENON_DEVICES_CPU_ONEDNN_PROGRAM_H_

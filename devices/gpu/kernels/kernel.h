// SPDX-License-Identifier: Apache-2.0
// What the host's half of a kernel is: a class with a Plan that finds its device code once and launches it.
//
//   struct Scale {
//     explicit Scale(sdk::CreateContext& c) : factor(c.Float("factor")) {}     // attributes; optional
//     struct Plan {                                                            // what shapes and host arguments decide
//       Plan(const Scale& kernel, Shapes& s) : count(sdk::Count(s.in(0))), factor(kernel.factor), code(s.Code("Scale",
//       s.dtype(0))) {} void Launch(Launcher& on, char* const* at) const {                      // at[0] is the input,
//       at[1] the output
//         on(code, Flat(count), ScaleParams{As<const float>(at[0]), As<float>(at[1]), count, factor});
//       }
//       int64_t count;
//       float factor;
//       Function code;
//     };
//   };
//   TENON_GPU_KERNEL(Scale) = Kernel<Scale>("Scale", {.constraints = ...});
//
// Rules. kHostInputs names the arguments that stay on the host: Plan reads their values (s.Integer), their address in
// Launch is NULL. Where they are not constant, every run plans anew. Launch only gives work to the stream: no wait, no
// allocation, the same calls for the same plan, so that it can be captured. Device memory beyond operands is asked for
// in Plan (s.Workspace). Grids may not be empty: Flat(0) launches nothing. Bad data is reported by the device code
// (Report, with a FaultSite from on.Site); the code keeps within its operands whatever the data.
#ifndef TENON_DEVICES_GPU_KERNELS_KERNEL_H_
#define TENON_DEVICES_GPU_KERNELS_KERNEL_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "driver.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/kernel/operands.h"

namespace tenon::gpu {

using sdk::HostInput;
using sdk::Tag;
using sdk::Types;
using View = tenon_tensor_view;

// dtypes that most device code has. Code(name, dtype) is `name` with a suffix: Add_f32, Add_f64, Add_f16, Add_bf16,
// Add_i32, ...
using Floats = sdk::Reals;    // f32 f64 f16 bf16
using Numbers = Types<float, double, sdk::Half, sdk::Bfloat16, int32_t, int64_t>;
std::string_view Suffix(uint32_t dtype);
// The unsigned type of an integer's or bool's size, which wraps and is compared alike; other types are themselves.
uint32_t UnsignedType(uint32_t dtype);

template <class T>
T* As(char* address) {
  return reinterpret_cast<T*>(address);
}

// A grid of one dim whose threads stride over `count` items; items: of one thread at a time.
inline constexpr uint32_t kFlatThreads = 256;
struct FlatGrid {
  int64_t count;
  int64_t items;
};
inline FlatGrid Flat(int64_t count, int64_t items = 1) { return {count, items}; }

// What a plan knows while it is made.
class Shapes : public sdk::OperandShapes {
 public:
  Shapes(const View* const* inputs, int32_t input_count, const View* const* outputs, int32_t output_count,
         uint64_t host_inputs, Device& device, uint32_t precision, std::string_view op, std::string_view node)
      : OperandShapes(inputs, input_count, outputs, output_count, host_inputs),
        device_(device),
        precision_(precision),
        op_(op),
        node_(node) {}

  Device& device() const { return device_; }
  const CardFacts& facts() const { return device_.facts(); }
  uint32_t precision() const { return precision_; }  // TENON_PRECISION_*
  uint32_t dtype(int32_t input) const { return this->input(input).dtype; }

  // Device code by its name; with a dtype, by the name with its suffix.
  Function Code(std::string_view name) const;
  Function Code(std::string_view name, uint32_t dtype) const;
  // 256-byte aligned device memory of every run; gives its offset. May be called several times.
  int64_t Workspace(int64_t bytes);
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // For Launcher::Site. The text may hold {0}, {1}, {2}: position, value, limit.
  uint64_t Site(uint32_t code, std::string_view text) const {
    return device_.AddSite(std::string(node_), op_, {code, std::string(text)});
  }

 private:
  Device& device_;
  const uint32_t precision_;
  const std::string_view op_, node_;
  int64_t workspace_bytes_ = 0;
};

// Gives work to the queue of one run.
class Launcher {
 public:
  Launcher(Queue& queue, char* workspace) : queue_(queue), workspace_(workspace) {}

  template <class Params>
  void operator()(Function code, const Grid& grid, const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= 4096);
    if (WorkList* const list = queue_.list()) return list->Launch(code, grid, &params, sizeof params);
    Check(card().Launch(code, grid, &params, sizeof params, stream()));
  }
  template <class Params>
  void operator()(Function code, FlatGrid flat, const Params& params) {
    if (flat.count > 0) (*this)(code, ToGrid(flat), params);
  }
  // One that others like it may join, where work is noted: joining lives as long as the plan.
  template <class Params>
  void Joinable(Function code, FlatGrid flat, const Params& params, const Joining& joining) {
    WorkList* const list = queue_.list();
    if (list == nullptr || joining.function == nullptr) return (*this)(code, flat, params);
    if (flat.count > 0) list->Launch(code, ToGrid(flat), &params, sizeof params, &joining);
  }
  void Fill(void* target, uint8_t value, int64_t bytes) {
    if (bytes <= 0) return;
    if (WorkList* const list = queue_.list()) return list->Fill(target, value, static_cast<uint64_t>(bytes));
    Check(card().Fill(target, value, 1, static_cast<uint64_t>(bytes), stream()));
  }
  void Copy(void* target, const void* source, int64_t bytes) {
    if (bytes <= 0 || target == source) return;
    if (WorkList* const list = queue_.list()) return list->Copy(target, source, static_cast<uint64_t>(bytes));
    Check(card().Copy(target, source, static_cast<uint64_t>(bytes), stream()));
  }
  // Whether a vendor's library takes operands at these addresses.
  static bool Takes(const LibraryWork& work, const LibraryOperands& operands) {
    const auto bits = [](const void* address) { return reinterpret_cast<uintptr_t>(address); };
    const uintptr_t all = bits(operands.left) | bits(operands.right) | bits(operands.out) | bits(operands.bias);
    return all % static_cast<uintptr_t>(work.alignment()) == 0;
  }
  // What a vendor's library has taken; false: not with operands at these addresses.
  bool Launch(const LibraryWork& work, const LibraryOperands& operands) {
    if (!Takes(work, operands)) return false;
    if (queue_.list() != nullptr) Refuse(Fault(TENON_UNIMPLEMENTED, "a library's work on a list"));
    Check(work.Launch(operands, stream()));
    return true;
  }
  template <class T>
  T* Workspace(int64_t offset) const {
    return reinterpret_cast<T*>(workspace_ + offset);
  }
  FaultSite Site(uint64_t number) const { return {queue_.control(), number}; }

  // What the work's Keep() gave for this run; NULL: nothing.
  Kept* kept() const { return kept_; }
  void set_kept(Kept* kept) { kept_ = kept; }

  Queue& queue() const { return queue_; }
  Card& card() const { return queue_.card(); }
  Stream stream() const { return queue_.stream(); }
  void Check(Outcome outcome) const {
    if (!outcome.ok()) [[unlikely]] Refuse(std::move(outcome));
  }

 private:
  // Enough threads to fill the GPU; each takes several items where there are more.
  Grid ToGrid(FlatGrid flat) const {
    const int64_t per_block = static_cast<int64_t>(kFlatThreads) * flat.items;
    const int64_t most = static_cast<int64_t>(card().facts().processors) * 16;
    return {{static_cast<uint32_t>(std::clamp<int64_t>((flat.count + per_block - 1) / per_block, 1, most)), 1, 1},
            kFlatThreads};
  }
  [[noreturn]] void Refuse(Outcome outcome) const;

  Queue& queue_;
  char* const workspace_;
  Kept* kept_ = nullptr;
};

// A plan of any kernel.
class PreparedWork {
 public:
  virtual ~PreparedWork() = default;
  virtual void Launch(Launcher& on, char* const* at) const = 0;
  // What runs share, asked for before each of a plan that lasts: it may allocate. Launcher::kept() has it.
  virtual std::shared_ptr<Kept> Keep(const tenon_frame&) const { return nullptr; }

  Device* device = nullptr;
  bool ready = false;  // planned; else every run does it
  uint32_t precision = 0;
  uint64_t host_inputs = 0;
  int64_t workspace_bytes = 0;
};

// The device of a plan; UNIMPLEMENTED when another plugin opened it, so that the host tries that one's kernel.
Device& RequireOwn(const tenon_device* device);
// The frame's workspace, aligned as device memory is: the host aligns less, so kDeviceAlignment more is asked for.
char* AlignedWorkspace(const tenon_frame& frame);
// Gives planned work to the frame's queue. own_workspace: the frame has none, the work was planned for this run alone.
void Submit(const sdk::RunContext& c, const PreparedWork& work, bool own_workspace);
// The same for kernels that plan for themselves: launch(Launcher&) in the frame's turn.
void SubmitTo(const tenon_frame& frame, char* workspace, void (*launch)(void* argument, Launcher& on), void* argument);
template <class Launch>
void SubmitTo(const tenon_frame& frame, char* workspace, const Launch& launch) {
  SubmitTo(
      frame, workspace, [](void* argument, Launcher& on) { (*static_cast<const Launch*>(argument))(on); },
      const_cast<Launch*>(&launch));
}
template <class Launch>
void SubmitTo(const tenon_frame& frame, const Launch& launch) {
  SubmitTo(frame, static_cast<char*>(frame.workspace), launch);
}

// Device memory of one run whose size is known only then; it goes back in the queue's order.
class RunMemory {
 public:
  RunMemory(const tenon_frame& frame, int64_t bytes);
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;
  char* data() const { return data_; }

 private:
  Device& device_;
  Queue* const queue_;
  char* data_ = nullptr;
};

// What the queue's work so far leaves in device memory: for outputs whose sizes depend on data. Waits until it is
// there. Fails with what failed the timeline, bad data of the kernels so far among it, when the step ends, and when the
// GPU is lost. A kernel that reads back is registered with PlainKernel and its dynamic_outputs, and cannot be captured.
void ReadBack(const sdk::RunContext& c, const int64_t* words, std::span<int64_t> out);

// What a kernel with a Run of its own plans with: make(Shapes&) in prepare().
struct NamedKernel {
  explicit NamedKernel(sdk::CreateContext& c) : op(c.op()), node(c.name()) {}
  template <class Make>
  void Prepare(sdk::PrepareContext& c, Make&& make) const {
    const tenon_prepare_args& a = c.args();
    Shapes shapes(a.inputs, a.input_count, a.outputs, a.output_count, 0, RequireOwn(a.device), a.precision, op, node);
    make(shapes);
    if (shapes.workspace_bytes() > 0) c.Workspace(shapes.workspace_bytes());
  }
  std::string op, node;
};

namespace internal {

// K with what the SDK wants of a kernel.
template <class K>
struct Launched {
  explicit Launched(sdk::CreateContext& c) : kernel(Make(c)), op(c.op()), node(c.name()) {}
  static void Supports(sdk::KernelQuery& query) requires sdk::internal::HasSupports<K> { K::Supports(query); }

  struct Plan final : PreparedWork {
    Plan(const Launched& launched, sdk::PrepareContext& c)
        : Plan(launched, c.args().inputs, c.args().input_count, c.args().outputs, c.args().output_count,
               RequireOwn(c.args().device), c.args().precision) {
      if (workspace_bytes > 0) c.Workspace(workspace_bytes + kDeviceAlignment);
    }
    Plan(const Launched& launched, const View* const* inputs, int32_t input_count, const View* const* outputs,
         int32_t output_count, Device& on, uint32_t given_precision) {
      device = &on;
      precision = given_precision;
      host_inputs = sdk::HostInputBits<K>(input_count);
      Shapes shapes(inputs, input_count, outputs, output_count, host_inputs, on, precision, launched.op, launched.node);
      if (!shapes.complete()) return;
      plan.emplace(launched.kernel, shapes);
      workspace_bytes = shapes.workspace_bytes();
      ready = true;
    }
    void Launch(Launcher& on, char* const* at) const override { plan->Launch(on, at); }
    std::shared_ptr<Kept> Keep(const tenon_frame& frame) const override {
      if constexpr (requires { plan->Keep(frame); }) return plan->Keep(frame);
      return nullptr;
    }
    std::optional<typename K::Plan> plan;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.ready) [[likely]] return Submit(c, plan, false);
    const tenon_frame& f = *c.frame();
    const Plan now(*this, f.inputs, f.input_count, f.outputs, f.output_count, *plan.device, plan.precision);
    Submit(c, now, true);
  }

  static K Make(sdk::CreateContext& c) {
    if constexpr (std::is_constructible_v<K, sdk::CreateContext&>) {
      return K(c);
    } else {
      return K();
    }
  }
  K kernel;
  const std::string op, node;
};

}  // namespace internal

// The registration of a class with a Plan.
template <class K>
constexpr tenon_kernel_registration Kernel(std::string_view op, sdk::Traits traits) {
  traits.device_type = kDeviceType;
  traits.host_memory = sdk::HostInputNames<K>::list;
  traits.flags |= TENON_KERNEL_CAPTURE_SAFE;
  return sdk::Registration<internal::Launched<K>>(op, traits);
}
// The registration of a class with a Run of its own.
template <class K>
constexpr tenon_kernel_registration PlainKernel(std::string_view op, sdk::Traits traits) {
  traits.device_type = kDeviceType;
  return sdk::Registration<K>(op, traits);
}

// Defines a kernel of this package. A name is not twice in the package; several kernels of an op have several.
#define TENON_GPU_KERNEL(name) TENON_KERNEL_OF(tenon_gpu_kernels, k##name)

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_KERNEL_H_

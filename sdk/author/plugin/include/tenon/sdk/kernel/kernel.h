// SPDX-License-Identifier: Apache-2.0
// Kernels in C++: a class becomes a tenon_kernel_registration, and no exception leaves it.
//
//   struct Scale {
//     explicit Scale(sdk::CreateContext& c) : factor(c.Float("factor")) {}   // create(): optional
//     struct Plan {                                                          // prepare(): optional
//       Plan(const Scale& kernel, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {}
//       int64_t count;
//     };
//     void Run(const Plan& plan, sdk::RunContext c) const {
//       const float* x = c.input<float>(0);
//       float* y = c.output<float>(0);
//       c.ParallelFor(plan.count, 0.5, [&](int64_t begin, int64_t end) {
//         for (int64_t i = begin; i < end; ++i) y[i] = factor * x[i];
//       });
//     }
//     float factor;
//   };
//   TENON_KERNEL(kScale) = sdk::Registration<Scale>(
//       "Scale", {.device_type = "CPU", .constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list});
//
// A class with `static void Supports(sdk::KernelQuery& query)` is asked first whether it takes a node:
// query.Fail(TENON_UNIMPLEMENTED, why) leaves it to the next kernel; with `static double Cost(KernelQuery& query)` it
// says the seconds that a run takes, for placing. What on_load of TENON_PLUGIN_WITH made, where the plugin's options
// stand, is c.self<T>() in create, prepare and supports. An element-wise kernel with
// `Tile TileOf(std::span<const uint32_t> input_dtypes, uint32_t output_dtype) const` may be computed a piece at a time,
// with its neighbours in the graph (tenon/ext/draft/tile.h).
//
// A class with RunAsync(RunContext, Done) in place of Run is an asynchronous kernel: it keeps Done and calls it once,
// from any thread; the context's frame lives until then. It may fail with Fail() as long as Done will not be called.
//
// Rules: Fail(code, parts...) ends create, prepare or run with a status; it throws, so it is for failures only. It
// works inside ParallelFor too. Run must not allocate. A class without a constructor from CreateContext has no
// create(); one without Plan has no prepare(), and its Run takes the RunContext alone. A Plan is made for known shapes
// and contiguous tensors, unless the class has a kAnyShapes. Registrations are constants: the host reads
// them before load(). The package (package.h) has every kernel that its files define with TENON_KERNEL.
#ifndef TENON_SDK_KERNEL_KERNEL_H_
#define TENON_SDK_KERNEL_KERNEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/ext/draft/tile.h"
#include "tenon/sdk/list.h"
#include "tenon/sdk/node.h"
#include "tenon/sdk/span.h"

namespace tenon::sdk {

using Dims = std::span<const int64_t>;

inline void AppendPart(std::string& out, Dims part) { AppendPart(out, std::vector<int64_t>(part.begin(), part.end())); }

// ---- Failures ----

// A status on its way out of a kernel; thrown by Fail() and Check(), caught by the thunks.
class KernelError : public std::exception {
 public:
  explicit KernelError(tenon_status* status) noexcept : status_(status) {}
  KernelError(KernelError&& other) noexcept : status_(std::exchange(other.status_, nullptr)) {}
  KernelError(const KernelError&) = delete;
  KernelError& operator=(const KernelError&) = delete;
  ~KernelError() override {
    if (status_ != nullptr) tenon_plugin_host->status_release(status_);
  }
  tenon_status* release() noexcept { return std::exchange(status_, nullptr); }
  const char* what() const noexcept override { return "a kernel failed"; }

 private:
  tenon_status* status_;
};

// Ends the kernel with a status whose message is the parts in a row.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void Fail(uint32_t code, const Parts&... parts) {
  std::string text;
  (AppendPart(text, parts), ...);
  throw KernelError(tenon_plugin_host->status_new(code, ToSpan(text)));
}

// Passes a failure of the host on.
inline void Check(tenon_status* status) {
  if (status != nullptr) [[unlikely]] throw KernelError(status);
}

// The exception in flight as a status, which who gets it releases; call inside a catch block.
inline tenon_status* CurrentFailure() noexcept {
  return Guard([]() -> tenon_status* {
    try {
      throw;
    } catch (KernelError& error) {
      return error.release();
    }
  });
}

// ---- Views ----

// Slowest first; they live as long as the view's own. Of an unknown rank (in prepare() of kAnyShapes) none.
inline Dims DimsOf(const tenon_tensor_view& view) noexcept {
  return {view.dl.shape, static_cast<size_t>(view.dl.ndim < 0 ? 0 : view.dl.ndim)};
}
inline tenon_shape ToShape(Dims dims) noexcept { return {dims.data(), static_cast<int32_t>(dims.size()), 0}; }

// a * b of non-negative numbers; RESOURCE_EXHAUSTED when it does not fit.
inline int64_t Multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) [[unlikely]] {
    Fail(TENON_RESOURCE_EXHAUSTED, "a size overflows 64 bits: ", a, " times ", b);
  }
  return product;
}
// a + b; RESOURCE_EXHAUSTED when it does not fit.
inline int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) [[unlikely]]
    Fail(TENON_RESOURCE_EXHAUSTED, "a size overflows 64 bits: ", a, " plus ", b);
  return sum;
}
// The number of elements of known dims; 1 without dims. RESOURCE_EXHAUSTED when it does not fit.
inline int64_t Count(Dims dims) {
  int64_t total = 1;
  for (int64_t dim : dims) {
    if (dim == 0) return 0;
  }
  for (int64_t dim : dims) total = Multiply(total, dim);
  return total;
}
inline int64_t Count(const tenon_tensor_view& view) { return Count(DimsOf(view)); }

// ---- create() ----

// The node that a kernel is made for. A failure sticks (node.h) and ends create(). What it gives lives as long as the
// constructor runs.
class CreateContext : public NodeContext {
 public:
  explicit CreateContext(const tenon_create_args& args) noexcept
      : NodeContext(args.node_services, args.node, TENON_HAS(&args, self) ? args.self : nullptr), args_(args) {}
  const tenon_create_args& args() const noexcept { return args_; }
  // Whether the node has the attribute: older graphs and smaller definitions may lack it.
  bool Has(std::string_view attr) const {
    tenon_attr_value value{};
    tenon_status* status = services_->attr(node_, ToSpan(attr), &value);
    if (status == nullptr) return true;
    tenon_plugin_host->status_release(status);
    return false;
  }
  // What the driver of the node's device offers under this id; NULL when it does not. Lives as long as the kernel.
  template <class Table>
  const Table* Extension(std::string_view id) const {
    if (!TENON_CALLABLE(args_.services, device_extension)) return nullptr;
    return static_cast<const Table*>(args_.services->device_extension(args_.context, ToSpan(id)));
  }

 private:
  const tenon_create_args& args_;
};

// ---- supports() ----

// The node and its shapes, before a kernel is made for it. Fail(TENON_UNIMPLEMENTED, why) refuses it. Unknown ranks and
// dims are no reason.
class KernelQuery : public NodeContext {
 public:
  explicit KernelQuery(const tenon_kernel_query& query) noexcept
      : NodeContext(query.node_services, query.node, query.self), query_(query) {}
  const tenon_kernel_query& query() const noexcept { return query_; }
  // Shapes, dl.ndim -1 where unknown. index < input_count(), output_count().
  const tenon_tensor_view& input(int32_t index) const noexcept { return *query_.inputs[index]; }
  const tenon_tensor_view& output(int32_t index) const noexcept { return *query_.outputs[index]; }

 private:
  const tenon_kernel_query& query_;
};

// ---- prepare() ----

// Shapes, constant values and the answer of prepare().
class PrepareContext {
 public:
  explicit PrepareContext(tenon_prepare_args& args) noexcept : args_(args) {}
  tenon_prepare_args& args() noexcept { return args_; }
  // What the plugin's on_load made for this runtime.
  template <class Self>
  Self* self() const noexcept {
    return TENON_HAS(&args_, self) ? reinterpret_cast<Self*>(args_.self) : nullptr;
  }
  int32_t input_count() const noexcept { return args_.input_count; }
  int32_t output_count() const noexcept { return args_.output_count; }
  const tenon_tensor_view& input(int32_t index) const { return *args_.inputs[InRange(index, args_.input_count)]; }
  const tenon_tensor_view& output(int32_t index) const { return *args_.outputs[InRange(index, args_.output_count)]; }
  // That a step may use, the caller's included.
  int64_t threads() const noexcept { return args_.threads < 1 ? 1 : args_.threads; }
  // The value of input `index` when it is constant in this plan, else NULL.
  template <class T>
  const T* Constant(int32_t index) const {
    const tenon_tensor_view& view = input(index);
    return view.dl.data == nullptr ? nullptr : Data<const T>(view);
  }
  // Asks for 64-byte aligned memory of every run; gives its offset. May be called several times.
  int64_t Workspace(int64_t bytes) {
    const uint64_t offset = args_.out_workspace_bytes;
    if (bytes < 0 || static_cast<uint64_t>(bytes) > (UINT64_C(1) << 62) - offset) {
      Fail(TENON_RESOURCE_EXHAUSTED, "a workspace of ", bytes, " bytes");
    }
    args_.out_workspace_bytes = (offset + static_cast<uint64_t>(bytes) + 63) / 64 * 64;
    return static_cast<int64_t>(offset);
  }

 private:
  static int32_t InRange(int32_t index, int32_t limit) {
    if (index < 0 || index >= limit) [[unlikely]] {
      Fail(TENON_INVALID_ARGUMENT, "the kernel needs tensor ", index, "; the node has ", limit);
    }
    return index;
  }
  tenon_prepare_args& args_;
};

// ---- run() ----

// Everything of one run. Cheap to copy.
class RunContext {
 public:
  explicit RunContext(tenon_frame* frame) noexcept : frame_(frame) {}
  tenon_frame* frame() const noexcept { return frame_; }
  const tenon_frame_services& services() const noexcept { return *frame_->services; }
  int32_t input_count() const noexcept { return frame_->input_count; }
  int32_t output_count() const noexcept { return frame_->output_count; }
  // Views and elements of inputs and outputs live as long as the run; the index is not checked, nor is T.
  const tenon_tensor_view& input_view(int32_t index) const noexcept { return *frame_->inputs[index]; }
  tenon_tensor_view& output_view(int32_t index) const noexcept { return *frame_->outputs[index]; }
  template <class T>
  const T* input(int32_t index) const noexcept {
    return Data<const T>(*frame_->inputs[index]);
  }
  template <class T>
  T* output(int32_t index) const noexcept {
    return Data<T>(*frame_->outputs[index]);
  }
  // Of this run alone, at an offset that PrepareContext::Workspace gave; uninitialised.
  template <class T>
  T* workspace(int64_t offset = 0) const noexcept {
    return reinterpret_cast<T*>(static_cast<char*>(frame_->workspace) + offset);
  }
  // Output `index`, named in dynamic_outputs, at a shape known only now.
  void AllocOutput(int32_t index, Dims dims, uint64_t extra_bytes = 0) const {
    Check(services().alloc_output(frame_, index, ToShape(dims), extra_bytes));
  }
  // The handle in input `index`, which lives as long as the run.
  tenon_resource* resource(int32_t index) const {
    tenon_resource* handle = nullptr;
    Check(services().input_resource(frame_, index, &handle));
    return handle;
  }
  // What the driver of the kernel's device offers under this id; NULL when it does not. Lives as long as the device.
  template <class Table>
  const Table* Extension(std::string_view id) const noexcept {
    if (!TENON_CALLABLE(frame_->services, device_extension)) return nullptr;
    return static_cast<const Table*>(services().device_extension(frame_, ToSpan(id)));
  }
  bool cancelled() const noexcept { return services().is_cancelled(frame_) != 0; }
  // Fails once the step was given up: its caller cancelled it, its deadline passed, or another of its nodes failed.
  void CheckCancelled() const {
    if (cancelled()) [[unlikely]] Fail(TENON_CANCELLED, "the step was given up");  // the host says why
  }

  // function(begin, end) over [0, total) in shares; cost is rough nanoseconds of one unit. Small work stays here
  // without a call to the host. A share that lasts is done in pieces, between which it asks whether the step was given
  // up; then this fails, and nobody knows which units were done.
  template <class Function>
  void ParallelFor(int64_t total, double cost, Function&& function) const {
    Share(total, cost, function, true);
  }
  // The same for work that must not end half-way, such as the update of a variable, whose value would be lost.
  template <class Function>
  void UninterruptedFor(int64_t total, double cost, Function&& function) const {
    Share(total, cost, function, false);
  }

 private:
  static constexpr double kSerialNanoseconds = 6000;
  // few enough for a deadline, where the cost is a tenth of what it should be
  static constexpr double kPieceNanoseconds = 10e6;

  static uint64_t PieceOf(double cost) noexcept {
    const double piece = kPieceNanoseconds / cost;
    return piece < 1 ? 1 : piece < 1e18 ? static_cast<uint64_t>(piece) : UINT64_MAX;
  }
  template <class Function>
  void Pieces(int64_t begin, int64_t end, uint64_t piece, Function& function) const {
    while (begin < end) {
      const int64_t next = static_cast<uint64_t>(end - begin) > piece ? begin + static_cast<int64_t>(piece) : end;
      function(begin, next);
      begin = next;
      if (begin < end) CheckCancelled();
    }
  }

  template <class Function>
  [[gnu::always_inline]] void Share(int64_t total, double cost, Function& function, bool in_pieces) const {
    if (total <= 0) return;
    if (static_cast<double>(total) * cost < kSerialNanoseconds || total == 1) {
      function(int64_t{0}, total);
      return;
    }
    ShareAmongThreads(total, cost, function, in_pieces);
  }
  template <class Function>
  [[gnu::noinline]] void ShareAmongThreads(int64_t total, double cost, Function& function, bool in_pieces) const {
    struct Closure {
      const RunContext* context;
      Function* function;
      uint64_t piece;
      std::atomic<tenon_status*> failure{nullptr};
    } closure{this, &function, in_pieces ? PieceOf(cost) : UINT64_MAX};
    services().parallel_for(
        frame_, total, cost,
        [](void* argument, int64_t begin, int64_t end) noexcept {
          auto* closure = static_cast<Closure*>(argument);
          try {
            closure->context->Pieces(begin, end, closure->piece, *closure->function);
          } catch (...) {
            tenon_status* status = CurrentFailure();
            tenon_status* expected = nullptr;
            if (!closure->failure.compare_exchange_strong(expected, status)) {
              tenon_plugin_host->status_release(status);
            }
          }
        },
        &closure);
    Check(closure.failure.load());
  }

  tenon_frame* frame_;
};

// For a loop on one thread that may last: fails once the step was given up, for which it asks the host now and then.
class CancelPoll {
 public:
  explicit CancelPoll(RunContext context) noexcept : context_(context) {}
  // work: rough nanoseconds since the last call, at least 1.
  void operator()(int64_t work = 1) {
    left_ -= work;
    if (left_ <= 0) [[unlikely]] Ask();
  }

 private:
  static constexpr int64_t kBetween = 5'000'000;
  [[gnu::noinline]] void Ask() {
    left_ = kBetween;
    context_.CheckCancelled();
  }
  RunContext context_;
  int64_t left_ = kBetween;
};

// How an asynchronous kernel ends: nullptr, or why it failed (taken). Exactly once.
struct Done {
  tenon_done_function function;
  void* argument;
  void operator()(tenon_status* status) const { function(argument, status); }
};

// ---- Registrations ----

// A text as a template argument.
template <size_t kSize>
struct FixedString {
  // NOLINTNEXTLINE(google-explicit-constructor): "T" is how it is written.
  constexpr FixedString(const char (&text)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) data[i] = text[i];
  }
  char data[kSize] = {};
};

// Attribute kAttr is one of the dtypes.
template <FixedString kAttr, uint32_t... kDtypes>
struct Allowed {
  static constexpr uint32_t dtypes[] = {kDtypes...};
  static constexpr tenon_type_constraint value = {
      {kAttr.data, sizeof(kAttr.data) - 1}, dtypes, sizeof...(kDtypes)};
};

template <class... Each>
struct Constraints {
  static constexpr tenon_type_constraint list[] = {Each::value...};
};

// What a registration says beyond its class. All is constant data with static storage. host_memory: names of arguments
// that stay in the host's memory; dynamic_outputs, retained_inputs: bit i is output, input i; of several kernels that
// fit a node the highest priority is prepared first.
struct Traits {
  std::string_view device_type = {};
  std::span<const tenon_type_constraint> constraints = {};
  std::span<const tenon_in_place> in_place = {};
  std::span<const tenon_span> host_memory = {};
  uint32_t flags = TENON_KERNEL_DETERMINISTIC;
  uint64_t dynamic_outputs = 0;
  uint64_t retained_inputs = 0;
  int32_t priority = 0;
  std::string_view label = {};
};

// How an element-wise kernel computes a piece (tenon/ext/draft/tile.h); function nullptr: not with these types.
struct Tile {
  tenon_tile_function function = nullptr;
  const void* argument = nullptr;  // lives as long as the kernel
  double cost = 0;                 // rough nanoseconds of an element
};

namespace internal {

template <class Kernel>
concept HasCreate = std::is_constructible_v<Kernel, CreateContext&>;
template <class Kernel>
concept HasPlan = requires { typename Kernel::Plan; };
template <class Kernel>
concept HasSupports = requires(KernelQuery& query) { Kernel::Supports(query); };
template <class Kernel>
concept HasCost = requires(KernelQuery& query) { Kernel::Cost(query); };
template <class Kernel>
concept HasTile = requires(const Kernel& kernel, std::span<const uint32_t> dtypes) {
  kernel.TileOf(dtypes, uint32_t{});
};
template <class Kernel>
concept HasRunAsync = requires(const Kernel& kernel, RunContext c, Done done) { kernel.RunAsync(c, done); };

template <class Kernel>
struct Thunks {
  static const Kernel& KernelOf(const tenon_kernel* kernel) noexcept {
    if constexpr (HasCreate<Kernel>) {
      return *reinterpret_cast<const Kernel*>(kernel);
    } else {
      static constexpr Kernel stateless{};
      return stateless;
    }
  }
  static tenon_status* create(const tenon_create_args* args, tenon_kernel** out_kernel) noexcept {
    *out_kernel = nullptr;
    try {
      CreateContext context(*args);
      auto kernel = std::make_unique<Kernel>(context);
      if (tenon_status* status = context.Finish()) return status;
      *out_kernel = reinterpret_cast<tenon_kernel*>(kernel.release());
      return nullptr;
    } catch (...) {
      return CurrentFailure();
    }
  }
  static tenon_status* supports(const tenon_kernel_query* query) noexcept {
    try {
      KernelQuery question(*query);
      Kernel::Supports(question);
      return question.Finish();
    } catch (...) {
      return CurrentFailure();
    }
  }
  static tenon_status* cost(const tenon_kernel_query* query, double* out_seconds) noexcept {
    try {
      KernelQuery question(*query);
      *out_seconds = Kernel::Cost(question);
      return question.Finish();
    } catch (...) {
      return CurrentFailure();
    }
  }
  static tenon_status* select(tenon_tile_args* args) noexcept {
    try {
      const Tile tile = KernelOf(args->kernel).TileOf({args->input_dtypes, args->input_count}, args->output_dtype);
      args->out_function = tile.function;
      args->out_argument = tile.argument;
      args->out_cost = tile.cost;
      return nullptr;
    } catch (...) {
      return CurrentFailure();
    }
  }
  static constexpr tenon_tile tile = {TENON_HEAD(tenon_tile), TENON_SPAN(TENON_EXTENSION_TILE), &select};
  static void destroy(tenon_kernel* kernel) noexcept { delete reinterpret_cast<Kernel*>(kernel); }

  static tenon_status* prepare(tenon_kernel* kernel, tenon_prepare_args* args) noexcept {
    args->out_prepared = nullptr;
    args->out_workspace_bytes = 0;
    try {
      if constexpr (!requires { Kernel::kAnyShapes; }) RequirePlain(*args);
      PrepareContext context(*args);
      args->out_prepared =
          reinterpret_cast<tenon_prepared*>(new typename Kernel::Plan(KernelOf(kernel), context));
      return nullptr;
    } catch (...) {
      return CurrentFailure();
    }
  }
  static void destroy_prepared(tenon_prepared* prepared) noexcept {
    delete reinterpret_cast<typename Kernel::Plan*>(prepared);
  }

  static tenon_status* run(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) noexcept {
    try {
      if constexpr (HasPlan<Kernel>) {
        KernelOf(kernel).Run(*reinterpret_cast<const typename Kernel::Plan*>(prepared), RunContext(frame));
      } else {
        KernelOf(kernel).Run(RunContext(frame));
      }
      return nullptr;
    } catch (...) {
      return CurrentFailure();
    }
  }

  static tenon_status* run_async(tenon_kernel* kernel, const tenon_prepared*, tenon_frame* frame,
                                 tenon_done_function done, void* argument) noexcept {
    try {
      KernelOf(kernel).RunAsync(RunContext(frame), Done{done, argument});
      return nullptr;
    } catch (...) {
      return CurrentFailure();
    }
  }

 private:
  static void RequirePlain(const tenon_prepare_args& args) {
    for (int32_t i = 0; i < args.input_count; ++i) {
      if (args.inputs[i]->dl.ndim < 0) {
        Fail(TENON_UNIMPLEMENTED, "the shape of input ", i, " is unknown; this kernel prepares for known shapes only");
      }
      if (args.inputs[i]->dl.strides != nullptr) {
        Fail(TENON_UNIMPLEMENTED, "input ", i, " has strides; this kernel reads contiguous tensors only");
      }
    }
  }
};

}  // namespace internal

// The registration of Kernel for `op`; a constant.
template <class Kernel>
constexpr tenon_kernel_registration Registration(std::string_view op, const Traits& traits) {
  using Thunks = internal::Thunks<Kernel>;
  tenon_kernel_registration result = {};
  result.struct_size = sizeof(tenon_kernel_registration);
  result.op = ToSpan(op);
  result.device_type = ToSpan(traits.device_type);
  result.label = ToSpan(traits.label);
  result.priority = traits.priority;
  result.traits = traits.flags;
  result.constraints = traits.constraints.data();
  result.constraint_count = traits.constraints.size();
  result.host_memory_args = traits.host_memory.data();
  result.host_memory_count = traits.host_memory.size();
  result.in_place = traits.in_place.data();
  result.in_place_count = traits.in_place.size();
  result.dynamic_outputs = traits.dynamic_outputs;
  result.retained_inputs = traits.retained_inputs;
  if constexpr (internal::HasCreate<Kernel>) {
    result.create = Thunks::create;
    result.destroy = Thunks::destroy;
  }
  if constexpr (internal::HasPlan<Kernel>) {
    result.prepare = Thunks::prepare;
    result.destroy_prepared = Thunks::destroy_prepared;
  }
  if constexpr (internal::HasSupports<Kernel>) result.supports = Thunks::supports;
  if constexpr (internal::HasCost<Kernel>) result.cost = Thunks::cost;
  if constexpr (internal::HasTile<Kernel>) result.tile = &Thunks::tile;
  if constexpr (internal::HasRunAsync<Kernel>) {
    result.traits |= TENON_KERNEL_ASYNC;
    result.run_async = Thunks::run_async;
  } else {
    result.run = Thunks::run;
  }
  return result;
}

}  // namespace tenon::sdk

// Defines a kernel of the package under this name, which other files may declare extern; TENON_KERNEL_OF: in a list by
// another name.
#define TENON_KERNEL(name) TENON_KERNEL_OF(tenon_kernels, name)
#define TENON_KERNEL_OF(list, name)                   \
  TENON_ENTRY(list, tenon_kernel_registration, name); \
  constinit const tenon_kernel_registration name

#endif  // TENON_SDK_KERNEL_KERNEL_H_

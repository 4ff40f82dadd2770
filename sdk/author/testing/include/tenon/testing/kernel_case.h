// SPDX-License-Identifier: Apache-2.0
// Runs a kernel from its registration without an engine: create, prepare, run, on given tensors.
//
//   // of a library that was opened (library.h), or linked in (linked.h)
//   KernelCase square(package, "Square", TENON_DT_FLOAT);
//   const Result r = square.Attr("T", Type{TENON_DT_FLOAT}).Run({Make<float>({2}, {1, 3})}, {Out<float>({2})});
//   EXPECT_EQ(r.text(), "");
//   EXPECT_EQ(Values<float>(r[0]), (std::vector<float>{1, 9}));
//
// Every output, workspace and new value of a variable is followed by guard bytes: a run that writes there ends with
// INTERNAL. As in the engine, there is nothing of an output that the kernel makes itself (dynamic_outputs) until it
// does, and one that it does not make fails the run. One thread at a time; kernels that end later (TENON_KERNEL_ASYNC)
// may end on any.
#ifndef TENON_TESTING_KERNEL_CASE_H_
#define TENON_TESTING_KERNEL_CASE_H_

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tenon/testing/frame.h"

namespace tenon::testing {

// How a run ended, and what it gave.
struct Result : Outcome {
  Result() = default;
  explicit Result(Outcome outcome) : Outcome(std::move(outcome)) {}
  const Tensor& operator[](size_t i) const { return outputs.at(i); }
  std::vector<Tensor> outputs = {};
};

namespace internal {

inline bool Allows(const tenon_type_constraint& constraint, uint32_t dtype) {
  const uint32_t* const end = constraint.dtypes + constraint.count;
  return std::find(constraint.dtypes, end, dtype) != end;
}

inline std::ptrdiff_t CountAllowing(const tenon_kernel_registration& kernel, uint32_t dtype) {
  return std::count_if(kernel.constraints, kernel.constraints + kernel.constraint_count,
                       [&](const tenon_type_constraint& c) { return Allows(c, dtype); });
}

// Of the registrations of `op` that fit, the first of the highest score. A package's own order says nothing.
template <class Fits, class Score>
const tenon_kernel_registration* BestKernel(const tenon_kernel_package& package, std::string_view op, Fits&& fits,
                                            Score&& score) {
  const tenon_kernel_registration* best = nullptr;
  std::ptrdiff_t most = 0;
  for (uint64_t i = 0; i < package.count; ++i) {
    const tenon_kernel_registration& r = *package.registrations[i];
    if (View(r.op) != op || !fits(r)) continue;
    if (const std::ptrdiff_t own = score(r); best == nullptr || own > most) best = &r, most = own;
  }
  return best;
}

// The higher priority, as the engine has it; then types of indices and sizes are int32 where nobody says it.
inline std::ptrdiff_t Preference(const tenon_kernel_registration& kernel) {
  constexpr std::ptrdiff_t kMoreThanConstraints = 4096;
  return kernel.priority * kMoreThanConstraints + CountAllowing(kernel, TENON_DT_INT32);
}

}  // namespace internal

// A registration of the node's op whose type constraints hold for the attributes that the node has; nullptr: none.
inline const tenon_kernel_registration* FindKernel(const tenon_kernel_package& package, const Node& node) {
  const auto fits = [&](const tenon_type_constraint& constraint) {
    const auto found = node.attributes.find(View(constraint.attr));
    const auto* type = found == node.attributes.end() ? nullptr : std::get_if<Type>(&found->second);
    return type == nullptr || internal::Allows(constraint, type->dtype);
  };
  const auto all_fit = [&](const tenon_kernel_registration& r) {
    return std::all_of(r.constraints, r.constraints + r.constraint_count, fits);
  };
  return internal::BestKernel(package, node.op, all_fit, &internal::Preference);
}
// One of `op` of which some constraint allows dtype, all if there is such a one (TENON_DT_INVALID: any; float's if it
// has one).
inline const tenon_kernel_registration* FindKernel(const tenon_kernel_package& package, std::string_view op,
                                                   uint32_t dtype) {
  const bool any = dtype == TENON_DT_INVALID;
  const auto fits = [&](const tenon_kernel_registration& r) {
    return any || r.constraint_count == 0 || internal::CountAllowing(r, dtype) > 0;
  };
  const auto score = [&](const tenon_kernel_registration& r) {
    constexpr std::ptrdiff_t kMoreThanConstraints = 1024;
    const bool all = !any && internal::CountAllowing(r, dtype) == static_cast<std::ptrdiff_t>(r.constraint_count);
    return (all || (any && internal::CountAllowing(r, TENON_DT_FLOAT) > 0) ? kMoreThanConstraints : 0) +
           internal::Preference(r);
  };
  return internal::BestKernel(package, op, fits, score);
}

// What a plugin keeps of a node.
class KernelObject {
 public:
  KernelObject() = default;
  // The node may end before the object.
  KernelObject(const tenon_kernel_registration& kernel, const Node& node, Step& step, tenon_device* device = nullptr)
      : destroy_(kernel.destroy) {
    if (kernel.create == nullptr) return;
    tenon_create_context context = {&step};
    const tenon_create_args args = {
        TENON_HEAD(tenon_create_args), NodeServices(), &node, CreateServices(), &context, device, step.self};
    made_ = kernel.create(&args, &object_);
  }
  KernelObject(KernelObject&& other) noexcept
      : made_(std::move(other.made_)), object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  ~KernelObject() {
    if (object_ != nullptr && destroy_ != nullptr) destroy_(object_);
  }
  const Outcome& made() const { return made_; }
  tenon_kernel* get() const { return object_; }

 private:
  Outcome made_;
  tenon_kernel* object_ = nullptr;
  void (*destroy_)(tenon_kernel*) = nullptr;
};

// What a run is told beyond its tensors.
struct RunOptions {
  uint32_t threads = 1;
  uint32_t precision = TENON_PRECISION_STRICT;
  std::vector<int> constants = {};  // inputs whose values prepare() knows
  int in_place = -1;                // the input whose memory output 0 has; -1: none
  bool cancelled = false;           // before it runs
  Place place = {};
  std::vector<int> host_outputs = {};  // outputs that lie in the host's memory, whatever the place
};

// One run of a kernel. The object and what the inputs show live longer than it.
class Call {
 public:
  Call(const tenon_kernel_registration& kernel, const KernelObject& object, const Node& node, Step& step,
       std::vector<tenon_tensor_view> inputs, std::vector<tenon_tensor_view> outputs, RunOptions options = {})
      : kernel_(kernel),
        object_(object),
        node_(node),
        options_(std::move(options)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {
    context_.node = &node_;
    context_.step = &step;
    context_.place = options_.place;
    context_.cancelled = options_.cancelled;
    context_.may_work = kernel_.run == nullptr || HasState();
    context_.on_host.resize(outputs_.size(), options_.place.device == nullptr);
    for (int index : options_.host_outputs) context_.on_host[static_cast<size_t>(index)] = 1;
    Outcome ready = object.made();
    if (ready.ok()) ready = Prepare();
    Fill();
    if (ready.ok()) Run();
    else End(std::move(ready));
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (prepared_ != nullptr && kernel_.destroy_prepared != nullptr) kernel_.destroy_prepared(prepared_);
    Release(workspace_);
  }

  bool done() const { return ends_ > 0; }
  // How often it has ended, which is once.
  int ends() const { return ends_; }
  const Outcome& outcome() const { return outcome_; }
  const std::vector<tenon_tensor_view>& output_views() const { return outputs_; }
  // Of a call that is done and whose outputs are host memory; they share the buffers.
  std::vector<Tensor> outputs() const {
    std::vector<Tensor> tensors;
    for (const tenon_tensor_view& view : outputs_) {
      if (view.buffer != nullptr) tensors.push_back(Tensor::Sharing(view));
      else tensors.emplace_back();
    }
    return tensors;
  }
  // As the step's cancellation would. What the kernel has asked for (works.h) comes before this returns.
  void Cancel(uint32_t code = TENON_CANCELLED) {
    context_.cancelled = true;
    if (const tenon_done_function told = context_.on_cancel)
      told(context_.on_cancel_argument, NewStatus(code, "the step was cancelled"));
    tenon_work* work = nullptr;
    {
      const std::lock_guard lock(context_.work_mutex);
      work = context_.work;
    }
    if (work != nullptr) context_.step->works->Cancel(work);
  }
  // Whether nothing was written behind an output, the workspace or a variable's new value.
  bool intact() const {
    const auto whole = [](const tenon_buffer* buffer) { return buffer == nullptr || Intact(*buffer); };
    return !context_.broken_guard && whole(workspace_) &&
           std::all_of(outputs_.begin(), outputs_.end(), [&](const auto& view) { return whole(view.buffer); }) &&
           std::all_of(context_.kept.begin(), context_.kept.end(), whole);
  }

 private:
  bool HasState() const {
    const auto is_handle = [](const tenon_tensor_view& view) {
      return view.dtype == TENON_DT_RESOURCE || view.dtype >= TENON_DT_REF;
    };
    return (kernel_.traits & TENON_KERNEL_STATEFUL) != 0 || std::any_of(inputs_.begin(), inputs_.end(), is_handle) ||
           std::any_of(outputs_.begin(), outputs_.end(), is_handle);
  }
  bool Dynamic(size_t i) const { return (kernel_.dynamic_outputs >> std::min<size_t>(i, 63) & 1) != 0; }

  Outcome Prepare() {
    tenon_prepare_args args = {};
    args.struct_size = sizeof args;
    std::vector<tenon_tensor_view> views = inputs_;
    views.insert(views.end(), outputs_.begin(), outputs_.end());
    for (size_t i = 0; i < views.size(); ++i) {
      if (std::find(options_.constants.begin(), options_.constants.end(), static_cast<int>(i)) ==
          options_.constants.end())
        views[i].dl.data = nullptr;
    }
    std::vector<const tenon_tensor_view*> planned;
    for (const tenon_tensor_view& view : views) planned.push_back(&view);
    args.inputs = planned.data();
    args.outputs = planned.data() + inputs_.size();
    args.input_count = static_cast<int32_t>(inputs_.size());
    args.output_count = static_cast<int32_t>(outputs_.size());
    args.precision = options_.precision;
    args.threads = options_.threads;
    args.device = options_.place.device;
    args.self = context_.step->self;
    if (kernel_.prepare == nullptr) return {};
    Outcome outcome = kernel_.prepare(object_.get(), &args);
    prepared_ = args.out_prepared;
    if (outcome.ok()) workspace_ = options_.place.allocate(args.out_workspace_bytes, {});
    return outcome;
  }

  void Fill() {
    for (const tenon_tensor_view& view : inputs_) input_pointers_.push_back(&view);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (Dynamic(i)) outputs_[i] = {};
      output_pointers_.push_back(&outputs_[i]);
    }
    if (options_.in_place >= 0) {
      tenon_tensor_view& input = inputs_[static_cast<size_t>(options_.in_place)];
      input.dl.data = outputs_[0].dl.data;
      input.buffer = outputs_[0].buffer;
    }
    frame_.struct_size = sizeof frame_;
    frame_.inputs = input_pointers_.data();
    frame_.outputs = output_pointers_.data();
    frame_.input_count = static_cast<int32_t>(inputs_.size());
    frame_.output_count = static_cast<int32_t>(outputs_.size());
    frame_.workspace = workspace_ == nullptr ? nullptr : workspace_->data;
    frame_.workspace_bytes = workspace_ == nullptr ? 0 : workspace_->bytes;
    frame_.device = options_.place.device;
    frame_.queue = options_.place.queue;
    frame_.timeline = options_.place.timeline;
    frame_.label = Span(node_.name);
    frame_.services = FrameServices();
    frame_.context = &context_;
  }

  void Run() {
    if (kernel_.run != nullptr) return End(kernel_.run(object_.get(), prepared_, &frame_));
    const auto done = [](void* self, tenon_status* status) { static_cast<Call*>(self)->End(status); };
    if (tenon_status* refused = kernel_.run_async(object_.get(), prepared_, &frame_, done, this)) End(refused);
  }
  void End(Outcome outcome) {
    outcome_ = std::move(outcome);
    for (size_t i = 0; outcome_.ok() && i < outputs_.size(); ++i) {
      if (Dynamic(i) && outputs_[i].dl.data == nullptr)
        outcome_ = NewStatus(TENON_INTERNAL, "the kernel has not made output " + std::to_string(i));
    }
    if (!intact())
      outcome_ = NewStatus(TENON_INTERNAL, node_.op + " wrote behind its output, its workspace or a variable");
    if (const size_t left = context_.EndWork(); left > 0) {
      outcome_ = NewStatus(TENON_INTERNAL, node_.op + " was done while " + std::to_string(left) +
                                               " things that it had scheduled were still to come");
    }
    ++ends_;
  }

  const tenon_kernel_registration& kernel_;
  const KernelObject& object_;
  const Node node_;
  const RunOptions options_;
  std::vector<tenon_tensor_view> inputs_, outputs_;
  std::vector<const tenon_tensor_view*> input_pointers_;
  std::vector<tenon_tensor_view*> output_pointers_;
  tenon_prepared* prepared_ = nullptr;
  tenon_buffer* workspace_ = nullptr;
  tenon_frame_context context_;
  tenon_frame frame_ = {};
  std::atomic<int> ends_{0};
  Outcome outcome_;
};

// A kernel and what it is to be asked, on the host.
class KernelCase {
 public:
  // The first registration of `op` that is for dtype; without a dtype the first one.
  KernelCase(const tenon_kernel_package& package, std::string op, uint32_t dtype = TENON_DT_INVALID)
      : package_(&package), dtype_(dtype) {
    node_.op = std::move(op);
  }

  KernelCase& Attr(const std::string& name, Attribute value) {
    node_.attributes[name] = std::move(value);
    return *this;
  }
  KernelCase& Threads(uint32_t threads) {
    options_.threads = threads;
    return *this;
  }
  // prepare() knows this input's value.
  KernelCase& Constant(int input) {
    options_.constants.push_back(input);
    return *this;
  }
  // Output 0 has this input's memory.
  KernelCase& InPlace(int input) {
    options_.in_place = input;
    return *this;
  }
  // The step is cancelled before the kernel runs.
  KernelCase& GivenUp() {
    options_.cancelled = true;
    return *this;
  }
  // What kernels are told that ask whether their step was given up; from any thread.
  KernelCase& GivenUpWhen(std::function<bool()> asked) {
    step_->is_cancelled = std::move(asked);
    return *this;
  }
  // The plugin's instance: Loaded::self of the library that the package is of.
  KernelCase& Self(tenon_plugin_self* self) {
    step_->self = self;
    return *this;
  }
  // The registrations of another package.
  KernelCase& From(const tenon_kernel_package& package) {
    package_ = &package;
    return *this;
  }
  // What runs leave to be called later.
  Works& works() const { return *step_->works; }

  // outputs: what the op's shape function would say. Every run is one of the same kernel object. What it asks to be
  // called for later is called until it is done.
  Result Run(std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
    const tenon_kernel_registration* const kernel = FindKernel(*package_, node_.op, dtype_);
    if (kernel == nullptr) return Result(NewStatus(TENON_NOT_FOUND, "no kernel of " + node_.op));
    if (options_.in_place >= 0) outputs[0].bytes = inputs[static_cast<size_t>(options_.in_place)].bytes;
    std::vector<tenon_tensor_view> in, out;
    node_.input_types.clear();
    node_.output_types.clear();
    for (const Tensor& input : inputs) in.push_back(input.view()), node_.input_types.push_back(input.dtype);
    for (const Tensor& output : outputs) out.push_back(output.view()), node_.output_types.push_back(output.dtype);
    if (object_ == nullptr) object_ = std::make_unique<KernelObject>(*kernel, node_, *step_);
    const Call call(*kernel, *object_, node_, *step_, in, out, options_);
    if (!step_->works->RunUntil([&] { return call.done(); })) {
      return Result(
          NewStatus(TENON_INTERNAL, node_.op + " has not called done, and nothing that it has asked for is to come"));
    }
    Result result(call.outcome());
    if (call.outcome().ok()) result.outputs = call.outputs();
    return result;
  }

 private:
  const tenon_kernel_package* package_;
  uint32_t dtype_;
  Node node_;
  RunOptions options_;
  std::unique_ptr<Step> step_ = std::make_unique<Step>();
  std::unique_ptr<KernelObject> object_;
};

// A call with all that it needs, which may end later; the step lives longer, as do the inputs.
class PendingCall {
 public:
  // Outputs that the kernel does not make itself are scalars.
  PendingCall(const tenon_kernel_registration& kernel, const Node& node, const std::vector<const Tensor*>& inputs,
              Step& step)
      : object_(kernel, node, step),
        outputs_(OutputsOf(node)),
        call_(kernel, object_, node, step, ViewsOf(inputs), ViewsOf(outputs_)) {}
  bool done() const { return call_.done(); }
  int ends() const { return call_.ends(); }
  const Outcome& outcome() const { return call_.outcome(); }
  std::vector<Tensor> outputs() const { return call_.outputs(); }
  void Cancel(uint32_t code = TENON_CANCELLED) { call_.Cancel(code); }

 private:
  static std::vector<Tensor> OutputsOf(const Node& node) {
    std::vector<Tensor> outputs;
    for (uint32_t dtype : node.output_types) outputs.emplace_back(dtype, Dimensions{});
    return outputs;
  }
  static std::vector<tenon_tensor_view> ViewsOf(const std::vector<const Tensor*>& tensors) {
    std::vector<tenon_tensor_view> views;
    for (const Tensor* tensor : tensors) views.push_back(tensor->view());
    return views;
  }
  static std::vector<tenon_tensor_view> ViewsOf(const std::vector<Tensor>& tensors) {
    std::vector<tenon_tensor_view> views;
    for (const Tensor& tensor : tensors) views.push_back(tensor.view());
    return views;
  }

  const KernelObject object_;
  const std::vector<Tensor> outputs_;
  Call call_;
};

// Runs the kernels of one step one after the other, each with a kernel object of its own.
struct KernelRunner : Step {
  // A kernel that ends at once, or by what it asks to be called for later.
  Outcome Run(const tenon_kernel_registration& kernel, const Node& node, const std::vector<const Tensor*>& inputs) {
    const PendingCall call(kernel, node, inputs, *this);
    (void)works->RunUntil([&] { return call.done(); });
    outputs = call.outputs();
    return call.outcome();
  }
  // One that may end later; it and the inputs live no longer than this.
  std::unique_ptr<PendingCall> Start(const tenon_kernel_registration& kernel, const Node& node,
                                     const std::vector<const Tensor*>& inputs) {
    return std::make_unique<PendingCall>(kernel, node, inputs, *this);
  }

  std::vector<Tensor> outputs = {};  // of the last kernel that was run
};

}  // namespace tenon::testing

#endif  // TENON_TESTING_KERNEL_CASE_H_

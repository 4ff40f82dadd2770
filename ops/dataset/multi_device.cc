// SPDX-License-Identifier: Apache-2.0
// MultiDeviceIterator: iterators from which several devices take in turn. An element comes in the host's memory; it goes to a device as any other tensor does.
#include <map>

#include "op.h"
#include "shards.h"
#include "tenon/sdk/kernel/resource.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kHandle = TENON_SPAN("multi_device_iterator");
constexpr tenon_span kObjectType = TENON_SPAN("tenon.MultiDeviceIterator/1");
constexpr tenon_span kTableType = TENON_SPAN("tenon.MultiDeviceIteratorHandles/1");

// What a node says that it gives, and to how many.
struct Spec {
  Spec(CreateContext& c, bool devices) : types(c.Types("output_types")), shapes(c.Shapes("output_shapes")), shards(devices ? c.Strings("devices").size() : 0) {
    if (c.ok() && types.size() != shapes.size()) c.Invalid(c.op(), " has ", types.size(), " output_types and ", shapes.size(), " output_shapes");
  }
  std::vector<uint32_t> types;
  std::vector<Shape> shapes;
  size_t shards;
};

// The resource's object.
class MultiDevice {
 public:
  explicit MultiDevice(Spec spec) : spec_(std::move(spec)) {}
  ~MultiDevice() { End(); }
  const Spec& spec() const { return spec_; }
  // The pass of this incarnation. INVALID_ARGUMENT, thrown: it is another one's turn.
  std::shared_ptr<Shards> Of(int64_t incarnation) const {
    const std::lock_guard lock(mutex_);
    if (pass_ == nullptr) Fail(TENON_FAILED_PRECONDITION, "the multi device iterator has no dataset: run MultiDeviceIteratorInit first");
    if (incarnation != pass_->incarnation()) Fail(TENON_INVALID_ARGUMENT, "Invalid incarnation id. Provided: ", incarnation, "; Expected: ", pass_->incarnation());
    return pass_;
  }
  // Begins a pass, which takes the place of the one before; its incarnation.
  int64_t Begin(const RunContext& c, const DatasetPtr& dataset, int64_t most) {
    std::shared_ptr<Shards> pass;
    int64_t incarnation = 0;
    {
      const std::lock_guard lock(mutex_);
      incarnation = incarnation_ + 1;
      pass = std::make_shared<Shards>(c, dataset, spec_.shards, most, incarnation);
      incarnation_ = incarnation;
      pass_.swap(pass);
    }
    if (pass != nullptr) pass->Leave();
    return incarnation;
  }
  // Who waits in the pass does not any more.
  void End() {
    std::shared_ptr<Shards> pass;
    {
      const std::lock_guard lock(mutex_);
      pass_.swap(pass);
    }
    if (pass != nullptr) pass->Leave();
  }

 private:
  const Spec spec_;
  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<Shards> pass_;
  int64_t incarnation_ = 0;
};

// Those of a session that have names, by what MultiDeviceIteratorToStringHandle gives.
struct Handles {
  std::mutex mutex;
  std::map<std::string, tenon_resource*, std::less<>> by_name;
};
tenon_resource* TableOf(CreateContext& c) {
  tenon_resource* handle = nullptr;
  c.Check(c.args().services->resource_handle(c.args().context, TENON_SPAN(""), TENON_SPAN("tenon multi device iterator handles"), TENON_SPAN("multi_device_iterator_handles"), 0, &handle));
  return handle;
}
Handles& TableIn(const RunContext& c, tenon_resource* handle) {
  return ObjectOf<Handles>(c, handle, kTableType, [] { return std::make_unique<Handles>(); });
}
MultiDevice& MultiDeviceIn(const RunContext& c, int32_t input) { return ObjectOf<MultiDevice>(c, c.resource(input), kObjectType); }

struct Named {
  explicit Named(CreateContext& c) : spec(c, true), table(TableOf(c)) {
    const std::string container(c.String("container"));
    std::string own(c.String("shared_name"));
    if (own.empty()) own = std::string(c.name());
    name = Concat("multi device iterator:", container.size(), ":", container, own);
    if (c.ok()) c.Check(c.args().services->resource_handle(c.args().context, ToSpan(container), ToSpan(own), kHandle, 0, &handle));
  }
  void Run(RunContext c) const {
    const MultiDevice& object = ObjectOf<MultiDevice>(c, handle, kObjectType, [this] { return std::make_unique<MultiDevice>(spec); });
    if (object.spec().types != spec.types || object.spec().shards != spec.shards)
      Fail(TENON_INVALID_ARGUMENT, "the shared iterator '", name, "' exists with other output_types or devices; give this one another shared_name");
    {
      Handles& handles = TableIn(c, table);
      const std::lock_guard lock(handles.mutex);
      handles.by_name.emplace(name, handle);
    }
    *c.output<tenon_resource*>(0) = handle;
  }
  Spec spec;
  tenon_resource* table = nullptr;
  tenon_resource* handle = nullptr;
  std::string name;
};

// One that nobody else can name: it ends with the step.
template <bool kDeleter>
struct Anonymous {
  explicit Anonymous(CreateContext& c) : spec(c, true) {}
  void Run(RunContext c) const {
    tenon_resource* handle = nullptr;
    Check(c.services().step_resource(c.frame(), kHandle, &handle));
    ObjectOf<MultiDevice>(c, handle, kObjectType, [this] { return std::make_unique<MultiDevice>(spec); });
    *c.output<tenon_resource*>(0) = handle;
    if constexpr (kDeleter) c.AllocOutput(1, {});
  }
  Spec spec;
};

struct Init {
  void Run(RunContext c) const {
    MultiDevice& iterator = MultiDeviceIn(c, 1);
    const DatasetPtr dataset = DatasetOf(c, 0);
    if (dataset->types() != iterator.spec().types) Fail(TENON_INVALID_ARGUMENT, "the components of ", dataset->who(), " are of other types than the multi device iterator's");
    const int64_t most = IntOf(c, 2);
    if (most < 0) Fail(TENON_INVALID_ARGUMENT, "max_buffer_size is ", most, "; a shard's buffer holds 0 elements or more");
    *c.output<int64_t>(0) = iterator.Begin(c, dataset, most);
  }
};

struct GetNextFromShard {
  explicit GetNextFromShard(CreateContext& c) : spec(c, false) {}
  void RunAsync(RunContext c, Done done) const {
    MultiDeviceIn(c, 0).Of(IntOf(c, 2))->Ask(c, done, *c.input<int32_t>(1), [this](const RunContext& asker, const Element* element) {
      if (element == nullptr) Fail(TENON_OUT_OF_RANGE, "End of sequence");
      if (element->size() != spec.types.size()) Fail(TENON_INVALID_ARGUMENT, "the iterator gives ", element->size(), " components, ", spec.types.size(), " are asked for");
      for (size_t i = 0; i < spec.types.size(); ++i) {
        const tenon_tensor_view view = (*element)[i].view();
        if (view.dtype != spec.types[i] || !Fits(ShapeOf(view), spec.shapes[i]))
          Fail(TENON_INVALID_ARGUMENT, "component ", i, " of the iterator is ", TypeName(view.dtype), " ", ShapeOf(view), "; ", TypeName(spec.types[i]), " ", spec.shapes[i], " is asked for");
        Check(asker.services().set_output(asker.frame(), static_cast<int32_t>(i), &view));
      }
    });
  }
  Spec spec;
};

struct Delete {
  void Run(RunContext c) const {
    MultiDeviceIn(c, 0).End();
    Check(c.services().resource_destroy(c.frame(), c.resource(0)));
  }
};

struct ToStringHandle {
  explicit ToStringHandle(CreateContext& c) : table(TableOf(c)) {}
  void Run(RunContext c) const {
    const tenon_resource* wanted = c.resource(0);
    Handles& handles = TableIn(c, table);
    std::string name;
    {
      const std::lock_guard lock(handles.mutex);
      for (const auto& [text, handle] : handles.by_name)
        if (handle == wanted) name = text;
    }
    if (name.empty()) Fail(TENON_UNIMPLEMENTED, "an anonymous multi device iterator has no string handle; make it by MultiDeviceIterator");
    SetStrings(c, 0, {}, std::vector<std::string>{name});
  }
  tenon_resource* table;
};

struct FromStringHandle {
  explicit FromStringHandle(CreateContext& c) : table(TableOf(c)), types(c.Types("output_types")) {}
  void Run(RunContext c) const {
    const std::string_view name = StringAt(c.input_view(0), 0);
    Handles& handles = TableIn(c, table);
    tenon_resource* handle = nullptr;
    {
      const std::lock_guard lock(handles.mutex);
      if (const auto at = handles.by_name.find(name); at != handles.by_name.end()) handle = at->second;
    }
    if (handle == nullptr) Fail(TENON_INVALID_ARGUMENT, "'", name, "' is the handle of no multi device iterator of this session");
    const auto& iterator = ObjectOf<MultiDevice>(c, handle, kObjectType);
    if (!types.empty() && iterator.spec().types != types) Fail(TENON_INVALID_ARGUMENT, "the multi device iterator '", name, "' has other types than output_types");
    *c.output<tenon_resource*>(0) = handle;
  }
  tenon_resource* table;
  std::vector<uint32_t> types;
};

}  // namespace

TENON_KERNEL(kMultiDeviceIteratorKernel) = Registration<Named>("MultiDeviceIterator", {});
TENON_KERNEL(kAnonymousMultiDeviceIteratorKernel) = Registration<Anonymous<true>>("AnonymousMultiDeviceIterator", {.dynamic_outputs = 2});
TENON_KERNEL(kAnonymousMultiDeviceIteratorV3Kernel) = Registration<Anonymous<false>>("AnonymousMultiDeviceIteratorV3", {});
TENON_KERNEL(kMultiDeviceIteratorInitKernel) = Registration<Init>("MultiDeviceIteratorInit", {.flags = 0});
TENON_KERNEL(kMultiDeviceIteratorGetNextFromShardKernel) =
    Registration<GetNextFromShard>("MultiDeviceIteratorGetNextFromShard", {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_KERNEL(kMultiDeviceIteratorToStringHandleKernel) = Registration<ToStringHandle>("MultiDeviceIteratorToStringHandle", {.dynamic_outputs = 1});
TENON_KERNEL(kMultiDeviceIteratorFromStringHandleKernel) = Registration<FromStringHandle>("MultiDeviceIteratorFromStringHandle", {});
TENON_KERNEL(kDeleteMultiDeviceIteratorKernel) = Registration<Delete>("DeleteMultiDeviceIterator", {.flags = 0});

constexpr uint64_t kTraits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT;
static constexpr std::string_view kAnonymousDoc = "An iterator for several devices that only those have whom the step gives it to, and that ends with the step.";

TENON_OP(kMultiDeviceIterator) = DefineOp({
    .name = "MultiDeviceIterator",
    .outputs = "handle: resource",
    .attrs = "devices: list(string) >= 1; shared_name: string; container: string; " TENON_DATASET_TYPES,
    .doc = "An iterator from which several devices take in turn, by its name.",
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kAnonymousMultiDeviceIterator) = DefineOp({
    .name = "AnonymousMultiDeviceIterator",
    .outputs = "handle: resource, deleter: variant",
    .attrs = "devices: list(string) >= 1; " TENON_DATASET_TYPES,
    .doc = kAnonymousDoc,
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kAnonymousMultiDeviceIteratorV3) = DefineOp({
    .name = "AnonymousMultiDeviceIteratorV3",
    .outputs = "handle: resource",
    .attrs = "devices: list(string) >= 1; " TENON_DATASET_TYPES,
    .doc = kAnonymousDoc,
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kMultiDeviceIteratorInit) = DefineOp({
    .name = "MultiDeviceIteratorInit",
    .inputs = "dataset: variant, multi_device_iterator: resource, max_buffer_size: int64",
    .outputs = "incarnation_id: int64",
    .constraints = "rank(max_buffer_size) == 0",
    .doc = "Begins a pass over the dataset, in place of the one before: its number. Each device's elements wait in a buffer of up to max_buffer_size.",
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kMultiDeviceIteratorGetNextFromShard) = DefineOp({
    .name = "MultiDeviceIteratorGetNextFromShard",
    .inputs = "multi_device_iterator: resource, shard_num: int32, incarnation_id: int64",
    .outputs = "components: output_types",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(shard_num) == 0; rank(incarnation_id) == 0",
    .doc = "The next element of a device, which is the shard_num-th in each round, of this pass. OUT_OF_RANGE at the end.",
    .traits = kTraits,
    .shape = ShapeFunction<ElementShapes>,
});

TENON_OP(kMultiDeviceIteratorToStringHandle) = DefineOp({
    .name = "MultiDeviceIteratorToStringHandle",
    .inputs = "multi_device_iterator: resource",
    .outputs = "string_handle: string",
    .doc = "A string that stands for the iterator, which has a name, in this session.",
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kMultiDeviceIteratorFromStringHandle) = DefineOp({
    .name = "MultiDeviceIteratorFromStringHandle",
    .inputs = "string_handle: string",
    .outputs = "multi_device_iterator: resource",
    .attrs = "output_types: list(type) = []; output_shapes: list(shape) = []",
    .constraints = "rank(string_handle) == 0",
    .doc = "The iterator of this session that MultiDeviceIteratorToStringHandle gave this string for.",
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kDeleteMultiDeviceIterator) = DefineOp({
    .name = "DeleteMultiDeviceIterator",
    .inputs = "multi_device_iterator: resource, iterators: N * resource, deleter: variant",
    .attrs = "N: int >= 0",
    .doc = "Ends an iterator for several devices, when those that take from it (iterators) have been made.",
    .traits = kTraits,
});

}  // namespace tenon::ops

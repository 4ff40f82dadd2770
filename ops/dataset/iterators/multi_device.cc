// SPDX-License-Identifier: Apache-2.0
// MultiDeviceIterator: iterators from which several devices take in turn. An element comes in the host's memory; it
// goes to a device as any other tensor does.
#include "base/element_spec.h"
#include "base/op.h"
#include "iterators/named_iterators.h"
#include "iterators/shards.h"
#include "tenon/sdk/kernel/resource.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr NamedKind kIteratorsKind = {.handle_type = TENON_SPAN("multi_device_iterator"),
                             .object_type = TENON_SPAN("tenon.MultiDeviceIterator/1"),
                             .table = TENON_SPAN("tenon multi device iterator handles"),
                             .table_type = TENON_SPAN("multi_device_iterator_handles"),
                             .table_object_type = TENON_SPAN("tenon.MultiDeviceIteratorHandles/1"),
                             .what = "multi device iterator",
                             .maker = "MultiDeviceIterator"};

// What a node says that it gives, and to how many.
struct Spec : ElementSpec {
  explicit Spec(CreateContext& c) : ElementSpec(c), shards(c.Strings("devices").size()) {}
  size_t shards;
};

// The resource's object.
class MultiDevice {
 public:
  MultiDevice(Charge charge, Spec spec) : charge_(std::move(charge)), spec_(std::move(spec)) {}
  ~MultiDevice() { End(); }
  const Spec& spec() const { return spec_; }
  // The pass of this incarnation. INVALID_ARGUMENT, thrown: it is another one's turn.
  std::shared_ptr<Shards> Of(int64_t incarnation) const {
    const std::lock_guard lock(mutex_);
    if (pass_ == nullptr)
      Fail(TENON_FAILED_PRECONDITION, "the multi device iterator has no dataset: run MultiDeviceIteratorInit first");
    if (incarnation != pass_->incarnation())
      Fail(TENON_INVALID_ARGUMENT, "Invalid incarnation id. Provided: ", incarnation,
           "; Expected: ", pass_->incarnation());
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
  const Charge charge_;  // for this
  const Spec spec_;
  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<Shards> pass_;
  int64_t incarnation_ = 0;
};

MultiDevice& MultiDeviceIn(const RunContext& c, int32_t input) {
  return ObjectOf<MultiDevice>(c, c.resource(input), kIteratorsKind.object_type);
}

struct NamedIterators : NamedResource<kIteratorsKind> {
  explicit NamedIterators(CreateContext& c) : NamedResource(c), spec(c) {}
  void Run(RunContext c) const {
    const MultiDevice& object = ObjectOf<MultiDevice>(c, handle, kIteratorsKind.object_type, [&] {
      return std::make_unique<MultiDevice>(Charge(c, sizeof(MultiDevice) + spec.bytes()), spec);
    });
    if (object.spec().types != spec.types || object.spec().shards != spec.shards)
      Fail(TENON_INVALID_ARGUMENT, "the shared iterator '", name,
           "' exists with other output_types or devices; give this one another shared_name");
    table.Add(c, name, handle);
    *c.output<tenon_resource*>(0) = handle;
  }
  Spec spec;
};

// One that nobody else can name: it ends with the step.
template <bool kDeleter>
struct AnonymousIterators {
  explicit AnonymousIterators(CreateContext& c) : spec(c) {}
  void Run(RunContext c) const {
    tenon_resource* handle = nullptr;
    Check(c.services().step_resource(c.frame(), kIteratorsKind.handle_type, &handle));
    ObjectOf<MultiDevice>(c, handle, kIteratorsKind.object_type, [&] {
      return std::make_unique<MultiDevice>(Charge(c, sizeof(MultiDevice) + spec.bytes()), spec);
    });
    *c.output<tenon_resource*>(0) = handle;
    if constexpr (kDeleter) c.AllocOutput(1, {});
  }
  Spec spec;
};

struct Init {
  void Run(RunContext c) const {
    MultiDevice& iterator = MultiDeviceIn(c, 1);
    const DatasetPtr dataset = DatasetOf(c, 0);
    iterator.spec().CheckDataset(*dataset);
    const int64_t most = IntOf(c, 2);
    if (most < 0)
      Fail(TENON_INVALID_ARGUMENT, "max_buffer_size is ", most, "; a shard's buffer holds 0 elements or more");
    *c.output<int64_t>(0) = iterator.Begin(c, dataset, most);
  }
};

struct GetNextFromShard {
  explicit GetNextFromShard(CreateContext& c) : spec(c) {}
  void RunAsync(RunContext c, Done done) const {
    MultiDeviceIn(c, 0)
        .Of(IntOf(c, 2))
        ->Ask(c, done, *c.input<int32_t>(1), [this](const RunContext& asker, const Element* element) {
          if (element == nullptr) Fail(TENON_OUT_OF_RANGE, "End of sequence");
          spec.Give(asker, *element, "the iterator");
        });
  }
  ElementSpec spec;
};

struct DeleteIterators {
  void Run(RunContext c) const {
    MultiDeviceIn(c, 0).End();
    Check(c.services().resource_destroy(c.frame(), c.resource(0)));
  }
};

}  // namespace

TENON_KERNEL(kMultiDeviceIteratorKernel) = Registration<NamedIterators>("MultiDeviceIterator", {});
TENON_KERNEL(kAnonymousMultiDeviceIteratorKernel) =
    Registration<AnonymousIterators<true>>("AnonymousMultiDeviceIterator", {.dynamic_outputs = 2});
TENON_KERNEL(kAnonymousMultiDeviceIteratorV3Kernel) =
    Registration<AnonymousIterators<false>>("AnonymousMultiDeviceIteratorV3", {});
TENON_KERNEL(kMultiDeviceIteratorInitKernel) = Registration<Init>("MultiDeviceIteratorInit", {.flags = 0});
TENON_KERNEL(kMultiDeviceIteratorGetNextFromShardKernel) = Registration<GetNextFromShard>(
    "MultiDeviceIteratorGetNextFromShard", {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_KERNEL(kMultiDeviceIteratorToStringHandleKernel) =
    Registration<ToStringHandle<kIteratorsKind>>("MultiDeviceIteratorToStringHandle", {.dynamic_outputs = 1});
TENON_KERNEL(kMultiDeviceIteratorFromStringHandleKernel) =
    Registration<FromStringHandle<kIteratorsKind, MultiDevice>>("MultiDeviceIteratorFromStringHandle", {});
TENON_KERNEL(kDeleteMultiDeviceIteratorKernel) = Registration<DeleteIterators>("DeleteMultiDeviceIterator",
                                                                               {.flags = 0});

constexpr uint64_t kTraits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT;
static constexpr std::string_view kAnonymousIteratorsDoc =
    "An iterator for several devices that only those have whom the step gives it to, and that ends with the step.";

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
    .doc = kAnonymousIteratorsDoc,
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kAnonymousMultiDeviceIteratorV3) = DefineOp({
    .name = "AnonymousMultiDeviceIteratorV3",
    .outputs = "handle: resource",
    .attrs = "devices: list(string) >= 1; " TENON_DATASET_TYPES,
    .doc = kAnonymousIteratorsDoc,
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kMultiDeviceIteratorInit) = DefineOp({
    .name = "MultiDeviceIteratorInit",
    .inputs = "dataset: variant, multi_device_iterator: resource, max_buffer_size: int64",
    .outputs = "incarnation_id: int64",
    .constraints = "rank(max_buffer_size) == 0",
    .doc = "Begins a pass over the dataset, in place of the one before: its number. Each device's elements wait in a "
           "buffer of up to max_buffer_size.",
    .traits = kTraits,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kMultiDeviceIteratorGetNextFromShard) = DefineOp({
    .name = "MultiDeviceIteratorGetNextFromShard",
    .inputs = "multi_device_iterator: resource, shard_num: int32, incarnation_id: int64",
    .outputs = "components: output_types",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(shard_num) == 0; rank(incarnation_id) == 0",
    .doc =
        "The next element of a device, which is the shard_num-th in each round, of this pass. OUT_OF_RANGE at the end.",
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

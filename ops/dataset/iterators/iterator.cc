// SPDX-License-Identifier: Apache-2.0
// Iterators as resources: IteratorV2, OneShotIterator, AnonymousIterator, MakeIterator, IteratorGetNext,
// IteratorGetNextAsOptional, and their handles as strings.
#include "base/captured_function.h"
#include "base/element_spec.h"
#include "base/op.h"
#include "iterators/named_iterators.h"
#include "iterators/root.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr NamedKind kKind = {.handle_type = TENON_SPAN("iterator"),
                             .object_type = TENON_SPAN("tenon.Iterator/1"),
                             .table = TENON_SPAN("tenon iterator handles"),
                             .table_type = TENON_SPAN("iterator_handles"),
                             .table_object_type = TENON_SPAN("tenon.IteratorHandles/1"),
                             .what = "iterator",
                             .maker = "IteratorV2"};

// The resource's object.
class IteratorResource {
 public:
  IteratorResource(Charge charge, ElementSpec spec) : charge_(std::move(charge)), spec_(std::move(spec)) {}
  const ElementSpec& spec() const { return spec_; }
  std::shared_ptr<Root> root() const {
    const std::lock_guard lock(mutex_);
    return root_;
  }
  void SetRoot(std::shared_ptr<Root> root) {
    {
      const std::lock_guard lock(mutex_);
      root_.swap(root);
    }
    if (root != nullptr) root->Leave();
  }

 private:
  const Charge charge_;  // for this
  const ElementSpec spec_;
  mutable std::mutex mutex_;
  std::shared_ptr<Root> root_;
};

// The attributes of an iterator with a name.
struct Named : NamedResource<kKind> {
  explicit Named(CreateContext& c) : NamedResource(c), spec(c) {}
  IteratorResource& Object(const RunContext& c) const {
    IteratorResource& object = ObjectOf<IteratorResource>(c, handle, kKind.object_type, [&] {
      return std::make_unique<IteratorResource>(Charge(c, sizeof(IteratorResource) + spec.bytes()), spec);
    });
    if (object.spec().types != spec.types)
      Fail(TENON_INVALID_ARGUMENT, "the shared iterator '", name,
           "' exists with other output_types; give this one another shared_name");
    table.Add(c, name, handle);
    return object;
  }
  ElementSpec spec;
};

struct NewIterator : Named {
  using Named::Named;
  void Run(RunContext c) const {
    Object(c);
    *c.output<tenon_resource*>(0) = handle;
  }
};

// The first run makes the dataset, and the iterator begins; the function has no arguments.
struct OneShot : Named {
  explicit OneShot(CreateContext& c) : Named(c), factory(c, "dataset_factory") {}
  void Run(RunContext c) const {
    IteratorResource& object = Object(c);
    const std::lock_guard lock(mutex);
    if (object.root() == nullptr) {
      const Element results = factory.Call(Work(c), {});
      if (results.size() != 1) Fail(TENON_INVALID_ARGUMENT, "dataset_factory must give one dataset");
      DatasetPtr dataset = DatasetIn(Work(c).services(), results[0].view(), "what dataset_factory gives");
      spec.CheckDataset(*dataset);
      object.SetRoot(std::make_shared<Root>(c, std::move(dataset)));
    }
    *c.output<tenon_resource*>(0) = handle;
  }
  Function factory;
  mutable std::mutex mutex;
};

// One that nobody else can name: it ends with the step.
template <bool kDeleter>
struct Anonymous {
  explicit Anonymous(CreateContext& c) : spec(c) {}
  void Run(RunContext c) const {
    tenon_resource* handle = nullptr;
    Check(c.services().step_resource(c.frame(), kKind.handle_type, &handle));
    ObjectOf<IteratorResource>(c, handle, kKind.object_type, [&] {
      return std::make_unique<IteratorResource>(Charge(c, sizeof(IteratorResource) + spec.bytes()), spec);
    });
    *c.output<tenon_resource*>(0) = handle;
    if constexpr (kDeleter) c.AllocOutput(1, {});
  }
  ElementSpec spec;
};

struct Make {
  void Run(RunContext c) const {
    auto& iterator = ObjectOf<IteratorResource>(c, c.resource(1), kKind.object_type);
    DatasetPtr dataset = DatasetOf(c, 0);
    iterator.spec().CheckDataset(*dataset);
    iterator.SetRoot(std::make_shared<Root>(c, std::move(dataset)));
  }
};

std::shared_ptr<Root> RootOf(const RunContext& c) {
  std::shared_ptr<Root> root = ObjectOf<IteratorResource>(c, c.resource(0), kKind.object_type).root();
  if (root == nullptr)
    Fail(TENON_FAILED_PRECONDITION,
         "GetNext() failed because the iterator has not been initialized. Ensure that you have run the initializer "
         "operation for this iterator before getting the next element.");
  return root;
}

// Of the pass that it is at, though another one may just begin.
void AskRoot(const RunContext& c, const Done& done, const Root::Give& give) {
  while (!RootOf(c)->Ask(c, done, give)) {
  }
}

struct GetNext {
  explicit GetNext(CreateContext& c) : spec(c) {}
  void RunAsync(RunContext c, Done done) const {
    AskRoot(c, done, [this](const RunContext& asker, const Element* element) {
      if (element == nullptr) Fail(TENON_OUT_OF_RANGE, "End of sequence");
      spec.Give(asker, *element, "the iterator");
    });
  }
  ElementSpec spec;
};

struct GetNextAsOptional {
  explicit GetNextAsOptional(CreateContext& c) : spec(c) {}
  void RunAsync(RunContext c, Done done) const {
    AskRoot(c, done, [this](const RunContext& asker, const Element* element) {
      std::vector<tenon_tensor_view> views;
      if (element != nullptr) {
        spec.CheckElement(*element, "the iterator");
        for (const KeptTensor& tensor : *element) views.push_back(tensor.view());
      }
      tenon_variant* made = nullptr;
      Check(asker.services().variant_new(asker.frame(), TENON_SPAN("tenon.Optional"),
                                         ToSpan(element != nullptr ? "some" : ""), views.data(), views.size(), &made));
      SetVariant(asker, 0, made);
    });
  }
  ElementSpec spec;
};

struct Delete {
  void Run(RunContext c) const { Check(c.services().resource_destroy(c.frame(), c.resource(0))); }
};

// ---- Their state ----

constexpr std::string_view kStateType = "tenon.IteratorState";

struct Serialize {
  void RunAsync(RunContext c, Done done) const {
    RootOf(c)->AskState(c, done, [](const RunContext& asker, const std::vector<KeptTensor>& pieces) {
      std::vector<tenon_tensor_view> views;
      for (const KeptTensor& piece : pieces) views.push_back(piece.view());
      const int64_t dims[] = {1};
      asker.AllocOutput(0, dims);
      tenon_variant* made = nullptr;
      Check(asker.services().variant_new(asker.frame(), ToSpan(kStateType), {}, views.data(), views.size(), &made));
      *asker.output<tenon_variant*>(0) = made;
    });
  }
};

struct Deserialize {
  void Run(RunContext c) const {
    auto& iterator = ObjectOf<IteratorResource>(c, c.resource(0), kKind.object_type);
    const std::shared_ptr<Root> before = iterator.root();
    if (before == nullptr)
      Fail(TENON_FAILED_PRECONDITION,
           "Restore() failed because the iterator has not been initialized. Ensure that you have run the initializer "
           "operation for this iterator before restoring it.");
    const tenon_tensor_view& view = c.input_view(1);
    const tenon_variant* const state = Count(view) > 0 ? VariantOf(view) : nullptr;
    tenon_variant_info info{};
    if (state != nullptr) c.services().variant_info(state, &info);
    if (ToText(info.type) != kStateType || Count(view) != 1)
      Fail(TENON_INVALID_ARGUMENT, "`serialized` must be what SerializeIterator gave here, one variant of type ",
           kStateType, "; it is ", Count(view), " of type '", ToText(info.type), "'",
           ToText(info.type).starts_with("tensorflow") ? ", which TensorFlow alone can read" : "");
    std::vector<tenon_tensor_view> pieces(info.element_count);
    for (uint64_t i = 0; i < info.element_count; ++i) c.services().variant_element(state, i, &pieces[i]);
    iterator.SetRoot(std::make_shared<Root>(c, before->dataset(), std::move(pieces)));
  }
};

// ---- Shapes ----

constexpr Traits kDynamic = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kPlain = {};

void OneVector(ShapeContext& c) { c.SetOutput(0, Shape{-1}); }

struct IteratorOp {
  std::string_view name;
  std::string_view inputs = {};
  std::string_view outputs = {};
  std::string_view attrs = {};
  std::string_view constraints = {};
  std::string_view doc = {};
  tenon_shape_function shape = ShapeFunction<AllScalars>;
};
consteval tenon_op_definition DefineIterator(const IteratorOp& op) {
  return DefineOp({.name = op.name,
                   .inputs = op.inputs,
                   .outputs = op.outputs,
                   .attrs = op.attrs,
                   .constraints = op.constraints,
                   .doc = op.doc,
                   .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
                   .shape = op.shape});
}

}  // namespace

TENON_KERNEL(kIteratorKernel) = Registration<NewIterator>("Iterator", kPlain);
TENON_KERNEL(kIteratorV2Kernel) = Registration<NewIterator>("IteratorV2", kPlain);
TENON_KERNEL(kOneShotIteratorKernel) = Registration<OneShot>("OneShotIterator", {.flags = TENON_KERNEL_BLOCKING});
TENON_KERNEL(kAnonymousIteratorKernel) = Registration<Anonymous<false>>("AnonymousIterator", kPlain);
TENON_KERNEL(kAnonymousIteratorV2Kernel) = Registration<Anonymous<true>>("AnonymousIteratorV2", {.dynamic_outputs = 2});
TENON_KERNEL(kAnonymousIteratorV3Kernel) = Registration<Anonymous<false>>("AnonymousIteratorV3", kPlain);
TENON_KERNEL(kMakeIteratorKernel) = Registration<Make>("MakeIterator", {.flags = 0});
TENON_KERNEL(kIteratorGetNextKernel) = Registration<GetNext>("IteratorGetNext", kDynamic);
TENON_KERNEL(kIteratorGetNextSyncKernel) = Registration<GetNext>("IteratorGetNextSync", kDynamic);
TENON_KERNEL(kIteratorGetNextAsOptionalKernel) = Registration<GetNextAsOptional>("IteratorGetNextAsOptional", kDynamic);
TENON_KERNEL(kDeleteIteratorKernel) = Registration<Delete>("DeleteIterator", {.flags = 0});
TENON_KERNEL(kSerializeIteratorKernel) = Registration<Serialize>("SerializeIterator", kDynamic);
TENON_KERNEL(kDeserializeIteratorKernel) = Registration<Deserialize>("DeserializeIterator",
                                                                     {.flags = TENON_KERNEL_BLOCKING});
TENON_KERNEL(kIteratorToStringHandleKernel) = Registration<ToStringHandle<kKind>>("IteratorToStringHandle",
                                                                                  {.dynamic_outputs = 1});
TENON_KERNEL(kIteratorFromStringHandleKernel) =
    Registration<FromStringHandle<kKind, IteratorResource>>("IteratorFromStringHandle", kPlain);
TENON_KERNEL(kIteratorFromStringHandleV2Kernel) =
    Registration<FromStringHandle<kKind, IteratorResource>>("IteratorFromStringHandleV2", kPlain);

#define TENON_ITERATOR_NAMED "shared_name: string; container: string; " TENON_DATASET_TYPES

static constexpr std::string_view kNamedDoc = "An iterator, which MakeIterator begins, by its name.";
static constexpr std::string_view kAnonymousDoc =
    "An iterator that only those have whom the step gives it to, and that ends with the step.";
static constexpr std::string_view kNextDoc = "The next element of an iterator. OUT_OF_RANGE at the end.";
static constexpr std::string_view kFromDoc =
    "The iterator of this session that IteratorToStringHandle gave this string for.";

TENON_OP(kIterator) = DefineIterator(
    {.name = "Iterator", .outputs = "handle: resource", .attrs = TENON_ITERATOR_NAMED, .doc = kNamedDoc});
TENON_OP(kIteratorV2) = DefineIterator(
    {.name = "IteratorV2", .outputs = "handle: resource", .attrs = TENON_ITERATOR_NAMED, .doc = kNamedDoc});
TENON_OP(kOneShotIterator) = DefineIterator({.name = "OneShotIterator",
                                             .outputs = "handle: resource",
                                             .attrs = "dataset_factory: func; " TENON_DATASET_TYPES
                                                      "; container: string = ''; shared_name: string = ''",
                                             .doc = "An iterator over the dataset that a function gives."});
TENON_OP(kAnonymousIterator) = DefineIterator(
    {.name = "AnonymousIterator", .outputs = "handle: resource", .attrs = TENON_DATASET_TYPES, .doc = kAnonymousDoc});
TENON_OP(kAnonymousIteratorV2) = DefineIterator({.name = "AnonymousIteratorV2",
                                                 .outputs = "handle: resource, deleter: variant",
                                                 .attrs = TENON_DATASET_TYPES,
                                                 .doc = kAnonymousDoc});
TENON_OP(kAnonymousIteratorV3) = DefineIterator(
    {.name = "AnonymousIteratorV3", .outputs = "handle: resource", .attrs = TENON_DATASET_TYPES, .doc = kAnonymousDoc});
TENON_OP(kMakeIterator) =
    DefineIterator({.name = "MakeIterator",
                    .inputs = "dataset: variant, iterator: resource",
                    .doc = "Begins a pass of the iterator over the dataset, from its first element."});
TENON_OP(kIteratorGetNext) = DefineIterator({.name = "IteratorGetNext",
                                             .inputs = "iterator: resource",
                                             .outputs = "components: output_types",
                                             .attrs = TENON_DATASET_TYPES,
                                             .doc = kNextDoc,
                                             .shape = ShapeFunction<ElementShapes>});
TENON_OP(kIteratorGetNextSync) = DefineIterator({.name = "IteratorGetNextSync",
                                                 .inputs = "iterator: resource",
                                                 .outputs = "components: output_types",
                                                 .attrs = TENON_DATASET_TYPES,
                                                 .doc = kNextDoc,
                                                 .shape = ShapeFunction<ElementShapes>});
TENON_OP(kIteratorGetNextAsOptional) =
    DefineIterator({.name = "IteratorGetNextAsOptional",
                    .inputs = "iterator: resource",
                    .outputs = "optional: variant",
                    .attrs = TENON_DATASET_TYPES,
                    .doc = "The next element of an iterator as an optional, which at the end has no value."});
TENON_OP(kDeleteIterator) = DefineIterator({.name = "DeleteIterator",
                                            .inputs = "handle: resource, deleter: variant",
                                            .doc = "Ends an iterator."});
TENON_OP(kSerializeIterator) =
    DefineIterator({.name = "SerializeIterator",
                    .inputs = "resource_handle: resource",
                    .outputs = "serialized: variant",
                    .attrs = "external_state_policy: int = 0",
                    .doc = "Where the iterator's pass stands, with the elements that it holds; what its functions keep "
                           "themselves (variables, random generators) is not in it.",
                    .shape = ShapeFunction<OneVector>});
TENON_OP(kDeserializeIterator) = DefineIterator({.name = "DeserializeIterator",
                                                 .inputs = "resource_handle: resource, serialized: variant",
                                                 .doc = "The iterator, which MakeIterator has begun over the same "
                                                        "pipeline, goes on where the one stood whose state this is."});
TENON_OP(kIteratorToStringHandle) =
    DefineIterator({.name = "IteratorToStringHandle",
                    .inputs = "resource_handle: resource",
                    .outputs = "string_handle: string",
                    .doc = "A string that stands for the iterator, which has a name, in this session."});
TENON_OP(kIteratorFromStringHandle) =
    DefineIterator({.name = "IteratorFromStringHandle",
                    .inputs = "string_handle: string",
                    .outputs = "resource_handle: resource",
                    .attrs = "output_types: list(type) = []; output_shapes: list(shape) = []",
                    .constraints = "rank(string_handle) == 0",
                    .doc = kFromDoc});
TENON_OP(kIteratorFromStringHandleV2) =
    DefineIterator({.name = "IteratorFromStringHandleV2",
                    .inputs = "string_handle: string",
                    .outputs = "resource_handle: resource",
                    .attrs = "output_types: list(type) = []; output_shapes: list(shape) = []",
                    .constraints = "rank(string_handle) == 0",
                    .doc = kFromDoc});

}  // namespace tenon::ops

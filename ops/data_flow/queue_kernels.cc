// SPDX-License-Identifier: Apache-2.0
// Kernels of queues. They run on the host, wherever the queue is said to be; those that may wait are asynchronous.
#include "queue.h"

#include <string>

#include "handle.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/extras/kernel/shared_queue.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void CheckOptions(const QueueOptions& o) {
  if (!o.shapes.empty() && o.shapes.size() != o.types.size())
    Fail(TENON_INVALID_ARGUMENT, o.types.size(), " component_types have ", o.shapes.size(),
         " shapes; give each its own, or none at all");
  if ((o.padding || o.priority) && o.shapes.empty())
    Fail(TENON_INVALID_ARGUMENT, "a ", o.op, " needs the shapes of its components");
  for (const Shape& shape : o.shapes) {
    if (o.padding ? shape.known_rank() : shape.fully_known()) continue;
    Fail(TENON_INVALID_ARGUMENT, "a ", o.op, " takes no component of shape ", shape, "; ",
         o.padding ? "its rank must be known" : "a PaddingFIFOQueue does");
  }
  for (const uint32_t dtype : o.types)
    if (ElementSize(dtype) == 0 && dtype != TENON_DT_STRING) Fail(TENON_UNIMPLEMENTED, "a queue of ", TypeName(dtype));
  if (o.min_after_dequeue < 0) Fail(TENON_INVALID_ARGUMENT, "min_after_dequeue is ", o.min_after_dequeue);
  if (o.capacity >= 0 && o.min_after_dequeue >= o.capacity && o.shuffle)
    Fail(TENON_INVALID_ARGUMENT, "min_after_dequeue ", o.min_after_dequeue, " leaves nothing of a capacity of ",
         o.capacity);
}

enum class Order { kFifo, kPadding, kShuffle, kPriority };
constexpr const char* kNames[] = {"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue"};

// The container's: who waits has the queue too, and is told when it goes.
struct HeldQueue final : SharedQueue {
  explicit HeldQueue(const QueueOptions& options) : queue(std::make_shared<Queue>(options)), name(queue->Describe()) {}
  ~HeldQueue() override { queue->Abandon(); }
  tenon_status* TakeOne(tenon_frame* frame, Taken taken, void* argument) noexcept override {
    try {
      queue->TakeOne(RunContext(frame), taken, argument);
      return nullptr;
    } catch (...) {
      return CurrentFailure();
    }
  }
  const uint32_t* component_types(uint64_t* out_count) const noexcept override {
    *out_count = queue->options().types.size();
    return queue->options().types.data();
  }
  tenon_span description() const noexcept override { return ToSpan(name); }
  const std::shared_ptr<Queue> queue;
  const std::string name;
};

HeldQueue& Held(SharedQueue& queue) { return static_cast<HeldQueue&>(queue); }  // nobody else makes one

template <Order kOrder>
struct MakeQueue {
  explicit MakeQueue(CreateContext& c) : named(c, "queue") {
    QueueOptions& o = options;
    o.op = kNames[static_cast<size_t>(kOrder)];
    o.name = named.name;
    o.types = c.Types("component_types");
    o.shapes = c.Shapes("shapes");
    o.capacity = c.Int("capacity") < 0 ? -1 : c.Int("capacity");
    o.padding = kOrder == Order::kPadding;
    if constexpr (kOrder == Order::kShuffle) {
      const tenon_create_args& args = c.args();
      o.shuffle = true;
      o.min_after_dequeue = c.Int("min_after_dequeue");
      uint64_t seeds[2] = {static_cast<uint64_t>(c.Int("seed")), static_cast<uint64_t>(c.Int("seed2"))};
      if (seeds[0] == 0 && seeds[1] == 0) c.Check(args.services->random_seed(args.context, seeds));
      o.seed = seeds[0];
      o.seed2 = seeds[1];
    }
    if constexpr (kOrder == Order::kPriority) {
      o.priority = true;
      o.types.insert(o.types.begin(), TENON_DT_INT64);
      if (!o.shapes.empty()) o.shapes.insert(o.shapes.begin(), Shape::Scalar());
    }
    if (c.ok()) CheckOptions(o);
  }
  void Run(RunContext c) const {
    const auto make = [this]() -> std::unique_ptr<SharedQueue> { return std::make_unique<HeldQueue>(options); };
    Held(ObjectOf<SharedQueue>(c, named.handle, kQueueType, make)).queue->CheckSame(options);
    *c.output<tenon_resource*>(0) = named.handle;
  }
  const NamedHandle named;
  QueueOptions options;
};

std::shared_ptr<Queue> QueueOf(const RunContext& c) { return Held(QueueIn(c, 0)).queue; }

void CheckTimeout(CreateContext& c) {
  if (c.Int("timeout_ms") != -1)
    c.Fail(TENON_INVALID_ARGUMENT, "timeout_ms is not supported; give the step a deadline");
}

void CheckTypes(const Queue& queue, const std::vector<uint32_t>& types) {
  const std::vector<uint32_t>& held = queue.options().types;
  if (types == held) return;
  std::string asked, wanted;
  for (const uint32_t dtype : types) asked += Concat(" ", TypeName(dtype));
  for (const uint32_t dtype : held) wanted += Concat(" ", TypeName(dtype));
  Fail(TENON_INVALID_ARGUMENT, "the ", queue.Describe(), " has components of the types", wanted, ", not", asked);
}

template <bool kMany>
struct EnqueueKernel {
  explicit EnqueueKernel(CreateContext& c) : types(c.Types("Tcomponents")) { CheckTimeout(c); }

  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Queue> queue = QueueOf(c);
    CheckTypes(*queue, types);
    std::vector<Element> elements = kMany ? Rows(c, *queue) : One(c, *queue);
    // Nothing is done at once, whatever the queue's state.
    if (elements.empty()) return done(nullptr);
    queue->Enqueue(c, done, std::move(elements));
  }
  static std::vector<Element> One(const RunContext& c, const Queue& queue) {
    std::vector<Element> one(1);
    for (int32_t i = 1; i < c.input_count(); ++i) {
      queue.CheckShape(static_cast<size_t>(i - 1), ShapeOf(DimsOf(c.input_view(i))));
      one[0].emplace_back(KeptTensor::OfInput(c, i));
    }
    return one;
  }
  static std::vector<Element> Rows(const RunContext& c, const Queue& queue) {
    for (int32_t i = 1; i < c.input_count(); ++i) {
      const Dims dims = DimsOf(c.input_view(i));
      if (dims.empty()) Fail(TENON_INVALID_ARGUMENT, "component ", i - 1, " is a scalar, which has no rows");
      if (dims[0] != DimsOf(c.input_view(1))[0])
        Fail(TENON_INVALID_ARGUMENT, "component ", i - 1, " has ", dims[0], " rows, the first one ",
             DimsOf(c.input_view(1))[0]);
      queue.CheckShape(static_cast<size_t>(i - 1), ShapeOf(dims.subspan(1)));
    }
    std::vector<Element> rows(static_cast<size_t>(DimsOf(c.input_view(1))[0]));
    for (size_t row = 0; row < rows.size(); ++row)
      for (int32_t i = 1; i < c.input_count(); ++i)
        rows[row].emplace_back(c, c.input_view(i), static_cast<int64_t>(row));
    return rows;
  }
  std::vector<uint32_t> types;
};

struct DequeueKernel {
  explicit DequeueKernel(CreateContext& c) : types(c.Types("component_types")) { CheckTimeout(c); }
  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Queue> queue = QueueOf(c);
    CheckTypes(*queue, types);
    queue->DequeueOne(c, done);
  }
  std::vector<uint32_t> types;
};

template <bool kFewer>
struct DequeueRowsKernel {
  explicit DequeueRowsKernel(CreateContext& c) : types(c.Types("component_types")) { CheckTimeout(c); }
  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Queue> queue = QueueOf(c);
    CheckTypes(*queue, types);
    const int32_t count = *c.input<int32_t>(1);
    if (count < 0) Fail(TENON_INVALID_ARGUMENT, count, " elements are asked for");
    if (queue->options().shapes.empty())
      Fail(TENON_INVALID_ARGUMENT, "rows of the ", queue->Describe(),
           " need the shapes of its components; give it shapes");
    queue->DequeueRows(c, done, count, kFewer);
  }
  std::vector<uint32_t> types;
};

struct CloseKernel {
  explicit CloseKernel(CreateContext& c) : cancels(c.Bool("cancel_pending_enqueues")) {}
  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Queue> queue = QueueOf(c);
    if (!cancels) return queue->Close(c, done);
    queue->CloseAndCancel();
    done(nullptr);
  }
  bool cancels;
};

struct IsClosedKernel {
  void Run(RunContext c) const { *c.output<bool>(0) = QueueOf(c)->IsClosed(); }
};
struct SizeKernel {
  void Run(RunContext c) const { *c.output<int32_t>(0) = static_cast<int32_t>(QueueOf(c)->Size()); }
};

constexpr Traits kQueuesMake = {.flags = TENON_KERNEL_STATEFUL};
constexpr Traits kQueuesPut = {.flags = 0, .retained_inputs = TENON_DYNAMIC_ALL};
constexpr Traits kQueuesGive = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kQueues = {.flags = 0};

}  // namespace

// The first versions have references where the second ones have resources; the cell is the same. Rows that go in are
// copies.
TENON_KERNEL(kFIFOQueueKernel) = Registration<MakeQueue<Order::kFifo>>("FIFOQueue", kQueuesMake);
TENON_KERNEL(kPaddingFIFOQueueKernel) = Registration<MakeQueue<Order::kPadding>>("PaddingFIFOQueue", kQueuesMake);
TENON_KERNEL(kRandomShuffleQueueKernel) = Registration<MakeQueue<Order::kShuffle>>("RandomShuffleQueue", kQueuesMake);
TENON_KERNEL(kPriorityQueueKernel) = Registration<MakeQueue<Order::kPriority>>("PriorityQueue", kQueuesMake);
TENON_KERNEL(kQueueEnqueueKernel) = Registration<EnqueueKernel<false>>("QueueEnqueue", kQueuesPut);
TENON_KERNEL(kQueueEnqueueManyKernel) = Registration<EnqueueKernel<true>>("QueueEnqueueMany", kQueues);
TENON_KERNEL(kQueueDequeueKernel) = Registration<DequeueKernel>("QueueDequeue", kQueuesGive);
TENON_KERNEL(kQueueDequeueManyKernel) = Registration<DequeueRowsKernel<false>>("QueueDequeueMany", kQueuesGive);
TENON_KERNEL(kQueueDequeueUpToKernel) = Registration<DequeueRowsKernel<true>>("QueueDequeueUpTo", kQueuesGive);
TENON_KERNEL(kQueueCloseKernel) = Registration<CloseKernel>("QueueClose", kQueues);
TENON_KERNEL(kQueueIsClosedKernel) = Registration<IsClosedKernel>("QueueIsClosed", kQueues);
TENON_KERNEL(kQueueSizeKernel) = Registration<SizeKernel>("QueueSize", kQueues);
TENON_KERNEL(kFIFOQueueV2Kernel) = Registration<MakeQueue<Order::kFifo>>("FIFOQueueV2", kQueuesMake);
TENON_KERNEL(kPaddingFIFOQueueV2Kernel) = Registration<MakeQueue<Order::kPadding>>("PaddingFIFOQueueV2", kQueuesMake);
TENON_KERNEL(kRandomShuffleQueueV2Kernel) = Registration<MakeQueue<Order::kShuffle>>("RandomShuffleQueueV2",
                                                                                     kQueuesMake);
TENON_KERNEL(kPriorityQueueV2Kernel) = Registration<MakeQueue<Order::kPriority>>("PriorityQueueV2", kQueuesMake);
TENON_KERNEL(kQueueEnqueueV2Kernel) = Registration<EnqueueKernel<false>>("QueueEnqueueV2", kQueuesPut);
TENON_KERNEL(kQueueEnqueueManyV2Kernel) = Registration<EnqueueKernel<true>>("QueueEnqueueManyV2", kQueues);
TENON_KERNEL(kQueueDequeueV2Kernel) = Registration<DequeueKernel>("QueueDequeueV2", kQueuesGive);
TENON_KERNEL(kQueueDequeueManyV2Kernel) = Registration<DequeueRowsKernel<false>>("QueueDequeueManyV2", kQueuesGive);
TENON_KERNEL(kQueueDequeueUpToV2Kernel) = Registration<DequeueRowsKernel<true>>("QueueDequeueUpToV2", kQueuesGive);
TENON_KERNEL(kQueueCloseV2Kernel) = Registration<CloseKernel>("QueueCloseV2", kQueues);
TENON_KERNEL(kQueueIsClosedV2Kernel) = Registration<IsClosedKernel>("QueueIsClosedV2", kQueues);
TENON_KERNEL(kQueueSizeV2Kernel) = Registration<SizeKernel>("QueueSizeV2", kQueues);

}  // namespace tenon::ops

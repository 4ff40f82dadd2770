// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <algorithm>
#include <new>

namespace tenon::ops {
using namespace sdk;

// ---- Attempts ----

class Queue::Putting final : public Attempt {
 public:
  Putting(Queue& queue, RunContext c, Done done, std::vector<Element> elements)
      : Attempt(kPut, c, done), queue_(queue), elements_(std::move(elements)) {}
  Progress Try() override {
    if (queue_.closed_) Fail(TENON_CANCELLED, "the ", queue_.Describe(), " is closed");
    const size_t before = in_;
    for (; in_ < elements_.size() && queue_.HasRoom(); ++in_) queue_.Add(std::move(elements_[in_]));
    return in_ == elements_.size() ? Progress::kEnd : in_ != before ? Progress::kSome : Progress::kNone;
  }
  std::string Waiting() const override { return Concat("waiting to put an element into the ", queue_.Describe()); }

 private:
  Queue& queue_;
  std::vector<Element> elements_;
  size_t in_ = 0;
};

// Waits among those who put something in.
class Queue::Closing final : public Attempt {
 public:
  Closing(Queue& queue, RunContext c, Done done) : Attempt(kPut, c, done), queue_(queue) {}
  Progress Try() override {
    if (queue_.closed_) Fail(TENON_CANCELLED, "the ", queue_.Describe(), " is closed already");
    queue_.closed_ = true;
    return Progress::kEnd;
  }
  bool EndsWell() const override { return true; }
  std::string Waiting() const override { return Concat("waiting to close the ", queue_.Describe()); }

 private:
  Queue& queue_;
};

class Queue::Taking : public Attempt {
 public:
  Taking(Queue& queue, RunContext c, Done done, size_t count) : Attempt(kTake, c, done), queue_(queue), count_(count) {}
  Taking(Queue& queue, RunContext c, Done done, size_t count, bool fewer)
      : Attempt(kTake, c, done), queue_(queue), count_(count), rows_(true), fewer_(fewer) {}
  Progress Try() override;
  void PutBack() noexcept override { queue_.PutBack(&elements_); }
  void GiveOutputs() override;
  std::string Waiting() const override { return Concat("waiting for an element of the ", queue_.Describe()); }

 protected:
  Queue& queue_;
  std::vector<Element> elements_;  // that it has taken

 private:
  const size_t count_;
  const bool rows_ = false, fewer_ = false;
};

Place::Progress Queue::Taking::Try() {
  const auto kept = static_cast<size_t>(queue_.closed_ ? 0 : queue_.options_.min_after_dequeue);
  const size_t before = elements_.size(), there = before + queue_.elements_.size();
  if (queue_.closed_ && there < count_ && (!fewer_ || there == 0))
    Fail(TENON_OUT_OF_RANGE, "the ", queue_.Describe(), " is closed and has ", there, " elements; ", count_,
         " are wanted");
  while (elements_.size() < count_ && queue_.elements_.size() > kept) {
    elements_.emplace_back();  // first its place, so that none is lost
    elements_.back() = queue_.Take();
  }
  if (elements_.size() == count_ || queue_.closed_) return Progress::kEnd;
  return elements_.size() != before ? Progress::kSome : Progress::kNone;
}

void Queue::Taking::GiveOutputs() {
  const QueueOptions& options = queue_.options_;
  for (size_t i = 0; i < options.types.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (!rows_) {
      elements_[0][i].Give(context_, index);
      continue;
    }
    std::vector<int64_t> shape = options.shapes[i].dims();
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] >= 0) continue;
      shape[dim] = 0;
      for (const Element& element : elements_) shape[dim] = std::max(shape[dim], element[i].view().dl.shape[dim]);
    }
    GiveRows(context_, index, options.types[i], elements_, shape);
  }
}

class Queue::TakingForAnother final : public Taking {
 public:
  TakingForAnother(Queue& queue, RunContext c, SharedQueue::Taken taken, void* argument)
      : Taking(queue, c, Done{}, 1), taken_(taken), argument_(argument) {}
  void GiveOutputs() override {
    for (const Component& component : elements_[0]) views_.push_back(component.view());
  }
  void End(std::unique_ptr<Attempt> self, tenon_status* failure) override {
    taken_(argument_, failure, failure == nullptr ? views_.data() : nullptr, failure == nullptr ? views_.size() : 0);
    self.reset();
  }

 private:
  const SharedQueue::Taken taken_;
  void* const argument_;
  std::vector<tenon_tensor_view> views_;
};

// ---- From outside ----

Queue::Queue(QueueOptions options)
    : Place(Order::kInOrder, Order::kInOrder), options_(std::move(options)), random_(options_.seed, options_.seed2) {}

void Queue::CheckSame(const QueueOptions& other) const {
  const auto differs = [&](const char* what) {
    Fail(TENON_INVALID_ARGUMENT, "the shared ", Describe(), " exists with other ", what,
         "; give this one another shared_name");
  };
  if (options_.op != other.op) Fail(TENON_INVALID_ARGUMENT, "the shared ", Describe(), " is asked for as a ", other.op);
  if (options_.types != other.types) differs("component_types");
  if (options_.shapes != other.shapes) differs("shapes");
  if (options_.capacity != other.capacity) differs("capacity");
  if (options_.min_after_dequeue != other.min_after_dequeue) differs("min_after_dequeue");
}

void Queue::CheckShape(size_t component, const Shape& shape) const {
  if (options_.shapes.empty()) return;
  const Shape& wanted = options_.shapes[component];
  if (!Fits(shape, wanted))
    Fail(TENON_INVALID_ARGUMENT, "component ", component, " has shape ", shape, "; the ", Describe(), " takes ",
         wanted);
}

void Queue::Enqueue(RunContext c, Done done, std::vector<Element> elements) {
  Submit(std::make_unique<Putting>(*this, c, done, std::move(elements)));
}
void Queue::DequeueOne(RunContext c, Done done) { Submit(std::make_unique<Taking>(*this, c, done, 1)); }
void Queue::TakeOne(RunContext c, SharedQueue::Taken taken, void* argument) {
  Submit(std::make_unique<TakingForAnother>(*this, c, taken, argument));
}
void Queue::DequeueRows(RunContext c, Done done, int64_t count, bool fewer) {
  Submit(std::make_unique<Taking>(*this, c, done, static_cast<size_t>(count), fewer));
}
void Queue::Close(RunContext c, Done done) { Submit(std::make_unique<Closing>(*this, c, done)); }

Queue::Ended Queue::PutNow(std::vector<Element> elements) {
  Ended ended;
  const std::lock_guard lock(mutex_);
  for (Element& element : elements) Add(std::move(element));
  Advance(&ended);
  return ended;
}

Queue::Ended Queue::ClosedNow() {
  Ended ended;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  Cancel(kPut, "it was closed", &ended);
  Advance(&ended);
  return ended;
}

int64_t Queue::Size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(elements_.size());
}

bool Queue::IsClosed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

// ---- Under the mutex ----

static int64_t PriorityOf(const Element& element) { return *Data<const int64_t>(element[0].view()); }
// Of a heap whose top is what comes first.
static bool ComesLater(const Element& a, const Element& b) { return PriorityOf(a) > PriorityOf(b); }

void Queue::Add(Element element) {
  elements_.push_back(std::move(element));
  if (options_.priority) std::push_heap(elements_.begin(), elements_.end(), ComesLater);
}

Element Queue::Take() {
  if (options_.shuffle) {
    if (numbers_used_ == numbers_.size()) {
      numbers_ = random_.Next();
      numbers_used_ = 0;
    }
    // The last takes the place of the one that is taken.
    std::swap(elements_[numbers_[numbers_used_++] % elements_.size()], elements_.back());
  } else if (options_.priority) {
    std::pop_heap(elements_.begin(), elements_.end(), ComesLater);
  } else {
    Element element = std::move(elements_.front());
    elements_.pop_front();
    return element;
  }
  Element element = std::move(elements_.back());
  elements_.pop_back();
  return element;
}

void Queue::PutBack(std::vector<Element>* elements) noexcept {
  try {
    for (; !elements->empty(); elements->pop_back()) {
      if (options_.shuffle || options_.priority) Add(std::move(elements->back()));
      else elements_.push_front(std::move(elements->back()));
    }
  } catch (const std::bad_alloc&) {  // those that there is no memory for go with the attempt
  }
}

}  // namespace tenon::ops

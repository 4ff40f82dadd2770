// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <algorithm>
#include <new>

namespace tenon::ops {
using namespace sdk;

struct Queue::Attempt {
  Kind kind;
  RunContext context;
  Done done;
  std::shared_ptr<Queue> queue;
  std::vector<Element> elements = {};  // of an enqueue; what a dequeue has taken
  size_t count = 0;                    // that are in, or that are wanted
  bool rows = false;                   // a dequeue gives rows
  bool fewer = false;
  uint64_t token = 0;
  tenon_status* failure = nullptr;
  SharedQueue::Taken taken = nullptr;  // who gets the element of a dequeue, in place of outputs and done
  void* taken_argument = nullptr;
};

Queue::Queue(QueueOptions options) : options_(std::move(options)), random_(options_.seed, options_.seed2) {}
Queue::~Queue() = default;

// ---- From outside ----

void Queue::CheckSame(const QueueOptions& other) const {
  const auto differs = [&](const char* what) {
    Fail(TENON_INVALID_ARGUMENT, "the shared ", Describe(), " exists with other ", what, "; give this one another shared_name");
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
  if (!Fits(shape, wanted)) Fail(TENON_INVALID_ARGUMENT, "component ", component, " has shape ", shape, "; the ", Describe(), " takes ", wanted);
}

void Queue::Enqueue(RunContext c, Done done, std::vector<Element> elements) {
  Submit(std::make_unique<Attempt>(Attempt{Kind::kEnqueue, c, done, shared_from_this(), std::move(elements)}));
}

void Queue::DequeueOne(RunContext c, Done done) {
  auto attempt = std::make_unique<Attempt>(Attempt{Kind::kDequeue, c, done, shared_from_this()});
  attempt->count = 1;
  Submit(std::move(attempt));
}

void Queue::TakeOne(RunContext c, SharedQueue::Taken taken, void* argument) {
  auto attempt = std::make_unique<Attempt>(Attempt{Kind::kDequeue, c, Done{}, shared_from_this()});
  attempt->count = 1;
  attempt->taken = taken;
  attempt->taken_argument = argument;
  Submit(std::move(attempt));
}

void Queue::DequeueRows(RunContext c, Done done, int64_t count, bool fewer) {
  auto attempt = std::make_unique<Attempt>(Attempt{Kind::kDequeue, c, done, shared_from_this()});
  attempt->count = static_cast<size_t>(count);
  attempt->rows = true;
  attempt->fewer = fewer;
  Submit(std::move(attempt));
}

void Queue::Close(RunContext c, Done done) {
  Submit(std::make_unique<Attempt>(Attempt{Kind::kClose, c, done, shared_from_this()}));
}

void Queue::Submit(std::unique_ptr<Attempt> attempt) {
  Line finished, own;
  own.push_back(std::move(attempt));
  {
    const std::lock_guard lock(mutex_);
    Attempt& added = *own.front();
    const RunContext& c = added.context;
    added.token = c.services().cancel_subscribe(c.frame(), &OnCancelled, &added);
    if (added.token == 0) Fail(TENON_CANCELLED, "the step was cancelled before it came to the ", Describe());
    // From here on nothing is thrown: a cancellation knows the attempt.
    Line& line = added.kind == Kind::kDequeue ? dequeues_ : enqueues_;
    line.splice(line.end(), own);
    Advance(&finished);
  }
  Finish(std::move(finished));
}

void Queue::End(const char* why) {
  Line finished;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& attempt : enqueues_)
      if (attempt->kind == Kind::kEnqueue) attempt->failure = Failure(TENON_CANCELLED, "waiting to put an element into the ", Describe(), ": ", why);
    finished.swap(enqueues_);
    Advance(&finished);
  }
  Finish(std::move(finished));
}

void Queue::Abandon() {
  Line finished;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& attempt : dequeues_) attempt->failure = Failure(TENON_CANCELLED, "waiting for an element of the ", Describe(), ": it was taken away");
    finished.swap(dequeues_);
  }
  Finish(std::move(finished));
  End("it was taken away");
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

void Queue::Advance(Line* finished) {
  const auto serve = [finished](Line& line, auto&& tried) {
    const auto guarded = [&tried](Attempt* attempt) {
      try {
        return tried(attempt);
      } catch (...) {  // for want of memory
        attempt->failure = CurrentFailure();
        return true;
      }
    };
    bool any = false;
    while (!line.empty() && guarded(line.front().get())) {
      finished->splice(finished->end(), line, line.begin());
      any = true;
    }
    return any;
  };
  // Room lets an enqueue go on, and what it brings a dequeue; the first of a line may move on without an end.
  for (bool moved = true; moved;) {
    const size_t before = elements_.size();
    moved = serve(enqueues_, [this](Attempt* attempt) { return TryEnqueue(attempt); });
    moved = serve(dequeues_, [this](Attempt* attempt) { return TryDequeue(attempt); }) || moved || elements_.size() != before;
  }
}

bool Queue::TryEnqueue(Attempt* attempt) {
  if (closed_) {
    attempt->failure = Failure(TENON_CANCELLED, "the ", Describe(), " is closed", attempt->kind == Kind::kClose ? " already" : "");
    return true;
  }
  if (attempt->kind == Kind::kClose) return closed_ = true;
  const auto room = [this] { return options_.capacity < 0 || static_cast<int64_t>(elements_.size()) < options_.capacity; };
  while (attempt->count < attempt->elements.size() && room()) elements_.push_back(std::move(attempt->elements[attempt->count++]));
  return attempt->count == attempt->elements.size();
}

bool Queue::TryDequeue(Attempt* attempt) {
  const auto kept = static_cast<size_t>(closed_ ? 0 : options_.min_after_dequeue);
  while (attempt->elements.size() < attempt->count && elements_.size() > kept) {
    attempt->elements.emplace_back();  // first its place, so that none is lost
    attempt->elements.back() = Take();
  }
  if (attempt->elements.size() == attempt->count) return true;
  if (!closed_) return false;
  if (attempt->fewer && !attempt->elements.empty()) return true;
  const size_t left = attempt->elements.size();
  PutBack(attempt);
  attempt->failure = Failure(TENON_OUT_OF_RANGE, "the ", Describe(), " is closed and has ", left, " elements; ", attempt->count, " are wanted");
  return true;
}

Element Queue::Take() {
  if (options_.shuffle) {
    if (numbers_used_ == numbers_.size()) {
      numbers_ = random_.Next();
      numbers_used_ = 0;
    }
    // The last takes the place of the one that is taken.
    std::swap(elements_[numbers_[numbers_used_++] % elements_.size()], elements_.back());
    Element element = std::move(elements_.back());
    elements_.pop_back();
    return element;
  }
  Element element = std::move(elements_.front());
  elements_.pop_front();
  return element;
}

void Queue::PutBack(Attempt* attempt) {
  try {
    for (; !attempt->elements.empty(); attempt->elements.pop_back()) {
      if (options_.shuffle) elements_.push_back(std::move(attempt->elements.back()));
      else elements_.push_front(std::move(attempt->elements.back()));
    }
  } catch (const std::bad_alloc&) {  // those that there is no memory for go with the attempt
  }
}

// ---- Ends ----

void Queue::OnCancelled(void* argument, tenon_status* why) {
  auto* const cancelled = static_cast<Attempt*>(argument);  // lives: who finishes it waits for this to return
  const std::shared_ptr<Queue> queue = cancelled->queue;
  Line finished;
  {
    const std::lock_guard lock(queue->mutex_);
    Line& line = cancelled->kind == Kind::kDequeue ? queue->dequeues_ : queue->enqueues_;
    const auto at = std::find_if(line.begin(), line.end(), [cancelled](const auto& each) { return each.get() == cancelled; });
    if (at == line.end()) return tenon_plugin_host->status_release(why);  // it ends just now
    if (cancelled->kind == Kind::kDequeue) queue->PutBack(cancelled);
    cancelled->failure = why;
    finished.splice(finished.end(), line, at);
    queue->Advance(&finished);
  }
  Finish(std::move(finished));
}

void Queue::GiveOutputs(Attempt* attempt) {
  const RunContext& c = attempt->context;
  for (size_t i = 0; i < options_.types.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (!attempt->rows) {
      attempt->elements[0][i].Give(c, index);
      continue;
    }
    std::vector<int64_t> shape = options_.shapes[i].dims();
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] >= 0) continue;
      shape[dim] = 0;
      for (const Element& element : attempt->elements) shape[dim] = std::max(shape[dim], element[i].view().dl.shape[dim]);
    }
    GiveRows(c, index, options_.types[i], attempt->elements, shape);
  }
}

// The attempt is not in line any more; it ends with this.
void Queue::GiveTaken(Attempt* attempt, tenon_status* failure) {
  if (failure != nullptr) return attempt->taken(attempt->taken_argument, failure, nullptr, 0);
  std::vector<tenon_tensor_view> views;
  try {
    for (const Component& component : attempt->elements[0]) views.push_back(component.view());
  } catch (...) {
    return attempt->taken(attempt->taken_argument, CurrentFailure(), nullptr, 0);
  }
  attempt->taken(attempt->taken_argument, nullptr, views.data(), views.size());
}

void Queue::Finish(Line finished) {
  for (auto& attempt : finished) {
    const RunContext& c = attempt->context;
    (void)c.services().cancel_unsubscribe(c.frame(), attempt->token);
    const std::shared_ptr<Queue> queue = attempt->queue;
    tenon_status* failure = attempt->failure;
    if (attempt->taken != nullptr) {
      GiveTaken(attempt.get(), failure);
      continue;
    }
    if (attempt->kind == Kind::kDequeue && failure == nullptr) {
      try {
        queue->GiveOutputs(attempt.get());
      } catch (...) {
        failure = CurrentFailure();
      }
    }
    Line freed;
    if (attempt->kind == Kind::kDequeue && failure != nullptr && !attempt->elements.empty()) {
      // Somebody else may have memory for them.
      const std::lock_guard lock(queue->mutex_);
      queue->PutBack(attempt.get());
      queue->Advance(&freed);
    }
    const Done done = attempt->done;
    attempt.reset();  // the frame ends with done
    done(failure);
    Finish(std::move(freed));
  }
}

}  // namespace tenon::ops

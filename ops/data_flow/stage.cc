// SPDX-License-Identifier: Apache-2.0
#include "stage.h"

#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

int64_t BytesOf(const tenon_tensor_view& view) {
  if (view.dtype != TENON_DT_STRING) return static_cast<int64_t>(view.byte_size);
  int64_t bytes = 0;
  for (const std::string_view text : StringsOf(view)) bytes += 24 + static_cast<int64_t>(text.size());
  return bytes;
}

int64_t BytesOf(const Element& element) {
  int64_t bytes = 0;
  for (const Component& component : element) bytes += BytesOf(component.view());
  return bytes;
}

void Stage::CheckFits(int64_t bytes) const {
  if (options_.memory_limit != 0 && bytes > options_.memory_limit)
    Fail(TENON_RESOURCE_EXHAUSTED, "the ", Describe(), " takes ", options_.memory_limit,
         " bytes in all, its memory_limit; these are ", bytes);
}

class QueueStage::Putting final : public Attempt {
 public:
  Putting(QueueStage& stage, RunContext c, Done done, Element element)
      : Attempt(kPut, c, done), stage_(stage), element_(std::move(element)), bytes_(BytesOf(element_)) {
    stage_.CheckFits(bytes_);
  }
  Progress Try() override {
    if (!stage_.HasRoom(stage_.elements_.size()) || !stage_.HasMemory(bytes_)) return Progress::kNone;
    stage_.elements_.push_back(std::move(element_));
    stage_.bytes_ += bytes_;
    return Progress::kEnd;
  }
  std::string Waiting() const override { return Concat("waiting for room in the ", stage_.Describe()); }

 private:
  QueueStage& stage_;
  Element element_;
  const int64_t bytes_;
};

// Takes the first, or looks at one (index >= 0).
class QueueStage::Taking final : public Attempt {
 public:
  Taking(QueueStage& stage, RunContext c, Done done, std::vector<uint32_t> types, int64_t index)
      : Attempt(kTake, c, done), stage_(stage), types_(std::move(types)), index_(index) {}
  Progress Try() override {
    std::deque<Element>& elements = stage_.elements_;
    const size_t at = index_ < 0 ? 0 : static_cast<size_t>(index_);
    if (elements.size() <= at) return Progress::kNone;
    CheckTypes(elements[at]);
    if (index_ >= 0) {
      for (const Component& component : elements[at]) shared_.push_back(component.Share());
      return Progress::kEnd;
    }
    element_ = std::move(elements.front());
    elements.pop_front();
    stage_.bytes_ -= BytesOf(element_);
    return Progress::kEnd;
  }
  // Somebody else may have memory for it.
  void PutBack() noexcept override {
    if (element_.empty()) return;
    try {
      const int64_t bytes = BytesOf(element_);
      stage_.elements_.push_front(std::move(element_));
      stage_.bytes_ += bytes;
    } catch (const std::bad_alloc&) {  // goes with the attempt
    }
    element_.clear();
  }
  void GiveOutputs() override {
    const Element& element = index_ < 0 ? element_ : shared_;
    for (size_t i = 0; i < element.size(); ++i) element[i].Give(context_, static_cast<int32_t>(i));
  }
  std::string Waiting() const override { return Concat("waiting for an element of the ", stage_.Describe()); }

 private:
  void CheckTypes(const Element& element) const {
    bool same = element.size() == types_.size();
    for (size_t i = 0; same && i < types_.size(); ++i) same = element[i].view().dtype == types_[i];
    if (same) return;
    std::string held, asked;
    for (const Component& component : element) held += Concat(" ", TypeName(component.view().dtype));
    for (const uint32_t dtype : types_) asked += Concat(" ", TypeName(dtype));
    Fail(TENON_INVALID_ARGUMENT, "the ", stage_.Describe(), " has an element of the types", held, ", not", asked);
  }
  QueueStage& stage_;
  const std::vector<uint32_t> types_;
  const int64_t index_;
  Element element_, shared_;
};

void QueueStage::Put(RunContext c, Done done, Element element) {
  Submit(std::make_unique<Putting>(*this, c, done, std::move(element)));
}
void QueueStage::Take(RunContext c, Done done, std::vector<uint32_t> types) {
  Submit(std::make_unique<Taking>(*this, c, done, std::move(types), -1));
}
void QueueStage::Peek(RunContext c, Done done, std::vector<uint32_t> types, int64_t index) {
  Submit(std::make_unique<Taking>(*this, c, done, std::move(types), index));
}

int64_t QueueStage::Size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(elements_.size());
}

void QueueStage::Clear() {
  std::deque<Element> gone;
  Ended ended;
  const std::lock_guard lock(mutex_);
  gone.swap(elements_);
  bytes_ = 0;
  Advance(&ended);
}

}  // namespace tenon::ops

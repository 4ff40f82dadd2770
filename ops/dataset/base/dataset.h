// SPDX-License-Identifier: Apache-2.0
// Datasets and iterators: what a pipeline is, and one pass over it.
//
// A Dataset is immutable and lives in a variant (tenon_work_services.variant_hold); it holds the datasets that it takes
// from, and its functions. An Iterator is one pass, made by NewIterator(); those of one pipeline form a tree, which
// shares a Pass.
//
// Rules. One thread at a time calls an iterator's Next(). A failure is thrown (kernel.h) and loses nothing but the
// element that failed: the next call goes on behind it. After the end every call says end. Whoever may wait, or work
// long, says so (Dataset::waits), so that nobody does on a thread that others need. What waits in an iterator wakes
// when the pass is cancelled. Iterators that have tasks under way join them when they go.
#ifndef TENON_OPS_DATASET_BASE_DATASET_H_
#define TENON_OPS_DATASET_BASE_DATASET_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/element.h"
#include "tenon/extras/kernel/charge.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/kernel/work.h"

namespace tenon::ops {

inline constexpr int64_t kInfinite = -1, kUnknown = -2;  // cardinalities, as TensorFlow writes them
inline constexpr int64_t kAutotune = -1;  // "as many as is good", for a number of calls or a buffer's size

inline constexpr int64_t kFew =
    4096;  // elements, or passes over nothing, for which nobody needs a thread (Dataset::waits)

class Dataset;

// What the iterators of one tree share; outlives them. Where a function gives a dataset in the middle of a pass, what
// is opened of that is a tree of its own, with a pass within the outer one.
class Pass {
 public:
  // Over that dataset, whose iterators are charged as long as the pass lives.
  // resting: nothing is made ahead of what is asked for until Go().
  // frames: what kernels of this host may ask for, by which variants that ops made are looked into.
  Pass(const sdk::Work& work, const Dataset& dataset, bool resting = false,
       const tenon_frame_services* frames = nullptr);
  // Over what a function gave in the outer pass, which outlives this. RESOURCE_EXHAUSTED, thrown: passes lie in one
  // another deeper than Dataset::kMostDepth.
  Pass(const Pass& outer, const Dataset& dataset);
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  const sdk::Work& work() const { return work_; }
  const sdk::Account& account() const { return account_; }
  const tenon_frame_services* frames() const { return frames_; }
  bool cancelled() const { return outermost_.given_up_.load(std::memory_order_relaxed) || work_.cancelled(); }
  // Nobody will ask any more. Any thread. This, and what follows, of the outermost one.
  void GiveUp() { given_up_.store(true, std::memory_order_relaxed); }
  bool resting() const { return outermost_.resting_; }
  void Go() { resting_ = false; }  // before the pass has tasks
  // Fails when nobody wants elements any more.
  void CheckCancelled() const {
    if (cancelled()) [[unlikely]] sdk::Fail(TENON_CANCELLED, "the iterator was given up");
  }

 private:
  const sdk::Work work_;
  const sdk::Account account_;
  const tenon_frame_services* const frames_;
  const Pass& outermost_;
  const int depth_;  // of the datasets of the passes that it lies in, and its own
  const sdk::Charge charge_;
  bool resting_;
  std::atomic<bool> given_up_ = false;
};

class Archive;
class RowBatch;

class Iterator {
 public:
  enum class Poll { kElement, kEnd, kLater };

  virtual ~Iterator() = default;
  // False at the end.
  virtual bool Next(Element* out) = 0;
  // The same where it can be said without waiting; otherwise kLater, and nothing happened.
  virtual Poll TryNext(Element*) { return Poll::kLater; }
  // Puts some of the next elements into a batch that is not full (row_batch.h), where that costs less than Next() for
  // each. False: none, and whether there are any Next() says.
  virtual bool NextInto(RowBatch&) { return false; }
  // Writes what the next elements depend on; or reads it, whatever this one stood at, and goes on there (archive.h).
  // Nobody calls Next() meanwhile, and what it has under way waits. Thrown: UNIMPLEMENTED, it cannot; INVALID_ARGUMENT,
  // what is read does not fit, and the iterator is good for nothing any more.
  virtual void State(Archive& archive);
};
using IteratorPtr = std::unique_ptr<Iterator>;

using DatasetPtr = std::shared_ptr<const Dataset>;

class Dataset {
 public:
  // Datasets that lie in one another, at most: each level takes a piece of a thread's stack. And iterators of one pass,
  // which are more where a dataset is taken from twice.
  static constexpr int kMostDepth = 1000;
  static constexpr int64_t kMostIterators = 100'000;

  // What every dataset's node says of it.
  struct Node {
    // With attributes output_types and output_shapes, or (files) strings.
    explicit Node(sdk::CreateContext& c, bool strings = false, std::string_view types_attr = "output_types");
    // Of a dataset that no node made.
    Node(std::string name, std::vector<uint32_t> its_types, std::vector<sdk::Shape> its_shapes)
        : who(std::move(name)), types(std::move(its_types)), shapes(std::move(its_shapes)) {}
    std::string who;
    std::vector<uint32_t> types;
    std::vector<sdk::Shape> shapes;
  };

  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual IteratorPtr NewIterator(const Pass& pass) const = 0;
  // Whether its elements can be had by their numbers: nullptr, or what of the pipeline (who()) they cannot be had of.
  virtual const Dataset* WithoutNumbers() const { return this; }
  // Element `number`, which is less than the cardinality. Any thread. FAILED_PRECONDITION, thrown: it is
  // WithoutNumbers().
  virtual Element At(const Pass& pass, int64_t number) const;
  // The number of elements, kInfinite or kUnknown.
  virtual int64_t Cardinality() const { return kUnknown; }

  // Of a dataset that reads files itself: the same of each shards-th file from file `index` on. nullptr of others.
  virtual std::shared_ptr<const Dataset> ShardOfFiles(int64_t, int64_t) const { return nullptr; }

  const std::vector<uint32_t>& types() const { return types_; }
  const std::vector<sdk::Shape>& shapes() const { return shapes_; }
  int depth() const { return depth_; }
  int64_t iterators() const { return iterators_; }  // of one pass
  // The memory of this one, from the first time on that it is given to others, which is before two threads have it.
  void ChargeTo(const sdk::Account& account) const;
  // Whether to make an element may take long: it may wait, or there may be much to do.
  bool waits() const { return waits_; }
  const std::string& who() const { return who_; }  // "MapDataset 'node'", for messages
  std::string_view kind() const { return std::string_view(who_).substr(0, who_.find(' ')); }

 protected:
  Dataset(const Node& node, const std::vector<DatasetPtr>& inputs, bool waits);

 private:
  const std::string who_;
  const std::vector<uint32_t> types_;
  const std::vector<sdk::Shape> shapes_;
  int depth_ = 1;
  int64_t iterators_ = 1;
  bool waits_;
  mutable bool charged_ = false;
  mutable sdk::Charge charge_;
};

// ---- In kernels ----

// The dataset in a scalar variant. INVALID_ARGUMENT, thrown: it is none.
DatasetPtr DatasetIn(const tenon_work_services& services, const tenon_tensor_view& view, std::string_view what);
DatasetPtr DatasetOf(const sdk::RunContext& c, int32_t input);
std::vector<DatasetPtr> DatasetsOf(const sdk::RunContext& c, int32_t first, int32_t count);
// As output `index`, which is dynamic.
void SetDataset(const sdk::RunContext& c, int32_t index, DatasetPtr dataset);
// As an element's component.
sdk::KeptTensor NewDataset(const sdk::Work& work, DatasetPtr dataset);

// The kernel of an op that makes a D: D::Attrs is made of the node, D of that and the inputs.
template <class D>
struct MakeDataset {
  explicit MakeDataset(sdk::CreateContext& c) : attrs(c) {}
  void Run(sdk::RunContext c) const { SetDataset(c, 0, std::make_shared<const D>(attrs, c)); }
  typename D::Attrs attrs;
};
inline constexpr sdk::Traits kMakesDataset = {.dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = UINT64_MAX};

// An input that is one int64 or bool.
inline int64_t IntOf(const sdk::RunContext& c, int32_t input) { return *c.input<int64_t>(input); }
inline bool BoolOf(const sdk::RunContext& c, int32_t input) { return *c.input<bool>(input); }

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_DATASET_H_

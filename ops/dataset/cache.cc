// SPDX-License-Identifier: Apache-2.0
// CacheDataset: the elements of the first whole pass, kept in memory, are those of the later ones.
#include <mutex>

#include "iterate.h"
#include "op.h"
#include "step_object.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// What a pass has kept; whole once a pass came to its end. Any thread.
class MemoryCache {
 public:
  std::shared_ptr<const std::vector<Element>> whole() const {
    const std::lock_guard lock(mutex_);
    return whole_;
  }
  void Complete(std::vector<Element> elements) {
    const std::lock_guard lock(mutex_);
    if (whole_ == nullptr) whole_ = std::make_shared<const std::vector<Element>>(std::move(elements));
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<Element>> whole_;
};
using CachePtr = std::shared_ptr<MemoryCache>;

constexpr tenon_span kCacheType = TENON_SPAN("tenon.MemoryCache/1");

// The cache in input `input`, which datasets share; where that is none (DummyMemoryCache), a new one.
CachePtr CacheOf(const RunContext& c, int32_t input) {
  CachePtr shared = ObjectIfThere<MemoryCache>(c, input, kCacheType);
  return shared != nullptr ? shared : std::make_shared<MemoryCache>();
}

template <bool kHandle>
struct CacheDataset final : OverOne {
  CacheDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, false), cache(kHandle ? CacheOf(c, 2) : std::make_shared<MemoryCache>()) {
    if (const std::string_view file = StringAt(c.input_view(1), 0); !file.empty())
      Fail(TENON_UNIMPLEMENTED, who(), ": a cache in files ('", file, "') is not supported; an empty filename keeps the elements in memory");
  }
  int64_t Cardinality() const override { return input->Cardinality(); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Cached final : Iterator {
      Cached(const CacheDataset& of, const Pass& in) : dataset(of), pass(in), kept(of.cache->whole()) {
        if (kept == nullptr) from = of.input->NewIterator(in);
      }
      bool Next(Element* out) override {
        if (kept != nullptr) {
          if (at >= kept->size()) return false;
          *out = Share((*kept)[at++]);
          return true;
        }
        if (from == nullptr) return false;
        if (from->Next(out)) {
          elements.push_back(Share(*out));
          return true;
        }
        dataset.cache->Complete(std::move(elements));
        from.reset();
        return false;
      }
      Poll TryNext(Element* out) override { return kept == nullptr ? Poll::kLater : Next(out) ? Poll::kElement : Poll::kEnd; }
      // With the elements that it has, which are not there where it is read.
      void State(Archive& archive) override {
        bool whole = kept != nullptr;
        archive.Flag(whole);
        if (!whole) {
          if (archive.reading()) kept.reset();
          archive.Of(*dataset.input, from);
          return archive.Elements(elements);
        }
        from.reset();
        std::vector<Element> all;
        if (!archive.reading()) {
          for (const Element& element : *kept) all.push_back(Share(element));
        }
        archive.Elements(all);
        if (archive.reading()) {
          dataset.cache->Complete(std::move(all));
          kept = dataset.cache->whole();
        }
        archive.Number(at, 0, static_cast<int64_t>(kept->size()));
      }
      const CacheDataset& dataset;
      const Pass& pass;
      std::shared_ptr<const std::vector<Element>> kept;
      IteratorPtr from;
      std::vector<Element> elements;
      size_t at = 0;
    };
    return std::make_unique<Cached>(*this, pass);
  }
  const CachePtr cache;
};

constexpr tenon_span kHandleType = TENON_SPAN("memory_cache");

struct AnonymousCache {
  void Run(RunContext c) const { GiveObject(c, kHandleType, kCacheType, std::make_shared<MemoryCache>()); }
};
struct DummyCache {
  void Run(RunContext c) const { GiveHandle(c, kHandleType); }
};
struct DeleteCache {
  void Run(RunContext) const {}
};

}  // namespace

TENON_KERNEL(kCacheDatasetKernel) = Registration<MakeDataset<CacheDataset<false>>>("CacheDataset", kMakesDataset);
TENON_KERNEL(kCacheDatasetV2Kernel) = Registration<MakeDataset<CacheDataset<true>>>("CacheDatasetV2", kMakesDataset);
TENON_KERNEL(kAnonymousMemoryCacheKernel) = Registration<AnonymousCache>("AnonymousMemoryCache", {.dynamic_outputs = 2});
TENON_KERNEL(kDummyMemoryCacheKernel) = Registration<DummyCache>("DummyMemoryCache", {});
TENON_KERNEL(kDeleteMemoryCacheKernel) = Registration<DeleteCache>("DeleteMemoryCache", {});

TENON_OP(kCacheDataset) = DefineDataset({
    .name = "CacheDataset",
    .inputs = "input_dataset: variant, filename: string",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(filename) == 0",
    .doc = "The elements, which the first whole pass keeps in memory for the later ones. filename must be empty.",
});

TENON_OP(kCacheDatasetV2) = DefineDataset({
    .name = "CacheDatasetV2",
    .inputs = "input_dataset: variant, filename: string, cache: resource",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(filename) == 0",
    .doc = "The elements, which the first whole pass keeps in memory for the later ones. filename must be empty.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kAnonymousMemoryCache) = DefineOp({
    .name = "AnonymousMemoryCache",
    .outputs = "handle: resource, deleter: variant",
    .doc = "Memory for a cached dataset's elements, which datasets share.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kDummyMemoryCache) = DefineOp({
    .name = "DummyMemoryCache",
    .outputs = "handle: resource",
    .doc = "No memory: a dataset that gets it has its own.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kDeleteMemoryCache) = DefineOp({
    .name = "DeleteMemoryCache",
    .inputs = "handle: resource, deleter: variant",
    .doc = "Does nothing: a cache ends with its step and the datasets that have it.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
});

}  // namespace tenon::ops

// SPDX-License-Identifier: Apache-2.0
// CacheDataset: the elements of the first whole pass, kept in memory or in a file, are those of the later ones.
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "base/op.h"
#include "base/over_one.h"
#include "base/step_object.h"
#include "storage/element_file.h"

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

// ---- In a file ----

// One that no other pass writes.
std::string PartOf(const std::string& file) {
  static std::atomic<uint64_t> number = 0;
  return Concat(file, ".part_", getpid(), "_", number++);
}

// The elements of a file, where it is there; else those of the input, which becomes that file once it has come to its
// end. So passes that write beside one another do no harm, and a pass that is left leaves no file.
struct FileIterator final : OverIterator<OverOne, true> {
  FileIterator(const OverOne& of, const Pass& in, const std::string& its_file) : OverIterator(of, in), file(its_file) {}
  bool Next(Element* out) override {
    if (!begun) Begin();
    if (reader.has_value()) return reader->Next(out);
    if (from == nullptr) return false;
    if (from->Next(out)) {
      if (writer.has_value()) Keep(*out);
      return true;
    }
    from.reset();
    if (writer.has_value()) {
      writer->Close();
      Rename(HostFiles(), part, file);
      SyncFolderOf(HostFiles(), file);
    }
    return false;
  }
  // A pass that was writing goes on without: what it wrote is not there where it is read.
  void SaveOrLoad(Archive& archive) override {
    bool reads = reader.has_value();
    archive.Flag(reads);
    uint64_t position = reads ? reader->position() : 0;
    archive.Number(position);
    archive.Flag(begun);
    if (!archive.reading()) return;
    writer.reset();
    reader.reset();
    if (!reads) return;
    from.reset();
    Open();
    reader->SeekTo(position);
  }

 private:
  // Where the file fails, the elements come all the same, behind that failure.
  void Begin() {
    begun = true;
    if (HostFiles().exists(ToSpan(file)) != 0) {
      Open();
      from.reset();
    } else if (!writer.has_value()) {
      part = PartOf(file);
      writer.emplace(part, "");
    }
  }
  void Open() { reader.emplace(pass, file, "", dataset.types()); }
  // A file that cannot be written fails one element, and no more are kept.
  void Keep(const Element& element) {
    try {
      writer->Write(element);
    } catch (...) {
      writer.reset();
      throw;
    }
  }
  const std::string& file;
  std::string part;
  std::optional<ElementReader> reader;
  std::optional<ElementWriter> writer;
  bool begun = false;
};

template <bool kHandle>
struct CacheDataset final : OverOne {
  CacheDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, !StringAt(c.input_view(1), 0).empty()),
        file(StringAt(c.input_view(1), 0)),
        cache(kHandle ? CacheOf(c, 2) : std::make_shared<MemoryCache>()) {
    if (!file.empty()) file += ".elements";
  }
  int64_t Cardinality() const override { return input->Cardinality(); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    if (!file.empty()) return std::make_unique<FileIterator>(*this, pass, file);
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
      Poll TryNext(Element* out) override {
        return kept == nullptr ? Poll::kLater : Next(out) ? Poll::kElement : Poll::kEnd;
      }
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
  std::string file;  // "": in memory
  const CachePtr cache;
};

constexpr tenon_span kCacheHandle = TENON_SPAN("memory_cache");

struct AnonymousCache {
  void Run(RunContext c) const { GiveObject(c, kCacheHandle, kCacheType, std::make_shared<MemoryCache>()); }
};
struct DummyCache {
  void Run(RunContext c) const { GiveHandle(c, kCacheHandle); }
};
struct DeleteCache {
  void Run(RunContext) const {}
};

}  // namespace

TENON_KERNEL(kCacheDatasetKernel) = Registration<MakeDataset<CacheDataset<false>>>("CacheDataset", kMakesDataset);
TENON_KERNEL(kCacheDatasetV2Kernel) = Registration<MakeDataset<CacheDataset<true>>>("CacheDatasetV2", kMakesDataset);
TENON_KERNEL(kAnonymousMemoryCacheKernel) = Registration<AnonymousCache>("AnonymousMemoryCache",
                                                                         {.dynamic_outputs = 2});
TENON_KERNEL(kDummyMemoryCacheKernel) = Registration<DummyCache>("DummyMemoryCache", {});
TENON_KERNEL(kDeleteMemoryCacheKernel) = Registration<DeleteCache>("DeleteMemoryCache", {});

static constexpr std::string_view kCacheDoc =
    "The elements, which the first whole pass keeps for the later ones: in memory, or, where filename is not empty, in "
    "the file filename.elements, which later sessions read too.";

TENON_OP(kCacheDataset) = DefineDataset({
    .name = "CacheDataset",
    .inputs = "input_dataset: variant, filename: string",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "path(filename); rank(filename) == 0",
    .doc = kCacheDoc,
    .traits = TENON_OP_IO,
});

TENON_OP(kCacheDatasetV2) = DefineDataset({
    .name = "CacheDatasetV2",
    .inputs = "input_dataset: variant, filename: string, cache: resource",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "path(filename); rank(filename) == 0",
    .doc = kCacheDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
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

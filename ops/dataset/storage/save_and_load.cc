// SPDX-License-Identifier: Apache-2.0
// Datasets in folders, as tf.data's save() and load() have them: SaveDataset, SaveDatasetV2, LoadDataset.
//
// PATH/snapshot.metadata names the run, the types and how many elements there are;
// PATH/RUN/00000003.shard/00000000.snapshot, ...00000001.snapshot, ... are the elements of shard 3 (element_file.h).
// What is there before the metadata is of a run that did not come to its end; they are written last, at once.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "base/archive.h"
#include "base/captured_function.h"
#include "base/held_elements.h"
#include "base/op.h"
#include "base/over_one.h"
#include "storage/element_file.h"
#include "tenon/bytes/wire.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr int64_t kMostShards = 1000;  // open files
constexpr uint64_t kMostMetadata = 1 << 20;  // bytes
constexpr int64_t kSavedFormat = 2;

// TensorFlow's SnapshotMetadataRecord.
struct Metadata {
  static constexpr uint32_t kRun = 2, kCreated = 3, kVersion = 4, kTypes = 5, kElements = 6, kFinalized = 1000;
  std::string run;
  std::vector<uint32_t> types;
  int64_t elements = 0;

  static std::string PathIn(std::string_view folder) { return Concat(folder, "/snapshot.metadata"); }

  std::string Serialize() const {
    std::string packed;
    for (const uint32_t type : types) PutVarint(packed, type);
    WireWriter w;
    w.Bytes(kRun, run);
    w.Varint(kCreated, static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                                 std::chrono::system_clock::now().time_since_epoch())
                                                 .count()));
    w.Varint(kVersion, kSavedFormat);
    w.Bytes(kTypes, packed);
    w.Varint(kElements, static_cast<uint64_t>(elements));
    w.Varint(kFinalized, 1);
    return w.bytes();
  }

  static Metadata Read(const std::string& who, std::string_view folder) {
    const std::string path = PathIn(folder);
    std::optional<File> file = File::IfThere(HostFiles(), path);
    if (!file.has_value())
      Fail(TENON_NOT_FOUND, who, ": Could not find metadata file [", path, "]: no dataset was saved in ", folder,
           ", or not to its end");
    const uint64_t size = file->size();
    if (size > kMostMetadata)
      Fail(TENON_DATA_LOSS, path, " has ", size, " bytes, which are no metadata of a saved dataset");
    std::string bytes(size, '\0');
    file->ReadAt(0, bytes.data(), size);
    Metadata read;
    int64_t version = 0;
    bool finalized = false;
    WireReader r(bytes);
    while (r.Next()) {
      if (r.field() == kRun) read.run = std::string(r.delimited());
      else if (r.field() == kVersion) version = static_cast<int64_t>(r.varint());
      else if (r.field() == kElements) read.elements = static_cast<int64_t>(r.varint());
      else if (r.field() == kFinalized) finalized = r.varint() != 0;
      else if (r.field() == kTypes) {
        if (!r.is_bytes()) {
          read.types.push_back(static_cast<uint32_t>(r.number()));
          continue;
        }
        std::string_view packed = r.bytes();
        for (uint64_t type = 0; !packed.empty() && TakeVarint(packed, &type);)
          read.types.push_back(static_cast<uint32_t>(type));
      }
    }
    if (!r.ok()) Fail(TENON_DATA_LOSS, path, " is damaged");
    if (!finalized) Fail(TENON_FAILED_PRECONDITION, who, ": the dataset in ", folder, " was not saved to its end");
    if (version != kSavedFormat)
      Fail(TENON_UNIMPLEMENTED, path, " is of format ", version, "; format ", kSavedFormat, " is supported");
    // It becomes a part of paths.
    if (read.run.empty() || read.run.find_first_not_of("0123456789") != std::string::npos)
      Fail(TENON_DATA_LOSS, path, " is damaged: the run is '", read.run, "', which is no number");
    return read;
  }
};

std::string Eight(int64_t number) {
  std::string digits = std::to_string(number);
  return std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

std::string FileOf(std::string_view shard, int64_t number) { return Concat(shard, "/", Eight(number), ".snapshot"); }

// ---- Written ----

// Elements into their shards' files.
class Saver {
 public:
  Saver(std::string folder, std::string compression)
      : folder_(std::move(folder)), compression_(std::move(compression)) {
    std::random_device random;
    metadata_.run = std::to_string(std::uniform_int_distribution<uint64_t>()(random));
    MakeFolders(HostFiles(), Run());
  }
  void Save(const Element& element, int64_t shard, const std::string& who) {
    auto at = shards_.find(shard);
    if (at == shards_.end()) {
      if (shard < 0 || static_cast<int64_t>(shards_.size()) >= kMostShards)
        Fail(TENON_INVALID_ARGUMENT, who, ": shard_func gave ", shard, "; up to ", kMostShards,
             " shards, counted from 0, can be written");
      const std::string path = Concat(Run(), "/", Eight(shard), ".shard");
      MakeFolders(HostFiles(), path);
      at = shards_.try_emplace(shard, FileOf(path, 0), compression_).first;
    }
    at->second.Write(element);
    ++metadata_.elements;
  }
  void Finish(const std::vector<uint32_t>& types) {
    for (auto& [shard, writer] : shards_) writer.Close();
    for (const auto& [shard, writer] : shards_)
      SyncFolderOf(HostFiles(), FileOf(Concat(Run(), "/", Eight(shard), ".shard"), 0));
    metadata_.types = types;
    const std::string path = Metadata::PathIn(folder_), part = Concat(path, ".part_", metadata_.run),
                      bytes = metadata_.Serialize();
    File file = File::ForWriting(HostFiles(), part);
    file.Write(bytes.data(), bytes.size());
    file.SyncAndClose();
    Rename(HostFiles(), part, path);
    SyncFolderOf(HostFiles(), path);
  }

 private:
  std::string Run() const { return Concat(folder_, "/", metadata_.run); }

  const std::string folder_, compression_;
  Metadata metadata_;
  std::map<int64_t, ElementWriter> shards_;
};

std::string PathOf(const std::string& who, const RunContext& c, int32_t input) {
  const std::string_view path = StringAt(c.input_view(input), 0);
  if (path.empty()) Fail(TENON_INVALID_ARGUMENT, who, ": the path is empty");
  return std::string(path);
}

struct SaveWhole {
  explicit SaveWhole(CreateContext& c)
      : shard(c, "shard_func"),
        compression(c.String("compression")),
        shards(c.Bool("use_shard_func")),
        who(Concat(c.op(), " '", c.name(), "'")) {}
  void Run(RunContext c) const {
    CheckElementCompression(who, compression);
    const DatasetPtr dataset = DatasetOf(c, 0);
    const Captured shard_of(shard, who, c, 2);
    const Pass pass(Work(c), *dataset);
    Saver saver(PathOf(who, c, 1), compression);
    const IteratorPtr iterator = dataset->NewIterator(pass);
    for (Element element; iterator->Next(&element);) {
      c.CheckCancelled();
      saver.Save(element, shards ? shard_of.Count(pass, element) : 0, who);
    }
    saver.Finish(dataset->types());
  }
  Function shard;
  std::string compression;
  bool shards;
  std::string who;
};

// The elements, each of which is written before it is given.
struct SavedDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c)
        : OverOne::Attrs(c),
          shard(c, "shard_func"),
          compression(c.String("compression")),
          shards(c.Bool("use_shard_func")) {}
    Function shard;
    std::string compression;
    bool shards;
  };
  SavedDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true),
        path(PathOf(who(), c, 1)),
        shard(attrs.shard, who(), c, 2),
        compression(attrs.compression),
        shards(attrs.shards) {
    CheckElementCompression(who(), compression);
  }
  int64_t Cardinality() const override { return input->Cardinality(); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Each final : Iterator {
      Each(const SavedDataset& of, const Pass& in) : dataset(of), pass(in), from(of.input->NewIterator(in)) {}
      // What fails in here leaves something out: then nothing is saved, and the pass ends.
      bool Next(Element* out) override {
        if (ended) return false;
        ended = true;
        if (saver == nullptr) saver = std::make_unique<Saver>(dataset.path, dataset.compression);
        try {
          if (from->Next(out)) {
            saver->Save(*out, dataset.shards ? dataset.shard.Count(pass, *out) : 0, dataset.who());
            ended = false;
            return true;
          }
          saver->Finish(dataset.types());
        } catch (...) {
          saver.reset();
          throw;
        }
        saver.reset();
        return false;
      }
      void State(Archive&) override {
        Fail(TENON_UNIMPLEMENTED, "the state of ", dataset.who(),
             " cannot be kept: what it has written is not a whole dataset yet");
      }
      const SavedDataset& dataset;
      const Pass& pass;
      const IteratorPtr from;
      std::unique_ptr<Saver> saver;
      bool ended = false;
    };
    return std::make_unique<Each>(*this, pass);
  }
  const std::string path;
  const Captured shard;
  const std::string compression;
  const bool shards;
};

// ---- And read ----

// The elements of one shard, file after file.
struct ShardOfSaved final : Dataset {
  ShardOfSaved(const Node& node, std::string its_folder, std::string its_compression)
      : Dataset(node, {}, true), folder(std::move(its_folder)), compression(std::move(its_compression)) {}
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Each final : Iterator {
      Each(const ShardOfSaved& of, const Pass& in) : dataset(of), pass(in) {}
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          if (!reader.has_value() && !Open()) return false;
          if (reader->Next(out)) return true;
          reader.reset();
          ++number;
        }
      }
      bool Open() {
        const std::string path = FileOf(dataset.folder, number);
        if (HostFiles().exists(ToSpan(path)) == 0) return false;
        reader.emplace(pass, path, dataset.compression, dataset.types());
        return true;
      }
      void State(Archive& archive) override {
        archive.Number(number);
        bool open = reader.has_value();
        archive.Flag(open);
        uint64_t position = open ? reader->position() : 0;
        archive.Number(position);
        if (!archive.reading()) return;
        reader.reset();
        if (!open) return;
        if (!Open()) archive.Refuse(Concat("there is no ", FileOf(dataset.folder, number)));
        reader->SeekTo(position);
      }
      const ShardOfSaved& dataset;
      const Pass& pass;
      int64_t number = 0;
      std::optional<ElementReader> reader;
    };
    return std::make_unique<Each>(*this, pass);
  }
  const std::string folder, compression;
};

struct LoadDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c), reader(c, "reader_func"), compression(c.String("compression")) {}
    Function reader;
    std::string compression;
  };
  LoadDataset(const Attrs& attrs, const RunContext& c)
      : Dataset(attrs, {}, true),
        path(PathOf(who(), c, 0)),
        reader(attrs.reader, who(), c, 1),
        compression(attrs.compression),
        metadata(Metadata::Read(who(), path)) {
    CheckElementCompression(who(), compression);
    if (metadata.types != types()) {
      std::string saved;
      for (const uint32_t type : metadata.types) saved += Concat(saved.empty() ? "" : ", ", TypeName(type));
      Fail(TENON_INVALID_ARGUMENT, who(), ": the dataset in ", path, " has components of ", saved,
           ", which are not the node's output_types");
    }
  }
  int64_t Cardinality() const override { return metadata.elements; }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Loaded final : Iterator {
      Loaded(const LoadDataset& of, const Pass& in) : dataset(of), pass(in) {}
      bool Next(Element* out) override {
        if (!from.is_open()) Open();
        return from->Next(out);
      }
      void Open() {
        Element argument;
        argument.push_back(NewDataset(pass.work(), dataset.Shards(pass.work())));
        from.Open(pass, dataset.reader.CallForDataset(pass, argument, dataset.types()));
      }
      void State(Archive& archive) override {
        std::string run = dataset.metadata.run;
        archive.Text(run, 64);
        if (run != dataset.metadata.run)
          archive.Refuse(Concat("the dataset in ", dataset.path, " was saved anew since"));
        bool open = from.is_open();
        archive.Flag(open);
        if (archive.reading()) from.Close();
        if (!open) return;
        if (archive.reading()) Open();
        from.State(archive);
      }
      const LoadDataset& dataset;
      const Pass& pass;
      Opened from;
    };
    return std::make_unique<Loaded>(*this, pass);
  }

  // A dataset of the shards' datasets, in the order of their names.
  DatasetPtr Shards(const Work& work) const {
    const std::string folder = Concat(path, "/", metadata.run);
    std::vector<std::string> names;
    Check(HostFiles().list(
        ToSpan(folder),
        [](void* all, tenon_span name) { static_cast<std::vector<std::string>*>(all)->emplace_back(ToText(name)); },
        &names));
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".shard"); });
    std::sort(names.begin(), names.end());
    std::vector<Element> elements;
    for (const std::string& name : names) {
      elements.emplace_back();
      elements.back().push_back(
          NewDataset(work, std::make_shared<const ShardOfSaved>(Node(who(), types(), shapes()),
                                                                Concat(folder, "/", name), compression)));
    }
    return std::make_shared<const Held>(Node(who(), {TENON_DT_VARIANT}, {Shape::Scalar()}), std::move(elements));
  }

  const std::string path;
  const Captured reader;
  const std::string compression;
  const Metadata metadata;
};

constexpr Traits kReadsFiles = {
    .flags = TENON_KERNEL_BLOCKING, .dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = UINT64_MAX};

}  // namespace

TENON_KERNEL(kSaveDatasetKernel) = Registration<SaveWhole>("SaveDataset", kReadsFiles);
TENON_KERNEL(kSaveDatasetV2Kernel) = Registration<MakeDataset<SavedDataset>>("SaveDatasetV2", kMakesDataset);
TENON_KERNEL(kLoadDatasetKernel) = Registration<MakeDataset<LoadDataset>>("LoadDataset", kReadsFiles);

TENON_OP(kSaveDataset) = DefineOp({
    .name = "SaveDataset",
    .inputs = "input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args",
    .attrs = "compression: string = ''; shard_func: func; use_shard_func: bool = true; Tshard_func_args: list(type)",
    .constraints = "path(path); rank(path) == 0",
    .doc = "Writes the elements into a folder, from which LoadDataset reads them. compression: '' or 'GZIP'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_NO_GRADIENT,
});

TENON_OP(kSaveDatasetV2) = DefineDataset({
    .name = "SaveDatasetV2",
    .inputs = "input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args",
    .attrs = "compression: string = ''; shard_func: func; use_shard_func: bool = true; Tshard_func_args: "
             "list(type); " TENON_DATASET_TYPES,
    .constraints = "path(path); rank(path) == 0",
    .doc = "The elements, which each pass writes into a folder, from which LoadDataset reads them once the pass has "
           "come to its end. compression: '' or 'GZIP'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kLoadDataset) = DefineDataset({
    .name = "LoadDataset",
    .inputs = "path: string, reader_func_other_args: Treader_func_args",
    .attrs = TENON_DATASET_TYPES "; compression: string = ''; reader_func: func; Treader_func_args: list(type)",
    .constraints = "path(path); rank(path) == 0",
    .doc = "What SaveDataset wrote into a folder: what reader_func makes of the dataset of its shards' datasets. "
           "compression: '' or 'GZIP'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

}  // namespace tenon::ops

// SPDX-License-Identifier: Apache-2.0
// MatchingFilesDataset: the names of files by patterns, one pattern after the other, each one's sorted. Folders are not
// among them.
#include <algorithm>
#include <deque>

#include "base/archive.h"
#include "base/dataset.h"
#include "base/op.h"
#include "tenon/extras/file/glob.h"

namespace tenon::ops {
using namespace sdk;

namespace {

bool IsFolder(const tenon_files& files, const std::string& path) {
  tenon_status* const status = files.list(ToSpan(path), [](void*, tenon_span) {}, nullptr);
  if (status == nullptr) return true;
  tenon_plugin_host->status_release(status);
  return false;
}

class MatchingFilesDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c, true) {}
  };
  MatchingFilesDataset(const Attrs& attrs, const RunContext& c)
      : Dataset(attrs, {}, true),
        charge_(c, static_cast<uint64_t>(Count(c.input_view(0))) * sizeof(std::string) +
                       sdk::BytesOf(StringsOf(c.input_view(0)))) {
    for (const std::string_view pattern : StringsOf(c.input_view(0))) patterns_.emplace_back(pattern);
  }

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Names final : Iterator {
      Names(const MatchingFilesDataset& of, const Pass& in) : dataset(of), pass(in) {}
      bool Next(Element* out) override {
        while (names.empty() && at < dataset.patterns_.size()) {
          pass.CheckCancelled();
          names = Match(dataset.patterns_[at++]);
          found = found || !names.empty();
        }
        if (names.empty()) {
          if (std::exchange(found, true)) return false;
          Fail(TENON_NOT_FOUND, dataset.who(), ": Don't find any matched files");
        }
        out->clear();
        out->push_back(NewString(pass.work(), names.front()));
        names.pop_front();
        return true;
      }
      std::deque<std::string> Match(const std::string& pattern) const {
        const tenon_files& files = HostFiles();
        const std::string_view fixed = std::string_view(pattern).substr(0, pattern.find_first_of(glob::kSpecial));
        const std::string folder(FolderOf(fixed));
        if (!folder.empty() && !folder.ends_with('/') && files.exists(ToSpan(folder)) == 0)
          Fail(TENON_NOT_FOUND, dataset.who(), ": ", folder, ", the folder of the pattern '", pattern,
               "', is not there");
        // The memory is the session's, which may say no before it is taken.
        uint64_t held = 0, asked = kSmall;
        const auto look = [&](size_t bytes) {
          pass.CheckCancelled();
          held += bytes + sizeof(std::string);
          if (held <= asked) return;
          const auto room = static_cast<int64_t>(asked *= 2);
          (void)pass.work().NewTensor(TENON_DT_UINT8, {&room, 1});
        };
        std::vector<std::string> matching;
        AppendMatching(files, pattern, look, &matching);
        std::erase_if(matching, [&](const std::string& name) { return IsFolder(files, name); });
        std::sort(matching.begin(), matching.end());
        return {std::make_move_iterator(matching.begin()), std::make_move_iterator(matching.end())};
      }
      void State(Archive& archive) override {
        archive.Number(at, 0, static_cast<int64_t>(dataset.patterns_.size()));
        archive.Flag(found);
        archive.ListOf(names, INT64_MAX, [&archive](std::string& name) { archive.Text(name); });
      }
      const MatchingFilesDataset& dataset;
      const Pass& pass;
      std::deque<std::string> names;  // of the pattern before `at`
      size_t at = 0;
      bool found = false;
    };
    return std::make_unique<Names>(*this, pass);
  }

 private:
  static constexpr uint64_t kSmall = 1 << 20;
  const Charge charge_;  // for them
  std::vector<std::string> patterns_;
};

}  // namespace

TENON_KERNEL(kMatchingFilesDatasetKernel) = Registration<MakeDataset<MatchingFilesDataset>>("MatchingFilesDataset",
                                                                                            kMakesDataset);
TENON_KERNEL(kExperimentalMatchingFilesDatasetKernel) =
    Registration<MakeDataset<MatchingFilesDataset>>("ExperimentalMatchingFilesDataset", kMakesDataset);

static constexpr std::string_view kMatchingDoc =
    "The names of the files of the patterns, one pattern after the other, sorted: * and ? stand for parts of one name. "
    "NOT_FOUND where there are none at all.";

TENON_OP(kMatchingFilesDataset) = DefineDataset({
    .name = "MatchingFilesDataset",
    .inputs = "patterns: string",
    .attrs = "",
    .constraints = "rank(patterns) <= 1; path(patterns)",
    .doc = kMatchingDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kExperimentalMatchingFilesDataset) = DefineDataset({
    .name = "ExperimentalMatchingFilesDataset",
    .inputs = "patterns: string",
    .attrs = "",
    .constraints = "rank(patterns) <= 1; path(patterns)",
    .doc = kMatchingDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

}  // namespace tenon::ops

// SPDX-License-Identifier: Apache-2.0
// WindowDataset, whose elements are datasets of neighbouring elements, and SlidingWindowDataset, which has batches
// instead; and GroupByWindowDataset, whose windows are of elements with one key.
#include <deque>
#include <map>

#include "base/archive.h"
#include "base/captured_function.h"
#include "base/held_elements.h"
#include "base/op.h"
#include "base/over_one.h"
#include "batching/batch.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// A dataset of these elements, as a component of an element. who: in whose name it speaks.
KeptTensor NewHeldDataset(const Work& work, const std::string& who, std::vector<uint32_t> types,
                          std::vector<Shape> shapes, std::vector<Element> elements) {
  return NewDataset(
      work, std::make_shared<const Held>(Held::Node{who, std::move(types), std::move(shapes)}, std::move(elements)));
}

// What a window is.
enum class Window { kDatasets, kBatch };

template <Window kWindow>
struct WindowDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c) {
      if constexpr (kWindow == Window::kBatch) drop = !c.Has("drop_remainder") || c.Bool("drop_remainder");
    }
    bool drop = true;
  };
  WindowDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c),
        size(IntOf(c, 1)),
        shift(IntOf(c, 2)),
        stride(IntOf(c, 3)),
        drop(kWindow == Window::kBatch ? attrs.drop : BoolOf(c, 4)) {
    const auto check = [this](const char* name, int64_t value) {
      if (value <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": Window ", name, " must be greater than zero.");
    };
    check("size", size);
    check("shift", shift);
    check("stride", stride);
    if (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(reach, 1, &reach))
      Fail(TENON_INVALID_ARGUMENT, who(), ": size times stride is too large");
  }
  int64_t Cardinality() const override {
    const int64_t n = input->Cardinality();
    if (n < 0) return n;
    if (!drop) return n / shift + (n % shift == 0 ? 0 : 1);
    return n < reach ? 0 : (n - reach) / shift + 1;
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Windows final : OverIterator<WindowDataset> {
      using OverIterator<WindowDataset>::OverIterator;
      using OverIterator<WindowDataset>::dataset, OverIterator<WindowDataset>::pass, OverIterator<WindowDataset>::from;
      bool Next(Element* out) override {
        while (!ended && static_cast<int64_t>(buffer.size()) < dataset.reach) {
          pass.CheckCancelled();
          Element element;
          if (!from->Next(&element)) ended = true;
          else if (skip > 0) --skip;
          else buffer.push_back(std::move(element));
        }
        if (buffer.empty() || (dataset.drop && static_cast<int64_t>(buffer.size()) < dataset.reach)) return false;
        std::vector<Element> window;
        for (size_t i = 0; i < buffer.size() && static_cast<int64_t>(window.size()) < dataset.size;
             i += static_cast<size_t>(dataset.stride))
          window.push_back(Share(buffer[i]));
        const auto gone = std::min<int64_t>(dataset.shift, static_cast<int64_t>(buffer.size()));
        buffer.erase(buffer.begin(), buffer.begin() + gone);
        skip = dataset.shift - gone;
        *out = kWindow == Window::kBatch ? BatchOf(pass, dataset.who(), window) : ByComponent(window);
        return true;
      }
      // A dataset for each component.
      Element ByComponent(const std::vector<Element>& window) const {
        Element datasets;
        const std::vector<uint32_t>& types = dataset.input->types();
        for (size_t i = 0; i < types.size(); ++i) {
          std::vector<Element> column;
          for (const Element& element : window) {
            if (i >= element.size())
              Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": its input gives elements of ", element.size(),
                   " components");
            column.emplace_back();
            column.back().push_back(element[i].Share());
          }
          datasets.push_back(
              NewHeldDataset(pass.work(), dataset.who(), {types[i]}, {dataset.input->shapes()[i]}, std::move(column)));
        }
        return datasets;
      }
      void SaveOrLoad(Archive& archive) override {
        archive.Elements(buffer, dataset.reach);
        archive.Number(skip);
        archive.Flag(ended);
      }
      std::deque<Element> buffer;
      int64_t skip = 0;  // elements between windows
      bool ended = false;
    };
    return std::make_unique<Windows>(*this, pass);
  }
  const int64_t size, shift, stride;
  const bool drop;
  int64_t reach = 0;  // elements from a window's first to its last
};

struct GroupByWindowDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c)
        : OverOne::Attrs(c),
          key(c, "key_func"),
          reduce(c, "reduce_func"),
          size(c, "window_size_func"),
          key_count(Arguments(c, "Tkey_func_other_arguments")),
          reduce_count(Arguments(c, "Treduce_func_other_arguments")),
          size_count(Arguments(c, "Twindow_size_func_other_arguments")) {}
    static int32_t Arguments(CreateContext& c, std::string_view attr) {
      return static_cast<int32_t>(c.Types(attr).size());
    }
    Function key, reduce, size;
    int32_t key_count, reduce_count, size_count;
  };
  GroupByWindowDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true),
        key(attrs.key, who(), c, 1, attrs.key_count),
        reduce(attrs.reduce, who(), c, 1 + attrs.key_count, attrs.reduce_count),
        size(attrs.size, who(), c, 1 + attrs.key_count + attrs.reduce_count, attrs.size_count) {}
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Groups final : OverIterator<GroupByWindowDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          if (group.is_open() && group->Next(out)) return true;
          group.Close();
          if (ended && windows.empty()) return false;
          if (ended) Begin(windows.begin());
          else Gather();
        }
      }
      void Gather() {
        Element element;
        if (!from->Next(&element)) {
          ended = true;
          return;
        }
        const int64_t its = dataset.key.Count(pass, element);
        auto at = windows.find(its);
        if (at == windows.end()) {
          const int64_t size = dataset.size.Count(pass, KeyAsElement(its));
          if (size <= 0)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": Window size must be greater than zero, but got ", size, ".");
          at = windows.emplace(its, Group{size, {}}).first;
        }
        at->second.elements.push_back(std::move(element));
        if (static_cast<int64_t>(at->second.elements.size()) == at->second.size) Begin(at);
      }
      Element KeyAsElement(int64_t its) const {
        Element element;
        element.push_back(NewScalar<int64_t>(pass.work(), TENON_DT_INT64, its));
        return element;
      }
      struct Group {
        int64_t size = 0;
        std::vector<Element> elements;
      };
      void Begin(std::map<int64_t, Group>::iterator at) {
        const int64_t its = at->first;
        std::vector<Element> elements = std::move(at->second.elements);
        windows.erase(at);  // it is begun once, whatever fails below
        arguments = KeyAsElement(its);
        arguments.push_back(NewHeldDataset(pass.work(), dataset.who(), dataset.input->types(), dataset.input->shapes(),
                                           std::move(elements)));
        Open();
      }
      void Open() { group.Open(pass, dataset.reduce.CallForDataset(pass, arguments, dataset.types())); }
      void SaveOrLoad(Archive& archive) override {
        const auto one = [&archive](int64_t* its, Group* window) {
          archive.Number(*its, INT64_MIN);
          archive.Number(window->size, 1);
          archive.Elements(window->elements, window->size - 1);
        };
        auto size = static_cast<int64_t>(windows.size());
        archive.Number(size);
        if (!archive.reading()) {
          for (auto& [key, window] : windows) {
            int64_t its = key;
            one(&its, &window);
          }
        } else {
          windows.clear();
          for (; size > 0; --size) {
            int64_t its = 0;
            Group window;
            one(&its, &window);
            windows[its] = std::move(window);
          }
        }
        archive.Flag(ended);
        bool open = group.is_open();
        archive.Flag(open);
        if (archive.reading()) group.Close();
        if (!open) return;
        archive.Values(arguments);
        if (archive.reading()) Open();
        group.State(archive);
      }
      std::map<int64_t, Group> windows;
      Element arguments;  // of what is open
      Opened group;
      bool ended = false;
    };
    return std::make_unique<Groups>(*this, pass);
  }
  const Captured key, reduce, size;
};

}  // namespace

TENON_KERNEL(kWindowDatasetKernel) = Registration<MakeDataset<WindowDataset<Window::kDatasets>>>("WindowDataset",
                                                                                                 kMakesDataset);
TENON_KERNEL(kSlidingWindowDatasetKernel) =
    Registration<MakeDataset<WindowDataset<Window::kBatch>>>("SlidingWindowDataset", kMakesDataset);
TENON_KERNEL(kExperimentalSlidingWindowDatasetKernel) =
    Registration<MakeDataset<WindowDataset<Window::kBatch>>>("ExperimentalSlidingWindowDataset", kMakesDataset);
TENON_KERNEL(kGroupByWindowDatasetKernel) = Registration<MakeDataset<GroupByWindowDataset>>("GroupByWindowDataset",
                                                                                            kMakesDataset);
TENON_KERNEL(kExperimentalGroupByWindowDatasetKernel) =
    Registration<MakeDataset<GroupByWindowDataset>>("ExperimentalGroupByWindowDataset", kMakesDataset);

TENON_OP(kWindowDataset) = DefineDataset({
    .name = "WindowDataset",
    .inputs = "input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(size) == 0; rank(shift) == 0; rank(stride) == 0; rank(drop_remainder) == 0",
    .doc = "Datasets of size elements each, stride apart; each begins shift elements behind the one before.",
});

static constexpr std::string_view kSlidingDoc =
    "Batches of window_size elements each, window_stride apart; each begins window_shift elements behind the one "
    "before.";

TENON_OP(kSlidingWindowDataset) = DefineDataset({
    .name = "SlidingWindowDataset",
    .inputs = "input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64",
    .attrs = "drop_remainder: bool = true; " TENON_DATASET_TYPES,
    .constraints = "rank(window_size) == 0; rank(window_shift) == 0; rank(window_stride) == 0",
    .doc = kSlidingDoc,
});

TENON_OP(kExperimentalSlidingWindowDataset) = DefineDataset({
    .name = "ExperimentalSlidingWindowDataset",
    .inputs = "input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(window_size) == 0; rank(window_shift) == 0; rank(window_stride) == 0",
    .doc = kSlidingDoc,
});

#define TENON_GROUP_INPUTS                                                                                     \
  "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, reduce_func_other_arguments: " \
  "Treduce_func_other_arguments, "                                                                             \
  "window_size_func_other_arguments: Twindow_size_func_other_arguments"
#define TENON_GROUP_ATTRS                                                                              \
  "key_func: func; reduce_func: func; window_size_func: func; Tkey_func_other_arguments: list(type); " \
  "Treduce_func_other_arguments: list(type); "                                                         \
  "Twindow_size_func_other_arguments: list(type); " TENON_DATASET_TYPES

static constexpr std::string_view kGroupDoc =
    "The elements of the datasets that reduce_func gives for windows of elements with one key.";

TENON_OP(kGroupByWindowDataset) = DefineDataset({.name = "GroupByWindowDataset",
                                                 .inputs = TENON_GROUP_INPUTS,
                                                 .attrs = TENON_GROUP_ATTRS TENON_DATASET_METADATA,
                                                 .doc = kGroupDoc});
TENON_OP(kExperimentalGroupByWindowDataset) = DefineDataset({.name = "ExperimentalGroupByWindowDataset",
                                                             .inputs = TENON_GROUP_INPUTS,
                                                             .attrs = TENON_GROUP_ATTRS,
                                                             .doc = kGroupDoc});

}  // namespace tenon::ops

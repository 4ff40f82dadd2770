// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/generate.h"

#include <algorithm>
#include <random>

namespace tenon::crossings {
namespace {

// All that tensors may have; each is a row, or rows, of others.
const std::vector<Dims>& AllDims() {
  static const std::vector<Dims> dims = {{}, {3}, {2}, {2, 3}, {3, 2}, {2, 2}, {0, 3}};
  return dims;
}
bool IsKnown(const Dims& dims) { return std::find(AllDims().begin(), AllDims().end(), dims) != AllDims().end(); }
Dims RowOf(const Dims& dims) { return Dims(dims.begin() + 1, dims.end()); }
Dims Stacked(int64_t count, const Dims& dims) {
  Dims stacked{count};
  stacked.insert(stacked.end(), dims.begin(), dims.end());
  return stacked;
}
// Where the two broadcast against each other.
bool Together(const Dims& a, const Dims& b, Dims* both) {
  const Dims &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  if (longer.size() == shorter.size() ? longer != shorter : !shorter.empty() && longer.back() != shorter.back())
    return false;
  *both = longer;
  return true;
}

class Generator {
 public:
  Generator(uint32_t seed, const Features& features) : random_(seed * 2654435761u + 17) {
    program_.seed = seed;
    // A share of the features, and more often few than many.
    const size_t share = 2 + Under(3);
    for (const Feature feature : AllFeatures())
      if (features.contains(feature) && (feature == Feature::k_gradients ? !OneIn(5) : Under(4) < share))
        features_.insert(feature);
    program_.smooth = Has(Feature::k_smooth);
    floating_ = program_.smooth && !OneIn(5) ? DType::kDouble : DType::kFloat;
    depth_ = 1 + static_cast<int>(Under(4));
  }

  Program Make() {
    MakeVariables();
    MakeFunctions();
    Region& main = program_.main;
    const size_t parameters = 2 + Under(4);
    for (size_t i = 0; i < parameters; ++i) main.AddParameter(TensorType(ParameterType(i), AnyDims()));
    Fill(main, 4 + static_cast<int>(Under(9)), depth_);
    main.results.push_back(Last(main));
    for (int i = 0; i < 3; ++i) main.results.push_back(AnyValue(main));
    std::sort(main.results.begin(), main.results.end());
    main.results.erase(std::unique(main.results.begin(), main.results.end()), main.results.end());
    if (program_.smooth && Has(Feature::k_gradients)) MakeLosses();
    RemoveUnused(&program_);
    return std::move(program_);
  }

 private:
  // ---- Dice ----
  size_t Under(size_t limit) { return random_() % limit; }
  bool OneIn(size_t count) { return Under(count) == 0; }
  bool Has(Feature feature) const { return features_.contains(feature); }
  template <typename T>
  const T& Of(const std::vector<T>& all) { return all[Under(all.size())]; }
  int AnyValue(const Region& region) { return static_cast<int>(Under(region.types.size())); }
  int Last(const Region& region) const { return static_cast<int>(region.types.size()) - 1; }
  Dims AnyDims() {
    const size_t count = Has(Feature::k_empty) ? 7 : Has(Feature::k_wide) ? 6 : 4;
    return AllDims()[Under(count)];
  }
  DType AnyNumber() {
    if (program_.smooth) return OneIn(4) ? DType::kInt32 : floating_;
    static const std::vector<DType> types = {DType::kFloat, DType::kFloat, DType::kDouble, DType::kInt32,
                                             DType::kInt64};
    return Of(types);
  }
  DType ParameterType(size_t i) {
    if (program_.smooth && i == 0) return floating_;
    if (Has(Feature::k_strings) && OneIn(4)) return DType::kString;
    return OneIn(8) ? DType::kBool : AnyNumber();
  }

  // ---- Values ----
  int Add(Region& region, Step step) {
    step.first = static_cast<int>(region.types.size());
    region.types.insert(region.types.end(), step.out.begin(), step.out.end());
    region.steps.push_back(std::move(step));
    return region.steps.back().first;
  }
  int Add(Region& region, Do what, std::vector<int> in, Type out, double number = 0) {
    Step step;
    step.what = what;
    step.in = std::move(in);
    step.out = {std::move(out)};
    step.number = number;
    return Add(region, std::move(step));
  }
  // A random value for which `holds`, or -1.
  template <typename Holds>
  int Find(const Region& region, const Holds& holds) {
    const size_t count = region.types.size();
    // Later ones rather than earlier, so that programs grow long.
    for (int tries = 0; tries < 6 && count > 0; ++tries) {
      const size_t value = std::max(Under(count), Under(count));
      if (holds(region.types[value])) return static_cast<int>(value);
    }
    const size_t begin = count == 0 ? 0 : Under(count);
    for (size_t i = 0; i < count; ++i)
      if (holds(region.types[(begin + i) % count])) return static_cast<int>((begin + i) % count);
    return -1;
  }
  int FindTensor(const Region& region, DType dtype) {
    return Find(region, [&](const Type& type) { return type.kind == Kind::kTensor && type.dtype == dtype; });
  }
  int Constant(Region& region, DType dtype, const Dims& dims) {
    return Add(region, Do::k_constant, {}, TensorType(dtype, dims), static_cast<double>(Under(60)));
  }

  // A value of this type, made of a random one.
  int Need(Region& region, const Type& type) {
    if (OneIn(2))
      if (const int found = Find(region, [&](const Type& other) { return other == type; }); found >= 0) return found;
    switch (type.kind) {
      case Kind::kTensor: return NeedTensor(region, type);
      case Kind::kList: return NeedList(region, type);
      case Kind::kOptional:
        if (OneIn(3)) return Add(region, Do::k_nothing, {}, type);
        return Add(region, Do::k_some, {Need(region, TensorType(type.dtype, type.dims))}, type);
      case Kind::kSparse: return Add(region, Do::k_to_sparse, {Need(region, TensorType(type.dtype, {2, 3}))}, type);
      case Kind::kRagged: {
        const int matrix = Need(region, TensorType(type.dtype, {2, 3}));
        const int lengths = Add(region, Do::k_remainder, {Need(region, TensorType(DType::kInt64, {2}))},
                                TensorType(DType::kInt64, {2}), 4);
        return Add(region, Do::k_to_ragged, {matrix, lengths}, type);
      }
    }
    return -1;
  }
  int NeedTensor(Region& region, const Type& type) {
    if (type.dtype == DType::kBool) {
      const DType dtype = program_.smooth ? DType::kInt32 : AnyNumber();
      const int a = Need(region, TensorType(dtype, type.dims)), b = Need(region, TensorType(dtype, {}));
      return Add(region, Do::k_less, {a, b}, type);
    }
    if (type.dtype == DType::kString) {
      if (int found = FindTensor(region, DType::kString); found >= 0 && !OneIn(3))
        return WithDims(region, found, type.dims);
      return Add(region, Do::k_text_of, {Need(region, TensorType(DType::kInt32, type.dims))}, type);
    }
    int value = OneIn(2) ? FindTensor(region, type.dtype) : -1;
    if (value < 0)
      value = Find(region, [&](const Type& other) {
        return other.kind == Kind::kTensor && IsNumber(other.dtype) &&
               (!program_.smooth || !IsFloating(other.dtype) || IsFloating(type.dtype));
      });
    if (value < 0) return Constant(region, type.dtype, type.dims);
    if (region.type(value).dtype != type.dtype)
      value = Add(region, Do::k_cast, {value}, TensorType(type.dtype, region.type(value).dims));
    return WithDims(region, value, type.dims);
  }
  int WithDims(Region& region, int value, const Dims& dims) {
    const Type now = region.type(value);
    if (now.dims == dims) return value;
    if (CountOf(now.dims) == CountOf(dims)) return Add(region, Do::k_reshape, {value}, TensorType(now.dtype, dims));
    if (!now.dims.empty() && RowOf(now.dims) == dims && now.dims[0] > 0)
      return Add(region, Do::k_take, {value, Which(region, now.dims[0])}, TensorType(now.dtype, dims));
    if (!now.dims.empty()) {
      if (now.dtype == DType::kString || now.dtype == DType::kBool) {
        value = now.dims[0] == 0
                    ? (now.dtype == DType::kBool ? Constant(region, now.dtype, {})
                                                 : Add(region, Do::k_text_of, {Constant(region, DType::kInt32, {})},
                                                       TensorType(DType::kString, {})))
                    : value;
        while (!region.type(value).dims.empty()) {
          const Type type = region.type(value);
          value =
              Add(region, Do::k_take, {value, Which(region, type.dims[0])}, TensorType(type.dtype, RowOf(type.dims)));
        }
      } else {
        value = Add(region, Do::k_sum, {value}, TensorType(now.dtype, {}));
      }
    }
    return dims.empty() ? value : Add(region, Do::k_spread, {value}, TensorType(now.dtype, dims));
  }
  int NeedList(Region& region, const Type& type) {
    if (const Dims all = Stacked(type.length, type.dims); IsKnown(all) && !OneIn(3))
      return Add(region, Do::k_list_of, {Need(region, TensorType(type.dtype, all))}, type);
    int list = Add(region, Do::k_list_blank, {}, type);
    for (int i = 0; i < type.length; ++i) {
      const int where = Add(region, Do::k_constant, {}, TensorType(DType::kInt32, {}), 6 + i);
      list = Add(region, Do::k_list_set, {list, where, Need(region, TensorType(type.dtype, type.dims))}, type);
    }
    return list;
  }
  // A number below the limit, found in the data.
  int Which(Region& region, int64_t limit) {
    if (OneIn(4))
      return Add(region, Do::k_constant, {}, TensorType(DType::kInt32, {}),
                 static_cast<double>(6 + Under(static_cast<size_t>(limit))));
    return Add(region, Do::k_remainder, {Need(region, TensorType(DType::kInt32, {}))}, TensorType(DType::kInt32, {}),
               static_cast<double>(limit));
  }
  int Whichs(Region& region, int64_t count, int64_t limit) {
    return Add(region, Do::k_remainder, {Need(region, TensorType(DType::kInt32, {count}))},
               TensorType(DType::kInt32, {count}), static_cast<double>(limit));
  }
  int Question(Region& region) {
    const DType dtype = program_.smooth || OneIn(2) ? DType::kInt32 : DType::kDouble;
    const int a = Need(region, TensorType(dtype, {})), b = Need(region, TensorType(dtype, {}));
    return Add(region, Do::k_less, {a, b}, TensorType(DType::kBool, {}));
  }
  int Number(Region& region) {
    const DType wished = AnyNumber();
    int value = FindTensor(region, wished);
    if (value < 0)
      value = Find(region, [](const Type& type) { return type.kind == Kind::kTensor && IsNumber(type.dtype); });
    return value >= 0 ? value : Constant(region, wished, AnyDims());
  }
  // A type that a part may give or carry.
  Type AnyType() {
    const DType dtype = AnyNumber();
    if (Has(Feature::k_lists) && OneIn(6))
      return {Kind::kList, dtype, AllDims()[Under(3)], static_cast<int>(2 + Under(2))};
    if (Has(Feature::k_optionals) && OneIn(8)) return {Kind::kOptional, dtype, AnyDims(), 0};
    if (Has(Feature::k_sparse) && OneIn(10)) return {Kind::kSparse, IsFloating(dtype) ? dtype : floating_, {2, 3}, 0};
    if (Has(Feature::k_ragged) && OneIn(10)) return {Kind::kRagged, dtype, {2, 3}, 0};
    if (Has(Feature::k_strings) && OneIn(8)) return TensorType(DType::kString, AllDims()[Under(3)]);
    return TensorType(dtype, AnyDims());
  }

  // ---- Steps ----
  void Fill(Region& region, int steps, int depth) {
    for (int i = 0; i < steps; ++i) {
      if (depth > 0 && OneIn(3) && AddPart(region, depth)) continue;
      if (OneIn(4) && AddState(region)) continue;
      if (OneIn(3) && AddOdd(region)) continue;
      AddCalculation(region);
    }
  }

  bool AddPart(Region& region, int depth) {
    switch (Under(6)) {
      case 0: case 1:
        if (Has(Feature::k_loops)) return AddLoop(region, depth), true;
        break;
      case 2:
        if (Has(Feature::k_elements)) return AddElements(region, depth), true;
        break;
      case 3: case 4:
        if (Has(Feature::k_branches)) return AddBranches(region, depth), true;
        break;
      default:
        if (Has(Feature::k_functions) && callable_ > 0) return AddCall(region), true;
    }
    return false;
  }

  void AddTwo(Region& region, Do what, int a, DType out) {
    const Type t = region.type(a);
    Dims both;
    int b = Find(region, [&](const Type& type) {
      return type.kind == Kind::kTensor && type.dtype == t.dtype && Together(t.dims, type.dims, &both);
    });
    if (b < 0 || OneIn(4)) b = Need(region, TensorType(t.dtype, OneIn(2) ? Dims{} : t.dims));
    Together(t.dims, region.type(b).dims, &both);
    if (OneIn(2)) std::swap(a, b);
    Add(region, what, {a, b}, TensorType(out, both));
  }

  void AddCalculation(Region& region) {
    const int a = Number(region);
    const Type t = region.type(a);
    const bool floats = IsFloating(t.dtype), asks = !(program_.smooth && floats);
    switch (Under(17)) {
      case 0: case 1: AddTwo(region, Do::k_add, a, t.dtype); break;
      case 2: AddTwo(region, Do::k_subtract, a, t.dtype); break;
      case 3: case 4: AddTwo(region, Do::k_multiply, a, t.dtype); break;
      case 5:
        if (asks) AddTwo(region, OneIn(2) ? Do::k_maximum : Do::k_minimum, a, t.dtype);
        else Add(region, OneIn(2) ? Do::k_tanh : Do::k_sine, {a}, t);
        break;
      case 6: Add(region, !asks || OneIn(2) ? Do::k_negate : Do::k_absolute, {a}, t); break;
      case 7: Add(region, OneIn(2) ? Do::k_square : Do::k_identity, {a}, t); break;
      case 8:
        if (!asks) Add(region, OneIn(2) ? Do::k_sigmoid : Do::k_bell, {a}, t);
        else if (floats) Add(region, Do::k_relu, {a}, t);
        else Add(region, Do::k_remainder, {a}, t, static_cast<double>(2 + Under(9)));
        break;
      case 9: Constant(region, t.dtype, AnyDims()); break;
      case 10: Add(region, Do::k_add_n, {a, Need(region, t), Need(region, t)}, t); break;
      case 11: {
        const int question =
            OneIn(2) ? Need(region, TensorType(DType::kBool, t.dims)) : Need(region, TensorType(DType::kBool, {}));
        Add(region, Do::k_select, {question, a, Need(region, t)}, t);
        break;
      }
      case 12:
        if (asks) AddTwo(region, OneIn(3) ? Do::k_equal : Do::k_less, a, DType::kBool);
        else if (OneIn(3)) Add(region, Do::k_stop, {a}, t);
        else AddTwo(region, Do::k_multiply, a, t.dtype);
        break;
      case 13:
        if (const int p = FindTensor(region, DType::kBool); p >= 0) {
          const Type type = region.type(p);
          if (OneIn(2)) Add(region, Do::k_opposite, {p}, type);
          else AddPair(region, OneIn(2) ? Do::k_both : Do::k_either, p, type);
        }
        break;
      case 14:
        if (asks) Need(region, {Kind::kTensor, AnyNumber(), AnyDims(), 0});
        else Add(region, Do::k_cumulate, {Need(region, TensorType(t.dtype, {3}))}, TensorType(t.dtype, {3}));
        break;
      default: AddRearrangement(region, a); break;
    }
  }

  void AddRearrangement(Region& region, int a) {
    Type t = region.type(a);
    const Dims chosen = Has(Feature::k_wide) ? Of(std::vector<Dims>{{2, 3}, {3, 2}, {2, 2}})
                        : OneIn(2)           ? Dims{3}
                                             : Dims{2, 3};
    const int x = Need(region, t = TensorType(t.dtype, chosen));
    const int64_t rows = chosen[0];
    const bool asks = !(program_.smooth && IsFloating(t.dtype));
    switch (Under(17)) {
      case 0:
        if (chosen.size() == 2) Add(region, Do::k_transpose, {x}, TensorType(t.dtype, {chosen[1], chosen[0]}));
        break;
      case 1: Add(region, Do::k_backwards, {x}, t); break;
      case 2: AddPair(region, Do::k_join, x, t, static_cast<double>(Under(static_cast<size_t>(rows) + 1))); break;
      case 3:
        if (chosen.size() == 2 && IsFloating(t.dtype)) {
          const int64_t other = chosen[1] == 3 ? 2 : 2 + static_cast<int64_t>(Under(2));
          Add(region, Do::k_matmul, {x, Need(region, TensorType(t.dtype, {chosen[1], other}))},
              TensorType(t.dtype, {rows, other}));
          if (!IsKnown({rows, other})) Add(region, Do::k_sum, {Last(region)}, TensorType(t.dtype, {}));
        }
        break;
      case 4: case 5: Add(region, Do::k_take, {x, Which(region, rows)}, TensorType(t.dtype, RowOf(chosen))); break;
      case 6: Add(region, Do::k_take_rows, {x, Whichs(region, rows, rows)}, t); break;
      case 7:
        Add(region, Do::k_put_row, {x, Which(region, rows), Need(region, TensorType(t.dtype, RowOf(chosen)))}, t);
        break;
      case 8:
        Add(region, Do::k_add_row, {x, Which(region, rows), Need(region, TensorType(t.dtype, RowOf(chosen)))}, t);
        break;
      case 9: {
        const Type row = TensorType(t.dtype, RowOf(chosen));
        std::vector<int> in;
        for (int64_t i = 0; i < rows; ++i) in.push_back(Need(region, row));
        Add(region, Do::k_pack, in, t);
        break;
      }
      case 10: {
        Step step;
        step.what = Do::k_unpack;
        step.in = {x};
        step.out.assign(static_cast<size_t>(rows), TensorType(t.dtype, RowOf(chosen)));
        Add(region, std::move(step));
        break;
      }
      case 11: Add(region, Do::k_segments, {x, Whichs(region, rows, rows)}, t); break;
      case 12: if (chosen.size() == 2) Add(region, Do::k_sum_rows, {x}, TensorType(t.dtype, {rows})); break;
      case 13: Add(region, Do::k_sum, {x}, TensorType(t.dtype, {})); break;
      case 14:
        if (asks) Add(region, Do::k_greatest, {x}, TensorType(t.dtype, {}));
        else Add(region, Do::k_cumulate, {x}, t);
        break;
      case 15:
        if (asks) Add(region, OneIn(2) ? Do::k_arg_max : Do::k_size, {x}, TensorType(DType::kInt32, {}));
        else Add(region, Do::k_one_hot, {Which(region, 3)}, TensorType(floating_, {3}));
        break;
      default:
        if (asks && IsFloating(t.dtype)) Add(region, Do::k_sort, {x}, t);
        else AddOneHot(region, AnyNumber());
    }
  }
  void AddOneHot(Region& region, DType dtype) {
    Add(region, Do::k_one_hot, {Which(region, 3)}, TensorType(dtype, {3}));
  }
  void AddPair(Region& region, Do what, int a, const Type& type, double number = 0) {
    Add(region, what, {a, Need(region, type)}, type, number);
  }

  // What is no plain tensor, or no number.
  bool AddOdd(Region& region) {
    static const std::vector<Feature> odd = {Feature::k_strings,   Feature::k_lists,  Feature::k_lists,
                                             Feature::k_optionals, Feature::k_sparse, Feature::k_ragged,
                                             Feature::k_random,    Feature::k_queues};
    const Feature feature = Of(odd);
    if (!Has(feature)) return false;
    switch (feature) {
      case Feature::k_strings: AddStrings(region); return true;
      case Feature::k_lists: AddLists(region); return true;
      case Feature::k_optionals: {
        const Type some = {Kind::kOptional, AnyNumber(), AnyDims(), 0}, inside = TensorType(some.dtype, some.dims);
        const int optional = Need(region, some);
        if (OneIn(3)) Add(region, Do::k_has, {optional}, TensorType(DType::kBool, {}));
        else Add(region, Do::k_value_or, {optional, Need(region, inside)}, inside);
        return true;
      }
      case Feature::k_sparse: {
        const Type type = {Kind::kSparse, floating_, {2, 3}, 0};
        const int sparse = Need(region, type);
        if (OneIn(3)) Add(region, Do::k_sparse_scale, {sparse, Need(region, TensorType(floating_, {}))}, type);
        else if (OneIn(2)) Add(region, Do::k_sparse_dense, {sparse}, TensorType(floating_, {2, 3}));
        else
          Add(region, Do::k_sparse_matmul, {sparse, Need(region, TensorType(floating_, {3, 2}))},
              TensorType(floating_, {2, 2}));
        return true;
      }
      case Feature::k_ragged: {
        const Type type = {Kind::kRagged, AnyNumber(), {2, 3}, 0};
        const int ragged = Need(region, type);
        if (OneIn(2)) Add(region, Do::k_ragged_square, {ragged}, type);
        else Add(region, Do::k_ragged_dense, {ragged}, TensorType(type.dtype, {2, 3}));
        return true;
      }
      case Feature::k_random:
      {
        const Do what = &region == &program_.main && OneIn(2) ? Do::k_dice : Do::k_random;
        const Dims dims = AnyDims();
        Add(region, what, {}, TensorType(DType::kInt32, dims), static_cast<double>(1 + Under(50)));
        return true;
      }
      case Feature::k_queues:
        if (&region != &program_.main) return false;
        AddQueue(region);
        return true;
      default: return false;
    }
  }
  void AddQueue(Region& region) {
    const Type type = {Kind::kTensor, AnyNumber(), AnyDims(), 0};
    Step step;
    step.what = Do::k_queue;
    step.in = {Need(region, type), Need(region, type)};
    step.out = {type, TensorType(DType::kInt32, {})};
    step.number = static_cast<double>(queues_++);
    Add(region, std::move(step));
  }
  void AddStrings(Region& region) {
    const Dims dims = AllDims()[Under(4)];
    const Type type = TensorType(DType::kString, dims);
    switch (Under(7)) {
      case 0: Add(region, Do::k_text_of, {Need(region, TensorType(DType::kInt32, dims))}, type); break;
      case 1: Add(region, Do::k_join_text, {Need(region, type), Need(region, type)}, type); break;
      case 2: Add(region, Do::k_text_length, {Need(region, type)}, TensorType(DType::kInt32, dims)); break;
      case 3: Add(region, Do::k_upper, {Need(region, type)}, type); break;
      case 4: Add(region, Do::k_hash, {Need(region, type)}, TensorType(DType::kInt64, dims)); break;
      case 5: Add(region, Do::k_equal, {Need(region, type), Need(region, type)}, TensorType(DType::kBool, dims)); break;
      default: {
        const Type rows = TensorType(DType::kString, {3});
        Add(region, Do::k_take_rows, {Need(region, rows), Whichs(region, 3, 3)}, rows);
      }
    }
  }
  void AddLists(Region& region) {
    Type type = {Kind::kList, AnyNumber(), AllDims()[Under(3)], static_cast<int>(2 + Under(2))};
    const int known = Find(region, [](const Type& other) { return other.kind == Kind::kList && other.length >= 2; });
    if (known >= 0 && !OneIn(3)) type = region.type(known);
    const Type element = TensorType(type.dtype, type.dims);
    const int list = known >= 0 && region.type(known) == type ? known : Need(region, type);
    switch (Under(9)) {
      case 0: case 1: Add(region, Do::k_list_get, {list, Which(region, type.length)}, element); break;
      case 2: Add(region, Do::k_list_set, {list, Which(region, type.length), Need(region, element)}, type); break;
      case 3: {
        Type more = type;
        ++more.length;
        if (more.length < 5) Add(region, Do::k_list_push, {list, Need(region, element)}, more);
        break;
      }
      case 4: {
        Step step;
        step.what = Do::k_list_pop;
        step.in = {list};
        step.out = {type, element};
        --step.out[0].length;
        if (type.length > 2) Add(region, std::move(step));
        break;
      }
      case 5: case 6:
        if (const Dims all = Stacked(type.length, type.dims); IsKnown(all))
          Add(region, Do::k_list_stack, {list}, TensorType(type.dtype, all));
        else Add(region, Do::k_list_length, {list}, TensorType(DType::kInt32, {}));
        break;
      case 7:
        if (type.dims.size() == 1) Add(region, Do::k_list_join, {list}, TensorType(type.dtype, {}));
        break;
      default: {
        if (!Has(Feature::k_list_splits)) break;
        const int x = Need(region, TensorType(type.dtype, {3}));
        Add(region, Do::k_list_split, {x}, TensorType(type.dtype, {2}));
        break;
      }
    }
  }

  bool AddHeld(Region& region, int chosen) {
    const Variable& variable = program_.variables[static_cast<size_t>(chosen)];
    const Type type = variable.element();
    Step step;
    step.variable = chosen;
    if (variable.holder == Variable::Holder::kQueue) {
      static const std::vector<Do> all = {Do::k_enqueue, Do::k_exchange, Do::k_exchange, Do::k_dequeue_or,
                                          Do::k_queue_size};
      step.what = Of(all);
      if (step.what != Do::k_queue_size) step.in = {Need(region, type)};
      if (step.what != Do::k_enqueue) step.out = {step.what == Do::k_queue_size ? TensorType(DType::kInt32, {}) : type};
    } else if (OneIn(4)) {
      step.what = Do::k_begin;
      step.in = {Need(region, variable.first()), Need(region, TensorType(variable.dtype, {}))};
    } else {
      step.what = variable.repeats ? Do::k_next : Do::k_next_or_none;
      step.out = {variable.repeats ? type : Type{Kind::kOptional, type.dtype, type.dims, 0}};
    }
    const bool optional = step.what == Do::k_next_or_none;
    const int made = Add(region, std::move(step));
    if (!optional) return true;
    if (OneIn(3)) Add(region, Do::k_has, {made}, TensorType(DType::kBool, {}));
    else Add(region, Do::k_value_or, {made, Need(region, type)}, type);
    return true;
  }
  bool AddState(Region& region) {
    if (program_.variables.empty() || is_pure_) return false;
    const auto chosen = static_cast<int>(Under(program_.variables.size()));
    const Variable& variable = program_.variables[static_cast<size_t>(chosen)];
    if (variable.holder != Variable::Holder::kTensor) return AddHeld(region, chosen);
    const Type type = TensorType(variable.dtype, variable.dims);
    const bool updates = Has(Feature::k_updates) && !variable.weight;
    Step step;
    step.variable = chosen;
    switch (updates ? Under(8) : 6 + Under(2)) {
      case 0: step.what = Do::k_assign; step.in = {Need(region, type)}; break;
      case 1: case 2: step.what = Do::k_assign_add; step.in = {Need(region, type)}; break;
      case 3: step.what = Do::k_assign_sub; step.in = {Need(region, type)}; break;
      case 4:
        if (variable.dims.empty()) return false;
        step.what = OneIn(2) ? Do::k_add_rows : Do::k_set_row;
        step.in = {step.what == Do::k_set_row ? Which(region, variable.dims[0]) : Whichs(region, 2, variable.dims[0])};
        step.in.push_back(
            Need(region,
                 TensorType(type.dtype, step.what == Do::k_set_row ? RowOf(type.dims) : Stacked(2, RowOf(type.dims)))));
        break;
      case 5:
        if (!Has(Feature::k_late_reads) || &region != &program_.main) return false;
        step.what = Do::k_late_read;
        step.in = {Need(region, type)};
        step.out = {type};
        break;
      case 6:
        if (!variable.dims.empty() && OneIn(2)) {
          step.what = Do::k_read_rows;
          step.in = {Whichs(region, variable.dims[0], variable.dims[0])};
          step.out = {type};
          break;
        }
        [[fallthrough]];
      default: step.what = Do::k_read; step.out = {type};
    }
    Add(region, std::move(step));
    return true;
  }

  // ---- Parts ----
  std::shared_ptr<Region> Part(const std::vector<Type>& parameters, const std::vector<Type>& results, int depth) {
    auto part = std::make_shared<Region>();
    for (const Type& type : parameters) part->AddParameter(type);
    Fill(*part, 1 + static_cast<int>(Under(4)), depth - 1);
    for (const Type& type : results) part->results.push_back(Need(*part, type));
    return part;
  }
  std::vector<int> Some(Region& region, size_t least, size_t more) {
    std::vector<int> values;
    const size_t count = least + Under(more);
    for (size_t i = 0; i < count; ++i)
      values.push_back(region.types.empty() ? Constant(region, AnyNumber(), Dims{})
                                            : Find(region, [](const Type&) { return true; }));
    return values;
  }
  std::vector<Type> TypesOf(const Region& region, const std::vector<int>& values) const {
    std::vector<Type> types;
    for (const int value : values) types.push_back(region.type(value));
    return types;
  }

  void AddBranches(Region& region, int depth) {
    Step step;
    const bool choice = OneIn(3);
    step.what = choice ? Do::k_choice : Do::k_conditional;
    const int asked = choice ? Add(region, Do::k_remainder, {Need(region, TensorType(DType::kInt32, {}))},
                                   TensorType(DType::kInt32, {}), 4)
                             : Question(region);
    const std::vector<int> inputs = Some(region, 1, 3);
    for (size_t i = 0, count = 1 + Under(2); i < count; ++i) step.out.push_back(AnyType());
    for (int side = 0; side < (choice ? 3 : 2); ++side)
      step.parts.push_back(Part(TypesOf(region, inputs), step.out, depth));
    step.in = {asked};
    step.in.insert(step.in.end(), inputs.begin(), inputs.end());
    Add(region, std::move(step));
  }

  void AddLoop(Region& region, int depth) {
    Step step;
    step.what = Do::k_loop;
    step.parallel = 1 + static_cast<int64_t>(Under(10));
    const Type whole = TensorType(DType::kInt32, {});
    const int start = Add(region, Do::k_constant, {}, whole, 6);
    const int limit = Add(region, Do::k_remainder, {Need(region, whole)}, whole, 4);
    const std::vector<int> variables = Some(region, 1, 3), invariants = Some(region, 0, 3);
    step.in = {start};
    step.in.insert(step.in.end(), variables.begin(), variables.end());
    step.states = static_cast<int>(step.in.size());
    step.in.push_back(limit);
    step.in.insert(step.in.end(), invariants.begin(), invariants.end());
    const std::vector<Type> types = TypesOf(region, step.in);
    step.out.assign(types.begin(), types.begin() + step.states);

    auto question = std::make_shared<Region>();
    for (const Type& type : types) question->AddParameter(type);
    int answer = Add(*question, Do::k_less, {0, step.states}, TensorType(DType::kBool, {}));
    if (OneIn(3)) answer = Add(*question, Do::k_both, {answer, Question(*question)}, TensorType(DType::kBool, {}));
    question->results = {answer};

    auto body = Part(types, {step.out.begin() + 1, step.out.end()}, depth);
    const int one = Add(*body, Do::k_constant, {}, whole, 7);
    body->results.insert(body->results.begin(), Add(*body, Do::k_add, {0, one}, whole));
    for (size_t i = 1; i + 1 < body->results.size(); ++i)
      if (step.out[i] == step.out[i + 1] && OneIn(2)) {  // variables change places
        body->results[i] = static_cast<int>(i) + 1;
        body->results[i + 1] = static_cast<int>(i);
      }
    step.parts = {question, body};
    Add(region, std::move(step));
  }

  void AddElements(Region& region, int depth) {
    Step step;
    step.what = Do::k_elements;
    step.parallel = 1 + static_cast<int64_t>(Under(10));
    const int64_t rows = Has(Feature::k_empty) && OneIn(4) ? 0 : 2 + static_cast<int64_t>(Under(2));
    static const std::vector<Dims> of[] = {{{0, 3}}, {}, {{2}, {2, 3}, {2, 2}}, {{3}, {3, 2}}};
    const size_t states = Under(3), xs = 1 + Under(2);
    step.states = static_cast<int>(states);
    step.xs = static_cast<int>(xs);
    std::vector<Type> given, next;
    for (size_t i = 0; i < states; ++i) {
      const int state = Some(region, 1, 1)[0];
      step.in.push_back(state);
      given.push_back(region.type(state));
      next.push_back(region.type(state));
    }
    for (size_t i = 0; i < xs; ++i) {
      const Dims dims = Of(of[rows]);
      const DType dtype = AnyNumber();
      step.in.push_back(Need(region, TensorType(dtype, dims)));
      given.push_back(TensorType(dtype, RowOf(dims)));
    }
    const std::vector<int> invariants = Some(region, 0, 3);
    for (const int value : invariants) {
      step.in.push_back(value);
      given.push_back(region.type(value));
    }
    step.out = next;
    for (size_t i = 0, count = states == 0 ? 1 : Under(2); i < count; ++i) {
      const Dims dims = Of(of[rows]);
      const DType dtype = AnyNumber();
      next.push_back(TensorType(dtype, RowOf(dims)));
      step.out.push_back(TensorType(dtype, dims));
    }
    step.number = static_cast<double>(OneIn(4));  // from the last element to the first
    step.parts = {Part(given, next, depth)};
    Add(region, std::move(step));
  }

  void AddCall(Region& region) {
    Step step;
    step.what = Do::k_call;
    step.function = static_cast<int>(Under(static_cast<size_t>(callable_)));
    const Region& function = *program_.functions[static_cast<size_t>(step.function)];
    for (const Type& type : function.parameters) {
      const bool depth = function.recurs && step.in.empty();
      step.in.push_back(depth ? Add(region, Do::k_remainder, {Need(region, type)}, type, kMostDepth + 1)
                              : Need(region, type));
    }
    step.out = TypesOf(function, function.results);
    Add(region, std::move(step));
  }

  // ---- The whole ----
  void MakeVariables() {
    if (Has(Feature::k_variables)) MakeTensors();
    if (Has(Feature::k_queues) && !OneIn(3)) {
      Variable queue = {AnyNumber(), AnyDims()};
      queue.holder = Variable::Holder::kQueue;
      program_.variables.push_back(queue);
    }
    if (Has(Feature::k_iterators))
      for (size_t i = 0, count = 1 + Under(2); i < count; ++i) MakeIterator();
  }
  void MakeIterator() {
    static const std::vector<Dims> sources = {{3}, {2}, {2, 3}, {3, 2}, {2, 2}};
    Variable iterator;
    iterator.holder = Variable::Holder::kIterator;
    iterator.dtype = AnyNumber();
    iterator.source = Of(sources);
    iterator.repeats = !OneIn(3);
    iterator.batches = OneIn(2);
    static const std::vector<Dims> rows = {{}, {2}, {3}}, elements = {{}, {2}, {3}, {2, 3}};
    const Dims made = iterator.batches ? Of(rows) : Of(elements);
    iterator.dims = iterator.batches ? Stacked(2, made) : made;
    is_pure_ = true;
    iterator.map = Part({TensorType(iterator.dtype, RowOf(iterator.source)), TensorType(iterator.dtype, {})},
                        {TensorType(iterator.dtype, made)}, std::min(depth_, 2));
    is_pure_ = false;
    program_.variables.push_back(iterator);
  }
  void MakeTensors() {
    static const std::vector<Dims> dims = {{}, {3}, {2, 3}, {3, 2}};
    const size_t count = 1 + Under(3);
    for (size_t i = 0; i < count; ++i) {
      Variable variable = {AnyNumber(), Of(dims)};
      if (program_.smooth && i == 0) variable.dtype = floating_;
      variable.weight = program_.smooth && IsFloating(variable.dtype);
      program_.variables.push_back(variable);
    }
  }
  void MakeFunctions() {
    if (!Has(Feature::k_functions)) return;
    const size_t count = 1 + Under(2);
    for (size_t i = 0; i < count; ++i) {
      std::vector<Type> parameters, results;
      for (size_t k = 0, n = 1 + Under(2); k < n; ++k) parameters.push_back(AnyType());
      for (size_t k = 0, n = 1 + Under(2); k < n; ++k) results.push_back(AnyType());
      program_.functions.push_back(Part(parameters, results, std::min(depth_, 2)));
      callable_ = static_cast<int>(program_.functions.size());
    }
    if (Has(Feature::k_recursion)) MakeRecursion();
  }
  // A function that calls itself in a branch.
  void MakeRecursion() {
    const auto any = [&] { return TensorType(AnyNumber(), AnyDims()); };
    std::vector<Type> parameters{TensorType(DType::kInt32, {})}, results;
    for (size_t k = 0, n = 1 + Under(2); k < n; ++k) parameters.push_back(any());
    for (size_t k = 0, n = 1 + Under(2); k < n; ++k) results.push_back(any());
    auto function = std::make_shared<Region>();
    function->recurs = true;
    for (const Type& type : parameters) function->AddParameter(type);
    Fill(*function, static_cast<int>(Under(3)), 1);
    Step branch;
    branch.what = Do::k_conditional;
    const int none = Add(*function, Do::k_constant, {}, parameters[0], 6);
    branch.in = {Add(*function, Do::k_less, {none, 0}, TensorType(DType::kBool, {})), 0};
    for (const int value : Some(*function, 1, 2)) branch.in.push_back(value);
    branch.out = results;
    const std::vector<Type> given = TypesOf(*function, {branch.in.begin() + 1, branch.in.end()});
    branch.parts = {Again(given, parameters, results), Part(given, results, 1)};
    const int first = Add(*function, std::move(branch));
    Fill(*function, static_cast<int>(Under(2)), 0);
    for (size_t k = 0; k < results.size(); ++k)
      function->results.push_back(OneIn(3) ? Need(*function, results[k]) : first + static_cast<int>(k));
    program_.functions.push_back(function);
    callable_ = static_cast<int>(program_.functions.size());
  }
  std::shared_ptr<Region> Again(const std::vector<Type>& given, const std::vector<Type>& parameters,
                                const std::vector<Type>& results) {
    auto part = std::make_shared<Region>();
    for (const Type& type : given) part->AddParameter(type);
    Fill(*part, static_cast<int>(Under(3)), 0);
    Step call;
    call.what = Do::k_call;
    call.function = callable_;  // the number that the function will have
    const int one = Add(*part, Do::k_constant, {}, parameters[0], 7);
    call.in = {Add(*part, Do::k_subtract, {0, one}, parameters[0])};
    for (size_t k = 1; k < parameters.size(); ++k) call.in.push_back(Need(*part, parameters[k]));
    call.out = results;
    const int first = Add(*part, std::move(call));
    Fill(*part, static_cast<int>(Under(3)), 0);
    for (size_t k = 0; k < results.size(); ++k)
      part->results.push_back(OneIn(3) ? Need(*part, results[k]) : first + static_cast<int>(k));
    return part;
  }
  void MakeLosses() {
    Region& main = program_.main;
    std::vector<int> losses;
    const auto fits = [&](const Type& type) { return type.kind == Kind::kTensor && type.dtype == floating_; };
    for (int value = Last(main); value >= static_cast<int>(main.parameters.size()) && losses.size() < 2; --value)
      if (fits(main.type(value)) && (losses.empty() || OneIn(3))) losses.push_back(value);
    if (losses.empty()) return;
    program_.losses = losses;
    program_.order = Has(Feature::k_second_gradients) ? 2 : 1;
    program_.trains = Has(Feature::k_training);
  }

  std::mt19937 random_;
  Features features_;
  Program program_;
  DType floating_ = DType::kFloat;
  int depth_ = 1, callable_ = 0, queues_ = 0;
  bool is_pure_ = false;  // what is made has no state
};

}  // namespace

const char* NameOf(Feature feature) {
  static const char* const names[] = {
#define TENON_CROSSINGS_NAME(name) #name,
      TENON_CROSSINGS_FEATURES(TENON_CROSSINGS_NAME)
#undef TENON_CROSSINGS_NAME
  };
  return names[static_cast<int>(feature)];
}

const std::vector<Feature>& AllFeatures() {
  static const std::vector<Feature> all = {
#define TENON_CROSSINGS_ALL(name) Feature::k_##name,
      TENON_CROSSINGS_FEATURES(TENON_CROSSINGS_ALL)
#undef TENON_CROSSINGS_ALL
  };
  return all;
}

Program Generate(uint32_t seed, const Features& features) { return Generator(seed, features).Make(); }

}  // namespace tenon::crossings

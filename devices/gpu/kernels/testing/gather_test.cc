// SPDX-License-Identifier: Apache-2.0
// Elements by index, and updates of rows, of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

template <class Index>
Tensor IndicesOf(Dimensions dims, const std::vector<int>& values) {
  return Make<Index>(std::move(dims), std::vector<Index>(values.begin(), values.end()));
}
Attributes TypesOf(const char* name, uint32_t dtype, uint32_t indices) {
  return {{name, Type{dtype}}, {"Tindices", Type{indices}}};
}
template <class Function>
void ForBothIndexTypes(Function&& function) {
  function(&IndicesOf<int32_t>);
  function(&IndicesOf<int64_t>);
}

TEST(Gathers, AreTheCpus) {
  Bench bench;
  for (uint32_t dtype : kSizes) {
    const auto x = [&](const Dimensions& dims) { return Numbered(dtype, dims); };
    ForBothIndexTypes([&](auto indices) {
      const auto check = [&](const char* op, const Dimensions& params, const Tensor& at, int32_t axis,
                             int64_t batch_dims, const Dimensions& out) {
        const Attributes attributes = {
            {"Tparams", Type{dtype}}, {"Tindices", Type{at.dtype}}, {"batch_dims", batch_dims}};
        DeviceCase given = {op, attributes, {x(params), at}, {{dtype, out}}};
        if (given.op == "GatherV2") given.inputs.push_back(Int(axis)), given.host = {2};
        EXPECT_EQ(Same(bench, given), "") << dtype << " along " << axis;
      };
      check("Gather", {5, 3}, indices({2, 2}, {4, 0, 0, 3}), 0, 0, {2, 2, 3});
      check("Gather", {33}, indices({257}, std::vector<int>(257, 32)), 0, 0, {257});
      check("Gather", {5, 16}, indices({}, {3}), 0, 0, {16});
      check("Gather", {5, 3}, indices({0}, {}), 0, 0, {0, 3});
      check("GatherV2", {2, 5, 3}, indices({4}, {4, 0, 2, 1}), 1, 0, {2, 4, 3});
      check("GatherV2", {2, 5, 3}, indices({4}, {2, 0, 2, 1}), -1, 0, {2, 5, 4});
      check("GatherV2", {3, 5, 2}, indices({3, 2}, {4, 0, 1, 1, 3, 2}), 1, 1, {3, 2, 2});
      check("GatherV2", {2, 3, 4, 5}, indices({2, 2}, {3, 0, 1, 2}), 2, 1, {2, 3, 2, 5});
      check("GatherV2", {2, 3, 0}, indices({2}, {1, 0}), 1, 0, {2, 2, 0});
    });
    const Attributes nd = {{"Tparams", Type{dtype}}};
    EXPECT_EQ(
        Same(bench, {"GatherNd", nd, {x({3, 4, 5}), IndicesOf<int64_t>({2, 2}, {2, 3, 0, 1})}, {{dtype, {2, 5}}}}), "")
        << dtype;
    EXPECT_EQ(
        Same(bench, {"GatherNd", nd, {x({3, 4}), IndicesOf<int32_t>({2, 1, 2}, {2, 3, 1, 0})}, {{dtype, {2, 1}}}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"GatherNd", nd, {x({3, 4}), IndicesOf<int32_t>({2, 0}, {})}, {{dtype, {2, 3, 4}}}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"GatherNd", nd, {x({3, 4}), IndicesOf<int16_t>({0, 1}, {})}, {{dtype, {0, 4}}}}), "")
        << dtype;
    const Attributes ignoring = {{"Tparams", Type{dtype}}, {"bad_indices_policy", std::string("IGNORE")}};
    EXPECT_EQ(
        Same(bench, {"GatherNd", ignoring, {x({3, 4}), IndicesOf<int32_t>({3, 1}, {2, 3, -1})}, {{dtype, {3, 4}}}}), "")
        << dtype;
  }
}

TEST(Gathers, ByAnIndexThatIsNoneFailLate) {
  Bench bench;
  std::vector<Tensor> out;
  const Tensor x = Floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const Attributes gather = TypesOf("Tparams", TENON_DT_FLOAT, TENON_DT_INT32);
  EXPECT_NE(bench.OnDevice({"Gather", gather, {x, Ints({1, 3})}, {{TENON_DT_FLOAT, {2, 2}}}}, &out)
                .find("indices[1] = 3 is not in [0, 3)"),
            std::string::npos);
  EXPECT_NE(bench.OnDevice({"Gather", gather, {x, Ints({-1, 2})}, {{TENON_DT_FLOAT, {2, 2}}}}, &out)
                .find("indices[0] = -1 is not in [0, 3)"),
            std::string::npos);
  EXPECT_NE(
      bench.OnDevice({"GatherNd", gather, {x, IndicesOf<int32_t>({2, 2}, {0, 1, 2, 2})}, {{TENON_DT_FLOAT, {2}}}}, &out)
          .find("indices[1] has 2, which does not index into the shape: the dim has 2"),
      std::string::npos);
  EXPECT_EQ(bench.OnDevice({"Gather", gather, {x, Ints({1, 2})}, {{TENON_DT_FLOAT, {2, 2}}}}, &out),
            "");  // a failure stays with its timeline
}

// The rows that come several times get numbers whose sums are exact in any order.
Tensor Whole(uint32_t dtype, Dimensions dims, uint32_t seed) {
  std::vector<float> values;
  for (float x : Values<float>(RandomFloatsOf(dims, seed, -8, 8))) values.push_back(std::floor(x));
  return ValuesOf(dtype, Floats(std::move(dims), values), 1);
}

TEST(Scatters, IntoTensorsAreTheCpus) {
  Bench bench;
  for (uint32_t dtype : kNumberTypes) {
    ForBothIndexTypes([&](auto indices) {
      const Tensor some = indices({4, 1}, {3, 0, 3, 3}), pairs = indices({3, 2}, {1, 2, 0, 0, 1, 2}),
                   none = indices({0, 1}, {});
      const Attributes attributes = TypesOf("T", dtype, some.dtype);
      const auto shape = [&](const std::vector<int>& dims) {
        return indices({static_cast<int64_t>(dims.size())}, dims);
      };
      EXPECT_EQ(Same(bench,
                     {"ScatterNd", attributes, {some, Whole(dtype, {4, 3}, 1), shape({5, 3})}, {{dtype, {5, 3}}}, {2}}),
                "")
          << dtype;
      EXPECT_EQ(
          Same(bench, {"ScatterNd", attributes, {pairs, Whole(dtype, {3}, 1), shape({2, 3})}, {{dtype, {2, 3}}}, {2}}),
          "")
          << dtype;
      EXPECT_EQ(Same(bench,
                     {"ScatterNd", attributes, {none, Whole(dtype, {0, 3}, 1), shape({5, 3})}, {{dtype, {5, 3}}}, {2}}),
                "")
          << dtype;
      for (const char* op :
           {"TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax", "TensorScatterUpdate"}) {
        EXPECT_EQ(
            Same(bench,
                 {op, attributes, {Whole(dtype, {5, 33}, 2), some, Whole(dtype, {4, 33}, 1)}, {{dtype, {5, 33}}}}),
            "")
            << dtype;
        EXPECT_EQ(
            Same(bench, {op, attributes, {Whole(dtype, {2, 3}, 2), pairs, Whole(dtype, {3}, 1)}, {{dtype, {2, 3}}}}),
            "")
            << dtype;
        EXPECT_EQ(
            Same(bench, {op, attributes, {Whole(dtype, {2, 3}, 2), none, Whole(dtype, {0, 3}, 1)}, {{dtype, {2, 3}}}}),
            "")
            << dtype;
      }
    });
  }
  for (uint32_t dtype : kSizes) {
    std::vector<int> many;
    for (int i = 0; i < 257; ++i) many.push_back(i * 31 % 40);
    const Attributes attributes = TypesOf("T", dtype, TENON_DT_INT32);
    EXPECT_EQ(Same(bench, {"TensorScatterUpdate",
                           attributes,
                           {Numbered(dtype, {40, 2}), IndicesOf<int32_t>({257, 1}, many), Numbered(dtype, {257, 2}, 5)},
                           {{dtype, {40, 2}}}}),
              "")
        << dtype;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"TensorScatterMin", "TensorScatterMax"}) {
    EXPECT_EQ(Same(bench,
                   {op,
                    TypesOf("T", TENON_DT_FLOAT, TENON_DT_INT32),
                    {Floats({3}, {1, nan, 2}), IndicesOf<int32_t>({4, 1}, {0, 1, 2, 2}), Floats({4}, {nan, 3, nan, 7})},
                    {{TENON_DT_FLOAT, {3}}}}),
              "");
  }
}

TEST(Scatters, OutsideOfTensorsFailLateOrAreIgnored) {
  Bench bench;
  std::vector<Tensor> out;
  const Tensor x = Floats({3}, {1, 2, 3}), at = IndicesOf<int32_t>({3, 1}, {0, 7, 2}), y = Floats({3}, {4, 5, 6});
  for (const char* op : {"TensorScatterAdd", "TensorScatterMax", "TensorScatterUpdate"}) {
    Attributes attributes = TypesOf("T", TENON_DT_FLOAT, TENON_DT_INT32);
    EXPECT_NE(bench.OnDevice({op, attributes, {x, at, y}, {{TENON_DT_FLOAT, {3}}}}, &out)
                  .find("indices[1] has 7, which does not index into the shape: the dim has 3"),
              std::string::npos)
        << op;
    attributes["bad_indices_policy"] = std::string("IGNORE");
    EXPECT_EQ(Same(bench, {op, attributes, {x, at, y}, {{TENON_DT_FLOAT, {3}}}}), "");
  }
}

TEST(Segments, AreSummedAsTheCpuDoes) {
  Bench bench;
  for (uint32_t dtype : kNumberTypes) {
    ForBothIndexTypes([&](auto indices) {
      const Attributes attributes = TypesOf("T", dtype, indices({0}, {}).dtype);
      const auto check = [&](const Dimensions& data, const Tensor& ids, int32_t rows, const Dimensions& out) {
        for (const char* op : {"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin"}) {
          EXPECT_EQ(Same(bench, {op, attributes, {Whole(dtype, data, 3), ids, Int(rows)}, {{dtype, out}}, {2}}), "")
              << op << dtype;
        }
        // Few factors: products of small whole numbers are exact in any order.
        if (data[0] <= 5) {
          EXPECT_EQ(
              Same(bench,
                   {"UnsortedSegmentProd", attributes, {Whole(dtype, data, 3), ids, Int(rows)}, {{dtype, out}}, {2}}),
              "")
              << dtype;
        }
      };
      check({5, 3}, indices({5}, {2, 0, 2, -1, 2}), 4, {4, 3});
      check({2, 2, 33}, indices({2, 2}, {1, 1, 0, 1}), 2, {2, 33});
      check({257}, indices({257}, std::vector<int>(257, 1)), 3, {3});
      check({0, 3}, indices({0}, {}), 2, {2, 3});
      check({2, 3}, indices({2}, {-1, -5}), 0, {0, 3});
    });
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"UnsortedSegmentMax", "UnsortedSegmentMin"}) {
    const Attributes attributes = TypesOf("T", TENON_DT_FLOAT, TENON_DT_INT32);
    EXPECT_EQ(Same(bench, {op,
                           attributes,
                           {Floats({4}, {nan, 3, 2, nan}), Ints({0, 0, 1, 1}), Int(2)},
                           {{TENON_DT_FLOAT, {2}}},
                           {2}}),
              "");
  }
  std::vector<Tensor> out;
  EXPECT_NE(
      bench
          .OnDevice(
              {"UnsortedSegmentSum", {}, {Floats({2}, {1, 2}), Ints({0, 3}), Int(3)}, {{TENON_DT_FLOAT, {3}}}, {2}},
              &out)
          .find("segment_ids[1] = 3 is out of range [0, 3)"),
      std::string::npos);
}

TEST(Variables, RowsAreGatheredAsTheCpuDoes) {
  Bench bench;
  for (uint32_t dtype : kSizes) {
    Twin v(bench, Numbered(dtype, {5, 3}));
    const auto same = [&](const DeviceCase& given) {
      std::vector<Tensor> got, want;
      EXPECT_EQ(bench.OnDevice(given, &got, {&v.on_device}), "");
      EXPECT_EQ(bench.OnCpu(given, &want, {&v.on_cpu}), "");
      return got.at(0).bytes == want.at(0).bytes;
    };
    const Attributes attributes = TypesOf("dtype", dtype, TENON_DT_INT32);
    EXPECT_TRUE(same({"ResourceGather", attributes, {VariableInput(), Ints({4, 0, 4})}, {{dtype, {3, 3}}}})) << dtype;
    EXPECT_TRUE(same(
        {"ResourceGatherNd", attributes, {VariableInput(), IndicesOf<int32_t>({2, 2}, {4, 0, 1, 2})}, {{dtype, {2}}}}))
        << dtype;
  }
  Twin v(bench, Floats({2}, {1, 2}));
  std::vector<Tensor> out;
  EXPECT_NE(bench
                .OnDevice({"ResourceGather",
                           TypesOf("dtype", TENON_DT_FLOAT, TENON_DT_INT32),
                           {VariableInput(), Ints({2})},
                           {{TENON_DT_FLOAT, {1}}}},
                          &out, {&v.on_device})
                .find("indices[0] = 2 is not in [0, 2)"),
            std::string::npos);
  EXPECT_EQ(bench.OnDevice({"ResourceGather",
                            TypesOf("dtype", TENON_DT_DOUBLE, TENON_DT_INT32),
                            {VariableInput(), Ints({1})},
                            {{TENON_DT_DOUBLE, {1}}}},
                           &out, {&v.on_device}),
            "INVALID_ARGUMENT: the variable is float; dtype is double");
}

TEST(Variables, RowsChangeAsOnTheCpu) {
  Bench bench;
  std::vector<Tensor> out;
  for (uint32_t dtype : kNumberTypes) {
    for (const char* op : {"ScatterAdd", "ScatterSub", "ScatterUpdate", "ScatterMul", "ScatterMin", "ScatterMax",
                           "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate", "ResourceScatterMul",
                           "ResourceScatterMin", "ResourceScatterMax"}) {
      const bool reference = op[0] == 'S';
      Twin v(bench, Whole(dtype, {6, 5}, 1));
      const auto both = [&](const Tensor& at, const Tensor& updates) {
        DeviceCase given = {op, TypesOf(reference ? "T" : "dtype", dtype, at.dtype), {VariableInput(), at, updates}};
        if (reference) given.outputs = {{TENON_DT_INT64, {1}}}, given.host_outputs = {0};
        EXPECT_EQ(bench.OnDevice(given, &out, {&v.on_device}), "") << op;
        EXPECT_TRUE(!reference || reinterpret_cast<tenon_resource*>(Values<int64_t>(out[0])[0]) == &v.on_device);
        EXPECT_EQ(bench.OnCpu(given, &out, {&v.on_cpu}), "") << op;
        return v.Agree(bench);
      };
      EXPECT_TRUE(both(Ints({4, 0, 4}), Whole(dtype, {3, 5}, 2))) << op << dtype;
      EXPECT_TRUE(both(IndicesOf<int64_t>({2, 2}, {1, 3, 1, 1}), Whole(dtype, {2, 2, 5}, 3))) << op << dtype;
      EXPECT_TRUE(both(Ints({5, 2}), Whole(dtype, {}, 4))) << op << dtype;  // one element for all
      EXPECT_TRUE(both(Ints({}), Whole(dtype, {0, 5}, 2))) << op << dtype;
      EXPECT_EQ(v.on_device.commits, 4);
    }
  }
  Twin v(bench, Floats({2}, {1, 2}));
  const Attributes attributes = TypesOf("dtype", TENON_DT_FLOAT, TENON_DT_INT32);
  // Quotients by powers of two are exact in any order; nothing is divided by 0, but floats of references.
  Twin divided(bench, Floats({3}, {1, 2, 3}));
  const DeviceCase divide = {
      "ResourceScatterDiv", attributes, {VariableInput(), Ints({0, 2, 0}), Floats({3}, {2, -4, 8})}};
  EXPECT_EQ(bench.OnDevice(divide, &out, {&divided.on_device}), "");
  EXPECT_EQ(bench.OnCpu(divide, &out, {&divided.on_cpu}), "");
  EXPECT_TRUE(divided.Agree(bench));
  DeviceCase by_zero = {"ScatterDiv",
                        TypesOf("T", TENON_DT_FLOAT, TENON_DT_INT32),
                        {VariableInput(), Ints({1}), Floats({1}, {0})},
                        {{TENON_DT_INT64, {1}}},
                        {},
                        {0}};
  EXPECT_EQ(bench.OnDevice(by_zero, &out, {&divided.on_device}), "");
  EXPECT_EQ(bench.OnCpu(by_zero, &out, {&divided.on_cpu}), "");
  EXPECT_TRUE(divided.Agree(bench));
  by_zero = {"ResourceScatterDiv", attributes, {VariableInput(), Ints({1}), Floats({1}, {0})}};
  EXPECT_NE(bench.OnDevice(by_zero, &out, {&divided.on_device}).find("updates must not contain 0"), std::string::npos);
  Twin whole(bench, ValuesOf(TENON_DT_INT32, Floats({3}, {1, 2, 3})));
  by_zero = {"ScatterDiv",
             TypesOf("T", TENON_DT_INT32, TENON_DT_INT32),
             {VariableInput(), Ints({1}), Ints({0})},
             {{TENON_DT_INT64, {1}}},
             {},
             {0}};
  EXPECT_NE(bench.OnDevice(by_zero, &out, {&whole.on_device}).find("Integer division by zero"), std::string::npos);
  for (const char* op : {"ResourceScatterAdd", "ResourceScatterUpdate"}) {
    EXPECT_NE(
        bench.OnDevice({op, attributes, {VariableInput(), Ints({0, 2}), Floats({2}, {1, 1})}, {}}, &out, {&v.on_device})
            .find("indices[1] = 2 is not in [0, 2)"),
        std::string::npos);
  }
  EXPECT_EQ(
      bench.OnDevice({"ResourceScatterAdd", attributes, {VariableInput(), Ints({0, 1}), Floats({3}, {1, 1, 1})}, {}},
                     &out, {&v.on_device}),
      "INVALID_ARGUMENT: updates of shape [3] do not fit 2 rows of a variable of shape [2]");
}

TEST(Variables, SlicesChangeAsOnTheCpu) {
  Bench bench;
  std::vector<Tensor> out;
  for (uint32_t dtype : kNumberTypes) {
    for (const char* op :
         {"ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate", "ScatterNdMin", "ScatterNdMax", "ResourceScatterNdAdd",
          "ResourceScatterNdSub", "ResourceScatterNdUpdate", "ResourceScatterNdMin", "ResourceScatterNdMax"}) {
      const bool reference = op[0] == 'S';
      Twin v(bench, Whole(dtype, {6, 2, 5}, 1));
      const auto both = [&](const Tensor& at, const Tensor& updates) {
        DeviceCase given = {op, TypesOf("T", dtype, at.dtype), {VariableInput(), at, updates}};
        if (reference) given.outputs = {{TENON_DT_INT64, {1}}}, given.host_outputs = {0};
        EXPECT_EQ(bench.OnDevice(given, &out, {&v.on_device}), "") << op;
        EXPECT_EQ(bench.OnCpu(given, &out, {&v.on_cpu}), "") << op;
        return v.Agree(bench);
      };
      EXPECT_TRUE(both(IndicesOf<int32_t>({3, 1}, {4, 0, 4}), Whole(dtype, {3, 2, 5}, 2))) << op << dtype;
      EXPECT_TRUE(both(IndicesOf<int64_t>({2, 2, 2}, {1, 1, 3, 0, 1, 1, 5, 1}), Whole(dtype, {2, 2, 5}, 3)))
          << op << dtype;
      EXPECT_TRUE(both(IndicesOf<int32_t>({0, 1}, {}), Whole(dtype, {0, 2, 5}, 2))) << op << dtype;
      EXPECT_EQ(v.on_device.commits, 3);
    }
  }
  Twin v(bench, Floats({2}, {1, 2}));
  const Attributes attributes = TypesOf("T", TENON_DT_FLOAT, TENON_DT_INT32);
  for (const char* op : {"ResourceScatterNdAdd", "ResourceScatterNdUpdate"}) {
    EXPECT_NE(
        bench
            .OnDevice({op, attributes, {VariableInput(), IndicesOf<int32_t>({2, 1}, {0, 2}), Floats({2}, {1, 1})}, {}},
                      &out, {&v.on_device})
            .find("indices[1] has 2, which does not index into the shape: the dim has 2"),
        std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::device_test

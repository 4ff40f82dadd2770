// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "testing/kernel.h"

namespace tenon::cpu::array_test {
namespace {

std::vector<float> Iota(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.f);
  return v;
}
Tensor Ramp(std::vector<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return Make<float>(std::move(dims), Iota(n));
}
using F = std::vector<float>;
using I = std::vector<int64_t>;

TEST(Slice, TakesABlockAndRefusesWhatIsOutside) {
  const auto slice = [](std::vector<int32_t> begin, std::vector<int32_t> size, I out, bool early) {
    Kernel kernel("Slice");
    if (early) kernel.Constant(1).Constant(2);
    return kernel.Run({Ramp({3, 4}), Vector<int32_t>(begin), Vector<int32_t>(size)}, {Out<float>(out)});
  };
  for (bool early : {true, false}) {
    EXPECT_EQ(Values<float>(slice({1, 1}, {2, 2}, {2, 2}, early)[0]), (F{5, 6, 9, 10}));
    EXPECT_EQ(Values<float>(slice({2, 0}, {-1, -1}, {1, 4}, early)[0]), (F{8, 9, 10, 11}));
    EXPECT_EQ(slice({3, 0}, {0, 4}, {0, 4}, early).code, TENON_OK);
    for (auto [b, s] : {std::pair{-1, 1}, {2, 2}, {4, 0}, {0, INT32_MAX}}) {
      EXPECT_EQ(slice({b, 0}, {s, 1}, {1, 1}, early).code, TENON_INVALID_ARGUMENT) << b << " " << s;
    }
  }
}

TEST(XlaDynamicUpdateSlice, MovesABoxInsideAndRefusesOneThatIsTooLarge) {
  const auto update = [](std::vector<int32_t> at, const Tensor& by, I out) {
    return Kernel("XlaDynamicUpdateSlice").Run({Ramp({3, 4}), by, Vector<int32_t>(at)}, {Out<float>(out)});
  };
  const auto sevens = [](I dims) {
    return Make<float>(dims, std::vector<float>(static_cast<size_t>(dims[0] * dims[1]), 7));
  };
  EXPECT_EQ(Values<float>(update({1, 2}, sevens({1, 2}), {3, 4})[0]), (F{0, 1, 2, 3, 4, 5, 7, 7, 8, 9, 10, 11}));
  EXPECT_EQ(Values<float>(update({INT32_MAX, INT32_MIN}, sevens({2, 1}), {3, 4})[0]),
            (F{0, 1, 2, 3, 7, 5, 6, 7, 7, 9, 10, 11}));
  EXPECT_EQ(Values<float>(update({0, 0}, sevens({0, 4}), {3, 4})[0]), (F{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  for (const I& dims : {I{4, 1}, I{1, 5}}) EXPECT_EQ(update({0, 0}, sevens(dims), {3, 4}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(update({0}, sevens({1, 1}), {3, 4}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(update({0, 0}, Ramp({3}), {3, 4}).code, TENON_INVALID_ARGUMENT);
}

struct SliceCase {
  std::vector<int32_t> begin, end, strides;
  int64_t begin_mask, end_mask, ellipsis, new_axis, shrink;
  I out;
  F want;
};

Kernel StridedKernel(const char* op, const SliceCase& c) {
  Kernel kernel(op);
  kernel.Attr("begin_mask", c.begin_mask).Attr("end_mask", c.end_mask).Attr("ellipsis_mask", c.ellipsis);
  kernel.Attr("new_axis_mask", c.new_axis).Attr("shrink_axis_mask", c.shrink);
  return kernel;
}

TEST(StridedSlice, FollowsEveryMask) {
  const SliceCase cases[] = {
      {{1}, {3}, {1}, 0, 0, 0, 0, 0, {2, 4}, {4, 5, 6, 7, 8, 9, 10, 11}},
      {{0, 3}, {3, 0}, {2, -1}, 0, 0, 0, 0, 0, {2, 3}, {3, 2, 1, 11, 10, 9}},
      {{-1, 0}, {0, 0}, {-1, 1}, 0, 3, 0, 0, 0, {3, 4}, {8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}},
      {{1, 0}, {0, 0}, {1, 1}, 2, 2, 0, 0, 1, {4}, {4, 5, 6, 7}},
      {{0, -1}, {0, 0}, {1, 1}, 0, 0, 1, 0, 2, {3}, {3, 7, 11}},
      {{0, 1, 0}, {0, 2, 0}, {1, 1, 1}, 0, 4, 0, 1, 0, {1, 1, 4}, {4, 5, 6, 7}},
      {{5}, {9}, {1}, 0, 0, 0, 0, 0, {0, 4}, {}},
      {{0, 0, 0}, {0, 0, 2}, {1, 1, 2}, 4, 0, 1, 2, 0, {3, 1, 1}, {0, 4, 8}},
      {{-100}, {100}, {INT32_MAX}, 0, 0, 0, 0, 0, {1, 4}, {0, 1, 2, 3}},
  };
  for (const SliceCase& c : cases) {
    for (bool early : {true, false}) {
      Kernel kernel = StridedKernel("StridedSlice", c);
      if (early) kernel.Constant(1).Constant(2).Constant(3);
      const Result r =
          kernel.Run({Ramp({3, 4}), Vector<int32_t>(c.begin), Vector<int32_t>(c.end), Vector<int32_t>(c.strides)},
                     {Out<float>(c.out)});
      ASSERT_EQ(r.code, TENON_OK) << r.message;
      EXPECT_EQ(Values<float>(r[0]), c.want);
    }
    // The gradient writes dy where the slice read.
    F want(12, 0.f);
    for (float v : c.want) want[static_cast<size_t>(v)] = v + 100;
    F dy = c.want;
    for (float& v : dy) v += 100;
    const Result g = StridedKernel("StridedSliceGrad", c)
                         .Run({Vector<int32_t>({3, 4}), Vector<int32_t>(c.begin), Vector<int32_t>(c.end),
                               Vector<int32_t>(c.strides), Make<float>(c.out, dy)},
                              {Out<float>({3, 4})});
    ASSERT_EQ(g.code, TENON_OK) << g.message;
    EXPECT_EQ(Values<float>(g[0]), want);
  }
}

TEST(StridedSlice, RefusesBadIndices) {
  const auto code = [](SliceCase c) {
    return StridedKernel("StridedSlice", c)
        .Run({Ramp({3, 4}), Vector<int32_t>(c.begin), Vector<int32_t>(c.end), Vector<int32_t>(c.strides)},
             {Out<float>(c.out)})
        .code;
  };
  EXPECT_EQ(code({{3}, {4}, {1}, 0, 0, 0, 0, 1, {4}, {}}), TENON_INVALID_ARGUMENT) << "a shrunk index outside";
  EXPECT_EQ(code({{0}, {1}, {0}, 0, 0, 0, 0, 0, {1, 4}, {}}), TENON_INVALID_ARGUMENT) << "stride 0";
  EXPECT_EQ(code({{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, 0, 0, 0, 0, 0, {1, 1}, {}}), TENON_INVALID_ARGUMENT)
      << "too many dims";
  EXPECT_EQ(code({{0, 0}, {1, 1}, {1, 1}, 0, 0, 3, 0, 0, {3, 4}, {}}), TENON_INVALID_ARGUMENT) << "two ellipses";
  EXPECT_EQ(code({{0}, {2}, {1}, 0, 0, 0, 0, 0, {3, 4}, {}}), TENON_INVALID_ARGUMENT) << "another output size";
}

TEST(Transpose, PermutesAnyDims) {
  const auto check = [](I dims, std::vector<int32_t> perm) {
    I out;
    for (int32_t p : perm) out.push_back(dims[static_cast<size_t>(p)]);
    const Result r = Kernel("Transpose").Run({Ramp(dims), Vector<int32_t>(perm)}, {Out<float>(out)});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    const auto got = Values<float>(r[0]);
    for (size_t flat = 0; flat < got.size(); ++flat) {
      I index(out.size());
      int64_t rest = static_cast<int64_t>(flat);
      for (size_t d = out.size(); d-- > 0; rest /= out[d]) index[d] = rest % out[d];
      int64_t from = 0;
      for (size_t d = 0; d < dims.size(); ++d) {
        size_t at = 0;
        while (static_cast<size_t>(perm[at]) != d) ++at;
        from = from * dims[d] + index[at];
      }
      ASSERT_EQ(got[flat], static_cast<float>(from));
    }
  };
  check({3, 4}, {1, 0});
  check({3, 4}, {0, 1});
  check({70, 130}, {1, 0});
  check({2, 3, 4}, {2, 0, 1});
  check({5, 40, 33}, {0, 2, 1});
  check({2, 3, 4, 5}, {3, 1, 2, 0});
  check({3, 1, 5}, {2, 1, 0});
  check({0, 4}, {1, 0});
  EXPECT_EQ(Kernel("Transpose").Run({Ramp({2, 2}), Vector<int32_t>({0, 0})}, {Out<float>({2, 2})}).code,
            TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Kernel("Transpose").Run({Ramp({2, 3}), Vector<int32_t>({1, 0})}, {Out<float>({2, 3})}).code,
            TENON_INVALID_ARGUMENT);
}

TEST(Copies, TileBroadcastReverseAndPad) {
  EXPECT_EQ(Values<float>(Kernel("Tile").Run({Ramp({2, 2}), Vector<int32_t>({2, 3})}, {Out<float>({4, 6})})[0]),
            (F{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(
      Values<float>(Kernel("BroadcastTo").Run({Ramp({2, 1}), Vector<int32_t>({2, 2, 3})}, {Out<float>({2, 2, 3})})[0]),
      (F{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(Values<float>(Kernel("ReverseV2").Run({Ramp({2, 3}), Vector<int32_t>({-1, 0})}, {Out<float>({2, 3})})[0]),
            (F{5, 4, 3, 2, 1, 0}));
  const auto turned = []<class T>(T, int64_t height, int64_t width,
                                  int64_t channels) {  // left to right, pixel by pixel
    std::vector<T> from(static_cast<size_t>(height * width * channels)), to(from.size());
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 7);
    for (int64_t i = 0; i < height * width * channels; ++i) {
      const int64_t x = i / channels % width;
      to[static_cast<size_t>(i)] = from[static_cast<size_t>(i + (width - 1 - 2 * x) * channels)];
    }
    const Tensor picture = Make<T>({height, width, channels}, from);
    EXPECT_EQ(
        Values<T>(Kernel("ReverseV2").Run({picture, Vector<int32_t>({1})}, {Out<T>({height, width, channels})})[0]), to)
        << width << " of " << channels;
  };
  for (const int64_t channels : {1, 2, 3, 4, 5}) {
    for (const int64_t width : {1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 17, 43}) {
      turned(uint8_t{}, 3, width, channels);
      turned(int16_t{}, 3, width, channels);
      turned(float{}, 3, width, channels);
    }
    turned(uint8_t{}, 61, 43, channels);
  }
  const Tensor paddings = Make<int32_t>({2, 2}, {1, 0, 0, 2});
  EXPECT_EQ(Values<float>(Kernel("Pad").Run({Make<float>({1, 2}, {1, 2}), paddings}, {Out<float>({2, 4})})[0]),
            (F{0, 0, 0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(
      Values<float>(Kernel("PadV2").Run({Make<float>({1, 2}, {1, 2}), paddings, Scalar(9.f)}, {Out<float>({2, 4})})[0]),
      (F{9, 9, 9, 9, 1, 2, 9, 9}));
  EXPECT_EQ(Kernel("Pad").Run({Ramp({1, 2}), Make<int32_t>({2, 2}, {-1, 2, 0, 2})}, {Out<float>({2, 4})}).code,
            TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Kernel("Tile").Run({Ramp({2}), Vector<int32_t>({-1})}, {Out<float>({2})}).code, TENON_INVALID_ARGUMENT);
}

TEST(Concat, JoinsAndSplitsAlongAnyAxis) {
  const Tensor a = Make<float>({2, 1}, {1, 2}), b = Make<float>({2, 2}, {3, 4, 5, 6});
  EXPECT_EQ(Values<float>(Kernel("ConcatV2").Run({a, b, Scalar<int32_t>(-1)}, {Out<float>({2, 3})})[0]),
            (F{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(Values<float>(Kernel("ConcatV2").Run({b, b, Scalar<int64_t>(0)}, {Out<float>({4, 2})})[0]),
            (F{3, 4, 5, 6, 3, 4, 5, 6}));
  EXPECT_EQ(Kernel("ConcatV2").Run({a, b, Scalar<int32_t>(0)}, {Out<float>({4, 2})}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Kernel("ConcatV2").Run({a, b, Scalar<int32_t>(2)}, {Out<float>({2, 3})}).code, TENON_INVALID_ARGUMENT);
  const Result split =
      Kernel("Split").Run({Scalar<int32_t>(1), Ramp({2, 4})}, {Out<float>({2, 2}), Out<float>({2, 2})});
  EXPECT_EQ(Values<float>(split[0]), (F{0, 1, 4, 5}));
  EXPECT_EQ(Values<float>(split[1]), (F{2, 3, 6, 7}));
  const Result v = Kernel("SplitV").Run({Ramp({4}), Vector<int64_t>({1, -1}), Scalar<int32_t>(0)},
                                        {Out<float>({1}), Out<float>({3})});
  EXPECT_EQ(Values<float>(v[1]), (F{1, 2, 3}));
  const Result packed =
      Kernel("Pack").Attr("axis", int64_t{1}).Run({Vector<float>({1, 2}), Vector<float>({3, 4})}, {Out<float>({2, 2})});
  EXPECT_EQ(Values<float>(packed[0]), (F{1, 3, 2, 4}));
  const Result unpacked =
      Kernel("Unpack").Attr("axis", int64_t{-1}).Run({Ramp({2, 2})}, {Out<float>({2}), Out<float>({2})});
  EXPECT_EQ(Values<float>(unpacked[1]), (F{1, 3}));
}

TEST(Gather, TakesRowsAlongAnAxisAndChecksIndices) {
  Kernel kernel("GatherV2");
  kernel.Attr("batch_dims", int64_t{0});
  EXPECT_EQ(
      Values<float>(kernel.Run({Ramp({3, 2}), Vector<int32_t>({2, 0}), Scalar<int32_t>(0)}, {Out<float>({2, 2})})[0]),
      (F{4, 5, 0, 1}));
  EXPECT_EQ(Values<float>(
                kernel.Run({Ramp({2, 3}), Vector<int64_t>({2, 2, 0}), Scalar<int32_t>(-1)}, {Out<float>({2, 3})})[0]),
            (F{2, 2, 0, 5, 5, 3}));
  for (int32_t bad : {-1, 3}) {
    const Result r = kernel.Run({Ramp({3, 2}), Vector<int32_t>({0, bad}), Scalar<int32_t>(0)}, {Out<float>({2, 2})});
    EXPECT_EQ(r.code, TENON_INVALID_ARGUMENT);
    EXPECT_EQ(r.message, "indices[1] = " + std::to_string(bad) + " is not in [0, 3)");
  }
  Kernel batched("GatherV2");
  batched.Attr("batch_dims", int64_t{1});
  EXPECT_EQ(Values<float>(batched.Run({Ramp({2, 3}), Make<int32_t>({2, 2}, {0, 2, 1, 1}), Scalar<int32_t>(1)},
                                      {Out<float>({2, 2})})[0]),
            (F{0, 2, 4, 4}));
}

TEST(Shape, AnswersAboutShapes) {
  EXPECT_EQ(Values<int32_t>(Kernel("Shape").Run({Ramp({2, 3})}, {Out<int32_t>({2})})[0]), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(Values<int64_t>(Kernel("Size").Run({Ramp({2, 3})}, {Out<int64_t>()})[0])[0], 6);
  EXPECT_EQ(Values<int32_t>(Kernel("Rank").Run({Ramp({2, 3})}, {Out<int32_t>()})[0])[0], 2);
  const Result args = Kernel("BroadcastGradientArgs")
                          .Run({Vector<int32_t>({2, 1, 4}), Vector<int32_t>({3, 4})}, {Out<int32_t>(), Out<int32_t>()});
  EXPECT_EQ(Values<int32_t>(args[0]), (std::vector<int32_t>{1}));
  EXPECT_EQ(Values<int32_t>(args[1]), (std::vector<int32_t>{0}));
  EXPECT_EQ(Kernel("BroadcastGradientArgs")
                .Run({Vector<int32_t>({2}), Vector<int32_t>({3})}, {Out<int32_t>(), Out<int32_t>()})
                .code,
            TENON_INVALID_ARGUMENT);
  const Result offsets = Kernel("ConcatOffset")
                             .Run({Scalar<int32_t>(1), Vector<int32_t>({2, 3}), Vector<int32_t>({2, 5})},
                                  {Out<int32_t>({2}), Out<int32_t>({2})});
  EXPECT_EQ(Values<int32_t>(offsets[1]), (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(Values<int32_t>(Kernel("InvertPermutation").Run({Vector<int32_t>({2, 0, 1})}, {Out<int32_t>({3})})[0]),
            (std::vector<int32_t>{1, 2, 0}));
  EXPECT_EQ(Kernel("InvertPermutation").Run({Vector<int32_t>({0, 0})}, {Out<int32_t>({2})}).code,
            TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Values<float>(Kernel("Reshape").Run({Ramp({2, 3}), Vector<int32_t>({6})}, {Out<float>({6})})[0]), Iota(6));
}

TEST(Fill, WritesConstantsAndRanges) {
  EXPECT_EQ(Values<float>(Kernel("Fill").Run({Vector<int32_t>({2, 2}), Scalar(7.f)}, {Out<float>({2, 2})})[0]),
            (F{7, 7, 7, 7}));
  EXPECT_EQ(Values<double>(Kernel("ZerosLike").Run({Make<double>({2}, {1, 2})}, {Out<double>({2})})[0]),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(Values<int64_t>(Kernel("OnesLike").Run({Vector<int64_t>({5, 6})}, {Out<int64_t>({2})})[0]), (I{1, 1}));
  const auto range = [](auto start, auto limit, auto delta, int64_t n) {
    using T = decltype(start);
    return Kernel("Range").Run({Scalar<T>(start), Scalar<T>(limit), Scalar<T>(delta)}, {Out<T>({n})});
  };
  EXPECT_EQ(Values<int32_t>(range(3, 12, 4, 3)[0]), (std::vector<int32_t>{3, 7, 11}));
  EXPECT_EQ(Values<int32_t>(range(3, 0, -1, 3)[0]), (std::vector<int32_t>{3, 2, 1}));
  EXPECT_EQ(Values<float>(range(0.f, 1.f, 0.25f, 4)[0]), (F{0, 0.25f, 0.5f, 0.75f}));
  EXPECT_EQ(range(0, 3, 0, 3).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(range(3, 0, 1, 0).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(range(0, 3, 1, 5).code, TENON_INVALID_ARGUMENT) << "another output size";
}

TEST(Pad, WritesTheValueAroundAnyDims) {
  for (const auto& [dims, paddings] : std::vector<std::pair<I, std::vector<int32_t>>>{{{2, 3, 4}, {1, 0, 0, 2, 3, 1}},
                                                                                      {{2, 3, 4}, {0, 0, 2, 1, 0, 0}},
                                                                                      {{2, 3, 4}, {1, 2, 0, 0, 0, 0}},
                                                                                      {{2, 3, 4}, {0, 0, 0, 0, 0, 0}},
                                                                                      {{2, 0, 3}, {1, 1, 1, 1, 1, 0}},
                                                                                      {{}, {}}}) {
    I out;
    int64_t total = 1;
    for (size_t d = 0; d < dims.size(); ++d)
      out.push_back(paddings[2 * d] + dims[d] + paddings[2 * d + 1]), total *= out.back();
    F want(static_cast<size_t>(total), -1.f);
    for (int64_t i = 0; i < total; ++i) {
      int64_t at = 0, step = 1, rest = i;
      bool inside = true;
      for (size_t d = dims.size(); d-- > 0; rest /= out[d]) {
        const int64_t index = rest % out[d] - paddings[2 * d];
        inside &= index >= 0 && index < dims[d];
        at += index * step, step *= dims[d];
      }
      if (inside) want[static_cast<size_t>(i)] = static_cast<float>(at);
    }
    const Tensor p = Make<int32_t>({static_cast<int64_t>(dims.size()), 2}, paddings);
    const Result r = Kernel("PadV2").Threads(3).Run({Ramp(dims), p, Scalar(-1.f)}, {Out<float>(out)});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    EXPECT_EQ(Values<float>(r[0]), want) << dims.size();
  }
}

TEST(Select, ChoosesByElementRowOrScalar) {
  const Tensor t = Ramp({2, 2}), e = Make<float>({2, 2}, {10, 11, 12, 13});
  const auto select = [&](Tensor cond) {
    return Values<float>(Kernel("Select").Run({cond, t, e}, {Out<float>({2, 2})})[0]);
  };
  EXPECT_EQ(select(Make<bool>({2, 2}, {true, false, false, true})), (F{0, 11, 12, 3}));
  EXPECT_EQ(select(Vector<bool>({true, false})), (F{0, 1, 12, 13}));
  EXPECT_EQ(select(Scalar<bool>(false)), (F{10, 11, 12, 13}));
  EXPECT_EQ(Kernel("Select").Run({Make<bool>({3}, {true, true, true}), t, e}, {Out<float>({2, 2})}).code,
            TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Values<float>(Kernel("SelectV2")
                              .Run({Make<bool>({2, 1}, {true, false}), Scalar(5.f), Vector<float>({1, 2, 3})},
                                   {Out<float>({2, 3})})[0]),
            (F{5, 5, 5, 1, 2, 3}));
}

TEST(Select, ChoosesFromLongRowsAndWritesOverAChoice) {
  const int64_t n = 203;
  std::vector<bool> condition;
  for (int64_t i = 0; i < n; ++i) condition.push_back(i % 3 != 0 && i % 5 != 1);
  const Tensor t = Ramp({n}), one = Scalar(-1.f), cond = Make<bool>({n}, condition);
  for (int form = 0; form < 4; ++form) {
    const Result r = Kernel("SelectV2").Run({cond, form & 1 ? one : t, form & 2 ? one : t}, {Out<float>({n})});
    const auto got = Values<float>(r[0]);
    for (int64_t i = 0; i < n; ++i) {
      const bool is_one = condition[static_cast<size_t>(i)] ? (form & 1) != 0 : (form & 2) != 0;
      ASSERT_EQ(got[static_cast<size_t>(i)], is_one ? -1.f : static_cast<float>(i)) << form;
    }
  }
  const Tensor low = Make<float>({n}, F(static_cast<size_t>(n), -1.f));
  for (const char* op : {"Select", "SelectV2"}) {
    const auto over = Values<float>(Kernel(op).InPlace(1).Run({cond, t, low}, {Out<float>({n})})[0]);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(over[static_cast<size_t>(i)], condition[static_cast<size_t>(i)] ? static_cast<float>(i) : -1.f) << op;
  }
}

TEST(Where, WritesThePlacesOfWhatIsNotZeroInEveryRank) {
  for (const I& dims : std::vector<I>{{}, {70}, {5, 13}, {2, 3, 11}, {2, 3, 2, 5}, {0, 3}}) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    F x;
    I want;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(i % 3 == 1 || n == 1 ? -2.5f : 0.f);
      if (x.back() == 0) continue;
      I at(dims.size());
      int64_t rest = i;
      for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) at[d] = rest % dims[d];
      want.insert(want.end(), at.begin(), at.end());
    }
    const Result r = Kernel("Where").Run({Make<float>(dims, x)}, {Out<int64_t>()});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    EXPECT_EQ(Values<int64_t>(r[0]), want) << dims.size();
  }
  EXPECT_EQ(Kernel("Where").Run({Make<float>({9}, F(9, 0.f))}, {Out<int64_t>()})[0].dims, (I{0, 1}));
}

TEST(Reverse, TurnsLongRowsRound) {
  const auto got =
      Values<float>(Kernel("ReverseV2").Run({Ramp({3, 100}), Vector<int32_t>({1})}, {Out<float>({3, 100})})[0]);
  for (int64_t i = 0; i < 300; ++i)
    ASSERT_EQ(got[static_cast<size_t>(i)], static_cast<float>(i / 100 * 100 + 99 - i % 100));
}

TEST(Dynamic, FindsItsOutputsSizesWhileItRuns) {
  const Result where = Kernel("Where").Run({Make<bool>({2, 2}, {true, false, false, true})}, {Out<int64_t>()});
  EXPECT_EQ(where[0].dims, (I{2, 2}));
  EXPECT_EQ(Values<int64_t>(where[0]), (I{0, 0, 1, 1}));
  const Result unique = Kernel("Unique").Run({Vector<int32_t>({4, 7, 4, 1, 7})}, {Out<int32_t>(), Out<int32_t>({5})});
  EXPECT_EQ(Values<int32_t>(unique[0]), (std::vector<int32_t>{4, 7, 1}));
  EXPECT_EQ(Values<int32_t>(unique[1]), (std::vector<int32_t>{0, 1, 0, 2, 1}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Kernel("Unique").Run({Vector<float>({nan, nan, -0.f, 0.f})}, {Out<float>(), Out<int64_t>({4})})[0].dims,
            (I{3}));
  const Result stitch =
      Kernel("DynamicStitch")
          .Run({Vector<int32_t>({2, 0}), Vector<int32_t>({0}), Make<float>({2, 1}, {1, 2}), Make<float>({1, 1}, {3})},
               {Out<float>()});
  EXPECT_EQ(stitch[0].dims, (I{3, 1}));
  EXPECT_EQ(Values<float>(stitch[0]), (F{3, 0, 1}));
  EXPECT_EQ(Kernel("DynamicStitch").Run({Vector<int32_t>({-1}), Make<float>({1}, {1})}, {Out<float>()}).code,
            TENON_INVALID_ARGUMENT);
  const Result parts = Kernel("DynamicPartition")
                           .Run({Vector<float>({1, 2, 3}), Vector<int32_t>({1, 0, 1})}, {Out<float>(), Out<float>()});
  EXPECT_EQ(Values<float>(parts[1]), (F{1, 3}));
  EXPECT_EQ(
      Kernel("DynamicPartition").Run({Vector<float>({1}), Vector<int32_t>({2})}, {Out<float>(), Out<float>()}).code,
      TENON_INVALID_ARGUMENT);
}

TEST(OneHot, LeavesRowsOfIndicesOutsideOff) {
  Kernel kernel("OneHot");
  kernel.Attr("axis", int64_t{-1});
  EXPECT_EQ(Values<float>(kernel.Run({Vector<int64_t>({1, -1, 3, 0}), Scalar<int32_t>(3), Scalar(1.f), Scalar(0.f)},
                                     {Out<float>({4, 3})})[0]),
            (F{0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
  Kernel first("OneHot");
  first.Attr("axis", int64_t{0});
  EXPECT_EQ(Values<float>(first.Run({Vector<int32_t>({1, 0}), Scalar<int32_t>(2), Scalar(1.f), Scalar(0.f)},
                                    {Out<float>({2, 2})})[0]),
            (F{0, 1, 1, 0}));
}

TEST(Plain, MovesEveryElementSize) {
  const auto check = []<class T>(Tag<T>) {
    const Tensor x = Make<T>({2, 2}, {T(1), T(0), T(1), T(1)});
    const auto got = Values<T>(Kernel("Transpose").Run({x, Vector<int32_t>({1, 0})}, {Out<T>({2, 2})})[0]);
    EXPECT_EQ(static_cast<float>(got[1]), 1.f);
    EXPECT_EQ(static_cast<float>(got[2]), 0.f);
  };
  check(Tag<bool>()), check(Tag<int8_t>()), check(Tag<Half>()), check(Tag<int32_t>()), check(Tag<double>());
}

TEST(Plain, TransposesPlanesThatAreNoWholeTiles) {
  const auto check = []<class T>(Tag<T>) {
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{37, 70}, {16, 16}, {64, 48}, {19, 129}}) {
      std::vector<T> x;
      for (int64_t i = 0; i < 2 * rows * columns; ++i) x.push_back(T(i % 113));
      const Result r =
          Kernel("Transpose")
              .Threads(3)
              .Run({Make<T>({2, rows, columns}, x), Vector<int32_t>({0, 2, 1})}, {Out<T>({2, columns, rows})});
      ASSERT_EQ(r.code, TENON_OK) << r.message;
      const auto got = Values<T>(r[0]);
      for (int64_t i = 0; i < 2 * rows * columns; ++i) {
        const int64_t plane = i / (rows * columns), row = i % rows, column = i / rows % columns;
        ASSERT_TRUE(got[static_cast<size_t>(i)] == x[static_cast<size_t>((plane * rows + row) * columns + column)])
            << rows << "x" << columns << " at " << i;
      }
    }
  };
  check(Tag<int8_t>()), check(Tag<int16_t>()), check(Tag<float>()), check(Tag<double>()),
      check(Tag<std::complex<double>>());
}

TEST(Strings, MoveLikeAnyElement) {
  const auto kernel = [](const char* op) { return Kernel(op, TENON_DT_STRING); };
  const Tensor two{TENON_DT_STRING, {2}}, four{TENON_DT_STRING, {2, 2}};
  using S = std::vector<std::string>;
  const Tensor a = Strings({2}, {"a", "longer than a cell of sixteen bytes"}), b = Strings({2}, {"", "c"});
  Kernel pack = kernel("Pack");
  pack.Attr("axis", int64_t{1});
  const Result packed = pack.Run({a, b}, {four});
  ASSERT_EQ(packed.code, TENON_OK) << packed.message;
  EXPECT_EQ(Texts(packed[0]), (S{"a", "", "longer than a cell of sixteen bytes", "c"}));
  EXPECT_EQ(Texts(kernel("ConcatV2").Run({a, b, Scalar<int32_t>(0)}, {{TENON_DT_STRING, {4}}})[0]),
            (S{"a", "longer than a cell of sixteen bytes", "", "c"}));
  EXPECT_EQ(Texts(kernel("Slice").Run({a, Vector<int32_t>({1}), Vector<int32_t>({1})}, {{TENON_DT_STRING, {1}}})[0]),
            (S{"longer than a cell of sixteen bytes"}));
  Kernel gather = kernel("GatherV2");
  gather.Attr("batch_dims", int64_t{0});
  EXPECT_EQ(Texts(gather.Run({b, Vector<int32_t>({1, 1}), Scalar<int32_t>(0)}, {two})[0]), (S{"c", "c"}));
  EXPECT_EQ(gather.Run({b, Vector<int32_t>({1, 2}), Scalar<int32_t>(0)}, {two}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Texts(kernel("Fill").Run({Vector<int32_t>({2}), Strings({}, {"x"})}, {two})[0]), (S{"x", "x"}));
  const Result split = kernel("Split").Run({Scalar<int32_t>(0), a}, {{TENON_DT_STRING, {1}}, {TENON_DT_STRING, {1}}});
  EXPECT_EQ(Texts(split[1]), (S{"longer than a cell of sixteen bytes"}));
  EXPECT_EQ(Texts(kernel("Select").Run({Vector<bool>({true, false}), a, b}, {two})[0]), (S{"a", "c"}));
  EXPECT_EQ(Values<uint8_t>(kernel("Equal").Run({a, Strings({}, {"a"})}, {Out<bool>({2})})[0]),
            (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(Values<uint8_t>(kernel("NotEqual").Run({b, b}, {Out<bool>({2})})[0]), (std::vector<uint8_t>{0, 0}));
}

}  // namespace
}  // namespace tenon::cpu::array_test

// SPDX-License-Identifier: Apache-2.0
// Datasets: passes that many steps take from, that wait, fail, are cancelled and end with their session; files as
// sources. What their elements are stands in tests/golden. Covers M1, M4.
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "tests/engine/dataset_pipeline.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine::dataset_test {
namespace {

TEST(Datasets, ThreadsOfStepsGetEachElementOnce) {
  for (const int64_t calls : {0, 3}) {
    Pipeline p;
    p.Range(2000);
    p.Map("same", [](Graph& body, const Output& x) { return body.Op("Identity", {x}); }, calls);
    p.Then("PrefetchDataset", {p.Int(4)});
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    std::mutex mutex;
    std::multiset<int64_t> got;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (const int64_t value : p.All(session)) {
          const std::lock_guard lock(mutex);
          got.insert(value);
        }
      });
    for (auto& thread : threads) thread.join();
    const std::vector<int64_t> all = UpTo(2000);
    EXPECT_EQ(got, std::multiset<int64_t>(all.begin(), all.end()));
  }
}

TEST(Datasets, AStepThatGivesUpLosesNoElement) {
  Pipeline p;
  p.Range(3);
  ThroughQueue(&p, 0);
  const Gate gate(&p);
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  EXPECT_EQ(p.Next(session, options).status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(p.Next(session, options).status().code(), Code::kDeadlineExceeded);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.RunTargets({gate.open}).ok());
  EXPECT_EQ(p.All(session), UpTo(3));
}

TEST(Datasets, APassThatWaitsEndsWithItsSessionAndWithANewPass) {
  for (const int64_t calls : {0, 4}) {
    for (const bool ahead : {false, true}) {
      Pipeline p;
      p.Range(100);
      ThroughQueue(&p, calls);
      if (ahead) p.Then("PrefetchDataset", {p.Int(3)});
      const Gate gate(&p);
      // What a step puts in here says that it is inside.
      const Output inside = p.g.Op("FIFOQueueV2", {},
                                   {{"component_types", Types{DType::kInt64}},
                                    {"shapes", Shapes{Shape()}},
                                    {"shared_name", std::string("inside")}});
      const Operation say = p.g.AddNode("QueueEnqueueV2", {inside, p.Int(0)});
      const Output hear = p.g.Op("QueueDequeueV2", {inside}, {{"component_types", Types{DType::kInt64}}});
      auto session = std::make_unique<Session>(p.Open());
      ASSERT_TRUE(p.Begin(*session).ok());
      RunOptions options;
      options.timeout = std::chrono::milliseconds(5);
      EXPECT_FALSE(p.Next(*session, options).ok());
      ASSERT_TRUE(p.Begin(*session).ok()) << "a new pass while the old one waits";
      std::thread waiting(
          [&, owned = session.get()] { EXPECT_EQ(owned->Run({}, {p.next}, {say}).status().code(), Code::kCancelled); });
      ASSERT_TRUE(session->Run({}, {hear}).ok());
      session.reset();
      waiting.join();
    }
  }
}

TEST(Datasets, AFailureNamesItsDatasetAndTheOthersComeAllTheSame) {
  for (const int64_t calls : {0, 2}) {
    Pipeline p;
    p.Range(6);
    p.Map("three_fails", [](Graph& body, const Output& x) {
      const Output three = body.Op("Const", {}, {{"dtype", DType::kInt64}, {"value", *Tensor::Scalar(int64_t{3})}});
      return body.Op("FloorDiv", {x, body.Op("Sub", {x, three})}, {}, "by_nothing");
    }, calls);
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(p.Next(session).ok());
    const auto failed = p.Next(session);
    ASSERT_FALSE(failed.ok());
    for (const char* part : {"MapDataset", "three_fails", "by_nothing"})
      EXPECT_NE(failed.status().message().find(calls == 0 || part[0] != 'M' ? part : "ParallelMapDatasetV2"),
                std::string::npos)
          << failed.status().message();
    EXPECT_EQ(p.All(session).size(), 2u);
  }
}

// Results of functions are made in memory of their own: what is held while others are made, seen in another shape,
// passed through or worked on in place keeps its values.
TEST(Datasets, LargeResultsOfFunctionsKeepTheirValues) {
  constexpr int64_t kCount = 40, kValues = 2048;
  std::vector<int64_t> steps(kValues);
  std::iota(steps.begin(), steps.end(), 0);
  for (const int64_t calls : {0, 3}) {
    Pipeline p;
    p.Range(kCount);
    p.shape = Shape({2, kValues / 2});
    p.Map("made", [&](Graph& body, const Output& x) {
      const Output all = body.Op("Const", {}, {{"dtype", DType::kInt64}, {"value", *Tensor::From(steps, {kValues})}});
      const Output dims = body.Op(
          "Const", {}, {{"dtype", DType::kInt32}, {"value", *Tensor::From(std::vector<int32_t>{2, kValues / 2}, {2})}});
      return body.Op("Reshape", {body.Op("Neg", {body.Op("AddV2", {body.Op("Mul", {all, x}), x})}), dims});
    }, calls);
    p.Map("passed", [](Graph& body, const Output& x) { return body.Op("Identity", {x}); }, calls);
    p.Map("squared", [](Graph& body, const Output& x) { return body.Op("Square", {x}); }, calls);
    p.Then("ShuffleDataset", {p.Int(7), p.Int(1), p.Int(2)});
    if (calls != 0) p.Then("PrefetchDataset", {p.Int(3)});
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    std::vector<Tensor> held;
    for (int64_t i = 0; i < kCount; ++i) {
      const auto next = session.Run({}, {p.next});
      ASSERT_TRUE(next.ok()) << next.status().message();
      held.push_back((*next)[0]);
    }
    std::set<int64_t> seen;
    for (const Tensor& tensor : held) {
      const auto values = tensor.data<int64_t>();
      ASSERT_EQ(values.size(), static_cast<size_t>(kValues));
      const auto x = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(values[0]))));
      seen.insert(x);
      for (int64_t k = 0; k < kValues; ++k)
        ASSERT_EQ(values[static_cast<size_t>(k)], x * x * (k + 1) * (k + 1)) << x << ", value " << k;
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(kCount));
  }
}

// Elements of so many MiB.
void Large(Pipeline* p, int32_t size) {
  p->shape = Shape::Unknown();
  p->Map("large", [size](Graph& body, const Output& x) {
    const Output dims = body.Op(
        "Const", {}, {{"dtype", DType::kInt32}, {"value", *Tensor::From(std::vector<int32_t>{size << 17}, {1})}});
    return body.Op("Fill", {dims, x});
  });
}

// From the dataset of numbers itself, which puts in many at a time, and from one that gives them one by one.
TEST(Datasets, BatchesHaveTheirRowsHoweverMany) {
  for (const bool mapped : {false, true}) {
    for (const int64_t size : {1, 7, 3000, 20'000}) {
      Pipeline p;
      p.Range(10'000);
      p.Then("RepeatDataset", {p.Int(2)});
      if (mapped) p.Map("same", [](Graph& body, const Output& x) { return body.Op("Identity", {x}); });
      p.shape = Shape({-1});
      p.Then("BatchDatasetV2", {p.Int(size), p.Bool(false)});
      p.shape = Shape();
      p.Then("UnbatchDataset");
      const Session session = p.Open();
      ASSERT_TRUE(p.Begin(session).ok());
      std::vector<int64_t> twice = UpTo(10'000);
      const std::vector<int64_t> once = twice;
      twice.insert(twice.end(), once.begin(), once.end());
      EXPECT_EQ(p.All(session), twice) << size << (mapped ? " mapped" : "");
    }
  }
}

TEST(Datasets, ABatchWhoseRowsDoNotFitFailsAndTakesItsElementsWithIt) {
  Pipeline p;
  p.Range(6);
  p.shape = Shape({-1});
  // Rows of one element, the third of two.
  p.Map("row", [&p](Graph& body, const Output& x) {
    const auto number = [&body](int64_t value) {
      return body.Op("Const", {}, {{"dtype", DType::kInt64}, {"value", *Tensor::Scalar(value)}});
    };
    const Output longer = body.Op("Cast", {body.Op("Equal", {x, number(2)})}, {{"DstT", DType::kInt64}});
    return body.Op("Range", {x, body.Op("AddV2", {body.Op("AddV2", {x, longer}), number(1)}), number(1)});
  });
  p.shape = Shape({-1, -1});
  p.Then("BatchDatasetV2", {p.Int(2), p.Bool(true)});
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  const auto take = [&] { return session.Run({}, {p.next}); };
  const auto rows = [](const std::vector<Tensor>& values) {
    return std::vector<int64_t>(values[0].data<int64_t>().begin(), values[0].data<int64_t>().end());
  };
  const auto first = take();
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(rows(*first), (std::vector<int64_t>{0, 1}));
  const auto second = take();
  EXPECT_EQ(second.status().code(), Code::kInvalidArgument);
  EXPECT_NE(second.status().message().find("First element had shape [2] and element 1 had shape [1]"),
            std::string::npos)
      << second.status().message();
  const auto third = take();
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(rows(*third), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(take().status().code(), Code::kOutOfRange);
}

// What a ragged tensor's rows are in a dataset.
TEST(Datasets, RowsOfVariantsAreTakenApartAndPutTogether) {
  Graph g(TheRuntime());
  const Output splits = g.Const(*Tensor::From(std::vector<int64_t>{0, 2, 2, 5, 6}, Shape{5})),
               values = g.Const({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  const Output rows =
      g.Op("RaggedTensorToVariant", {splits, values}, {{"RAGGED_RANK", int64_t{1}}, {"batched_input", true}});
  const Types types = {DType::kVariant};
  const auto spec = [&](Shape shape) {
    return Attrs{{"output_types", types}, {"output_shapes", Shapes{std::move(shape)}}};
  };
  Output data = g.Op("TensorSliceDataset", {rows}, {{"Toutput_types", types}, {"output_shapes", Shapes{Shape{}}}});
  data = g.Op("ShuffleDataset", {data, g.Const(int64_t{1}), g.Const(int64_t{3}), g.Const(int64_t{5})}, spec(Shape{}));
  data = g.Op("BatchDatasetV2", {data, g.Const(int64_t{3}), g.Const(false)}, spec(Shape{-1}));
  Attrs named = spec(Shape{-1});
  named.push_back({"shared_name", std::string("ragged")});
  named.push_back({"container", std::string()});
  const Output iterator = g.Op("IteratorV2", {}, named), next = g.Op("IteratorGetNext", {iterator}, spec(Shape{-1}));
  const Operation begin = g.AddNode("MakeIterator", {data, iterator});
  const Operation back =
      g.AddNode("RaggedTensorFromVariant", {next},
                {{"input_ragged_rank", int64_t{0}}, {"output_ragged_rank", int64_t{1}}, {"Tvalues", DType::kFloat}});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->RunTargets({begin}).ok());
  auto batch = session->Run({}, {back.output(0), back.output(1)});
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(Values<int64_t>((*batch)[0]), (std::vector<int64_t>{0, 2, 2, 5}));
  EXPECT_EQ(Values<float>((*batch)[1]), (std::vector<float>{1, 2, 3, 4, 5}));
  batch = session->Run({}, {back.output(0), back.output(1)});
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(Values<float>((*batch)[1]), (std::vector<float>{6}));
  EXPECT_EQ(session->Run({}, {next}).status().code(), Code::kOutOfRange);
}

// As in files that TensorFlow writes.
TEST(Datasets, CallFunctionsWhoseNamesNodesMayNotHave) {
  const std::string plain = "__inference_XlambdaX_7", written = "__inference_<lambda>_7";
  Pipeline p;
  p.Range(3);
  p.Map(plain, [](Graph& body, const Output& x) { return body.Op("AddV2", {x, x}); });
  const std::string make = "MakeIterator", next = "IteratorGetNext";
  (void)p.Open();
  std::string file = *p.g.Export();
  for (size_t at = file.find(plain); at != std::string::npos; at = file.find(plain, at))
    file.replace(at, plain.size(), written);
  auto graph = Graph::Import(TheRuntime(), file);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto session = Session::Create(TheRuntime(), *graph);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->RunTargets({make}).ok());
  for (const int64_t wanted : {0, 2, 4}) {
    auto values = session->Run({}, {next});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ((*values)[0].scalar<int64_t>(), wanted);
  }
}

TEST(Datasets, WhatTheyMakeCountsAgainstTheSessionsLimit) {
  SessionOptions options;
  options.memory_limit = 40 << 20;
  for (const bool fits : {true, false}) {
    Pipeline p;
    p.Range(60);
    Large(&p, fits ? 1 : 9);
    p.Then("BatchDatasetV2", {p.Int(3), p.Bool(false)});
    p.Then("PrefetchDataset", {p.Int(2)});
    const Session session = p.Open(options);
    ASSERT_TRUE(p.Begin(session).ok());
    for (int i = 0; i < 20; ++i) {
      const Status status = session.Run({}, {p.next}).status();
      EXPECT_EQ(status.code(), fits ? Code::kOk : Code::kResourceExhausted) << status.message();
    }
    EXPECT_EQ(session.Run({}, {p.next}).status().code(), Code::kOutOfRange);
  }
}

TEST(Datasets, DoNotLeaveTheirSession) {
  Pipeline p;
  p.Range(3);
  const Session session = p.Open();
  const auto values = session.Run({}, {p.dataset});
  ASSERT_FALSE(values.ok());
  EXPECT_NE(values.status().message().find("is a variant, which cannot leave the session"), std::string::npos)
      << values.status().message();
}

TEST(Datasets, KeepNoHandleThatEndsWithItsStep) {
  Pipeline p;
  p.Range(3);
  const Output anonymous = p.g.Op("AnonymousIteratorV3", {}, p.Spec());
  const Function function =
      Define(p.g, "with_handle",
             [](Graph& body, const std::vector<Output>& x) { return std::vector<Output>{body.Op("Identity", {x[0]})}; },
             {DType::kInt64, DType::kResource});
  p.dataset =
      p.g.Op("MapDataset", {p.dataset, anonymous}, p.Spec({{"f", function}, {"Targuments", Types{DType::kResource}}}));
  const Session session = p.Open();
  const Status status = p.Begin(session);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("ends with the step"), std::string::npos) << status.message();
}

TEST(Datasets, KeepNoHandleThatEndsWithItsStepBesideAnotherOfThem) {
  Pipeline p;
  p.Range(3);
  const Output one = p.g.Op("AnonymousIteratorV3", {}, p.Spec()), other = p.g.Op("AnonymousIteratorV3", {}, p.Spec());
  const Function function =
      Define(p.g, "with_handles",
             [](Graph& body, const std::vector<Output>& x) { return std::vector<Output>{body.Op("Identity", {x[0]})}; },
             {DType::kInt64, DType::kResource, DType::kResource});
  p.dataset = p.g.Op("MapDataset", {p.dataset, one, other},
                     p.Spec({{"f", function}, {"Targuments", Types{DType::kResource, DType::kResource}}}));
  const Session session = p.Open();
  const Status status = p.Begin(session);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.message();
}

TEST(Datasets, AWindowOfNoSizeFailsAndLosesItsElementAlone) {
  Pipeline p;
  p.Range(4);
  const auto number = [&p](const char* name, std::function<Output(Graph&, const Output&)> f) {
    return Define(p.g, name,
                  [&f](Graph& body, const std::vector<Output>& x) { return std::vector<Output>{f(body, x[0])}; },
                  {DType::kInt64});
  };
  const Function key = number("itself", [](Graph& body, const Output& x) { return body.Op("Identity", {x}); });
  const Function size = number("one_but_for_two", [](Graph& body, const Output& x) {  // of 0, 1, 2, 3: 1, 1, 0, 1
    const Output two = body.Op("Const", {}, {{"dtype", DType::kInt64}, {"value", *Tensor::Scalar(int64_t{2})}});
    return body.Op("Cast", {body.Op("NotEqual", {x, two})}, {{"DstT", DType::kInt64}});
  });
  const Function reduce =
      Define(p.g, "the_window",
             [](Graph& body, const std::vector<Output>& x) { return std::vector<Output>{body.Op("Identity", {x[1]})}; },
             {DType::kInt64, DType::kVariant});
  p.dataset = p.g.Op("GroupByWindowDataset", {p.dataset},
                     p.Spec({{"key_func", key},
                             {"reduce_func", reduce},
                             {"window_size_func", size},
                             {"Tkey_func_other_arguments", Types{}},
                             {"Treduce_func_other_arguments", Types{}},
                             {"Twindow_size_func_other_arguments", Types{}}}));
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  EXPECT_EQ(*p.Next(session), 0);
  EXPECT_EQ(*p.Next(session), 1);
  const auto failed = p.Next(session);
  EXPECT_EQ(failed.status().code(), Code::kInvalidArgument);
  EXPECT_NE(failed.status().message().find("but got 0"), std::string::npos) << failed.status().message();
  EXPECT_EQ(p.All(session), (std::vector<int64_t>{3}));
}

TEST(Datasets, ThatAreTakenFromTwiceAgainAndAgainMakeNoEndlessTree) {
  Pipeline p;
  p.Range(2);
  for (int i = 0; i < 40; ++i) p.dataset = p.g.Op("ConcatenateDataset", {p.dataset, p.dataset}, p.Spec());
  const Session session = p.Open();
  const Status status = p.Begin(session);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("iterators"), std::string::npos) << status.message();
}

TEST(Datasets, LieInOneAnotherUpToABound) {
  Pipeline p;
  p.Range(2);
  for (int i = 0; i < 900; ++i) p.Then("SkipDataset", {p.Int(0)});
  {
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    EXPECT_EQ(p.All(session), UpTo(2));
  }
  for (int i = 0; i < 200; ++i) p.Then("SkipDataset", {p.Int(0)});
  const Session session = p.Open();
  const Status status = p.Begin(session);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("deeper than 1000"), std::string::npos) << status.message();
}

TEST(Datasets, WhatIsNoDatasetIsRefused) {
  Pipeline p;
  p.Range(1);
  const Output none = p.g.Op("OptionalNone", {});
  p.dataset = none;
  const Session session = p.Open();
  const Status status = p.Begin(session);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("no dataset"), std::string::npos) << status.message();
}

// ---- Files ----

class DatasetFiles : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string WriteGzip(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ + "/" + name;
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
    gzclose(file);
    return path;
  }
  const std::string folder_ = fakes::TemporaryFolder("datasets");
};

TEST_F(DatasetFiles, LinesOfPlainAndPackedFiles) {
  for (const bool packed : {false, true}) {
    const std::string text = "one\r\n\ntwo\nlast";
    const std::string path = packed ? WriteGzip("a.gz", text) : Write("a.txt", text);
    Pipeline p;
    p.Strings("TextLineDataset", {p.g.StringConst(path), p.g.StringConst(packed ? "GZIP" : ""), p.Int(0)});
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    for (const char* line : {"one", "", "two", "last"}) EXPECT_EQ(*p.Text(session), line);
    EXPECT_EQ(p.Text(session).status().code(), Code::kOutOfRange);
  }
}

TEST_F(DatasetFiles, AFileThatIsNotThereIsNamedAndTheNextOnesAreRead) {
  const std::string there = Write("there.txt", "a\nb\n"), gone = folder_ + "/gone.txt";
  Pipeline p;
  const Output names = p.g.Op("Pack", {std::vector<Output>{p.g.StringConst(gone), p.g.StringConst(there)}});
  p.Strings("TextLineDataset", {names, p.g.StringConst(""), p.Int(0)});
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  const auto failed = p.Text(session);
  EXPECT_EQ(failed.status().code(), Code::kNotFound);
  EXPECT_NE(failed.status().message().find(gone), std::string::npos) << failed.status().message();
  EXPECT_EQ(*p.Text(session), "a");
  EXPECT_EQ(*p.Text(session), "b");
}

TEST_F(DatasetFiles, ADamagedFileOfRecordsIsLeftOutWhereErrorsAreIgnored) {
  const std::string damaged = Write("damaged", std::string(40, 'x')), empty = Write("empty", "");
  Pipeline p;
  const Output names = p.g.Op("Pack", {std::vector<Output>{p.g.StringConst(damaged), p.g.StringConst(empty)}});
  p.Strings("TFRecordDataset", {names, p.g.StringConst(""), p.Int(0)});
  {
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    const auto failed = p.Text(session);
    EXPECT_EQ(failed.status().code(), Code::kDataLoss);
    EXPECT_NE(failed.status().message().find(damaged), std::string::npos) << failed.status().message();
  }
  p.Then("IgnoreErrorsDataset");
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  EXPECT_EQ(p.Text(session).status().code(), Code::kOutOfRange);
}

TEST_F(DatasetFiles, NamesOfFilesByPatternsInTurnWithoutFolders) {
  for (const char* name : {"b.txt", "a.txt", "c.csv"}) Write(name, "x");
  std::filesystem::create_directory(folder_ + "/d.txt");
  const auto patterns = [this](Pipeline* p, const std::vector<std::string>& ends) {
    std::vector<Output> all;
    for (const std::string& end : ends) all.push_back(p->g.StringConst(folder_ + end));
    p->Strings("MatchingFilesDataset", {p->g.Op("Pack", {all})});
  };
  Pipeline p;
  patterns(&p, {"/*.csv", "/gone/*", "/*.txt", "/none*", "/a.txt", "/d.txt"});
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  EXPECT_EQ(*p.Text(session), folder_ + "/c.csv");
  const auto gone = p.Text(session);
  EXPECT_EQ(gone.status().code(), Code::kNotFound);
  EXPECT_NE(gone.status().message().find("/gone"), std::string::npos) << gone.status().message();
  for (const char* name : {"/a.txt", "/b.txt", "/a.txt"}) EXPECT_EQ(*p.Text(session), folder_ + name);
  EXPECT_EQ(p.Text(session).status().code(), Code::kOutOfRange);
  Pipeline none;
  patterns(&none, {"/*.none"});
  const Session other = none.Open();
  ASSERT_TRUE(none.Begin(other).ok());
  EXPECT_EQ(none.Text(other).status().code(), Code::kNotFound);
  EXPECT_EQ(none.Text(other).status().code(), Code::kOutOfRange);
}

// One column of text, one number with a default: the second and third of each record. What is expected is TensorFlow's
// answer.
TEST_F(DatasetFiles, RecordsOfCsvThatAreNoneFailAlone) {
  const std::string text =
      "a,b,c\r\n"                    // the header
      "x,\"two\nlines, \"\"q\"\"\",3\r\n"
      "x,y\"z,4\n"                   // a quote in an unquoted field
      "x,short\n"
      "x,,\n"
      "x,last,0x";                   // no number
  for (const bool packed : {false, true}) {
    const std::string path = packed ? WriteGzip("a.csv.gz", text) : Write("a.csv", text);
    Pipeline p;
    const auto strings = [&p](const std::string& value) { return p.g.StringConst(value); };
    const auto ints = [&p](const std::vector<int64_t>& values) {
      return p.g.Op(
          "Const", {},
          {{"dtype", DType::kInt64}, {"value", *Tensor::From(values, {static_cast<int64_t>(values.size())})}});
    };
    const Attrs spec = {{"output_types", Types{DType::kString, DType::kInt64}},
                        {"output_shapes", Shapes{Shape(), Shape()}}};
    const Output dataset = p.g.Op("CSVDatasetV2",
                                  {strings(path), strings(packed ? "GZIP" : ""), p.Int(7), p.Bool(true), strings(","),
                                   p.Bool(true), strings(""), ints({1, 2}), strings("none"), p.Int(-1), ints({})},
                                  spec);
    const Output iterator =
        p.g.Op("IteratorV2", {}, {spec[0], spec[1], {"shared_name", std::string("csv")}, {"container", std::string()}});
    const Operation make = p.g.AddNode("MakeIterator", {dataset, iterator});
    const Output next = p.g.Op("IteratorGetNext", {iterator}, spec);
    ASSERT_TRUE(p.g.status().ok()) << p.g.status().message();
    auto session = Session::Create(TheRuntime(), p.g);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->RunTargets({make}).ok());
    const auto get = [&] { return session->Run({}, {next}); };
    auto values = get();
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ((*values)[0].string(0), "two\nlines, \"q\"");
    for (const char* why : {"quotes", "Expect 2 fields but have 1"}) {
      const Status status = get().status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    }
    values = get();
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ((*values)[0].string(0), "none");
    EXPECT_NE(get().status().message().find("not a valid int64: 0x"), std::string::npos);
    EXPECT_EQ(get().status().code(), Code::kOutOfRange);
  }
}

TEST_F(DatasetFiles, FilesAreDealtToWorkersWhereTheDatasetReadsThem) {
  const std::vector<std::string> paths = {Write("1", "a\nb\n"), Write("2", "c\nd\n"), Write("3", "e\n")};
  for (const int64_t policy : {0, 1, 2}) {
    std::vector<std::string> all;
    for (const int64_t index : {0, 1}) {
      Pipeline p;
      std::vector<Output> names;
      for (const std::string& path : paths) names.push_back(p.g.StringConst(path));
      p.Strings("TextLineDataset", {p.g.Op("Pack", {names}), p.g.StringConst(""), p.Int(0)});
      p.dataset =
          p.g.Op("AutoShardDataset", {p.dataset, p.Int(2), p.Int(index)}, p.Spec({{"auto_shard_policy", policy}}));
      const Session session = p.Open();
      ASSERT_TRUE(p.Begin(session).ok());
      for (auto line = p.Text(session); line.ok(); line = p.Text(session)) all.push_back(*line);
      all.emplace_back("|");
    }
    const std::vector<std::string> by_files = {"a", "b", "e", "|", "c", "d", "|"},
                                   by_elements = {"a", "c", "e", "|", "b", "d", "|"};
    EXPECT_EQ(all, policy == 2 ? by_elements : by_files) << "policy " << policy;
  }
  Pipeline few;
  few.Strings("TextLineDataset", {few.g.StringConst(paths[0]), few.g.StringConst(""), few.Int(0)});
  few.dataset = few.g.Op("AutoShardDataset", {few.dataset, few.Int(2), few.Int(0)}, few.Spec());
  const Session session = few.Open();
  const Status status = few.Begin(session);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("1 file(s)"), std::string::npos) << status.message();
}

TEST_F(DatasetFiles, RecordsAreWrittenAndReadAgain) {
  const std::string lines = Write("lines", "one\n\nthree\n"), records = folder_ + "/records";
  Pipeline p;
  p.Strings("TextLineDataset", {p.g.StringConst(lines), p.g.StringConst(""), p.Int(0)});
  const auto write = [&p](const std::string& path, const std::string& compression) {
    return p.g.AddNode("DatasetToTFRecord", {p.dataset, p.g.StringConst(path), p.g.StringConst(compression)});
  };
  const Operation plain = write(records, ""), packed = write(folder_ + "/packed", "GZIP"),
                  nowhere = write(folder_ + "/gone/records", "");
  p.Strings("TFRecordDataset", {p.g.StringConst(records), p.g.StringConst(""), p.Int(0)});
  const Session session = p.Open();
  ASSERT_TRUE(session.RunTargets({plain}).ok());
  ASSERT_TRUE(p.Begin(session).ok());
  for (const char* record : {"one", "", "three"}) EXPECT_EQ(*p.Text(session), record);
  EXPECT_EQ(p.Text(session).status().code(), Code::kOutOfRange);
  EXPECT_EQ(session.RunTargets({packed}).code(), Code::kUnimplemented);
  EXPECT_FALSE(session.RunTargets({nowhere}).ok());
}

TEST(Datasets, ThatCannotBeDoneSayWhyByName) {
  Pipeline p;
  p.Range(3);
  const Output graph = p.g.Op("DatasetToGraphV2", {p.dataset}), number = p.g.Op("DatasetFingerprint", {p.dataset});
  const Output rows =
      p.g.Op("SqlDataset", {p.g.StringConst("sqlite"), p.g.StringConst("f"), p.g.StringConst("q")}, p.Spec());
  for (const auto& [output, word] :
       {std::pair(graph, "Save that graph"), std::pair(number, "keeps no graph"), std::pair(rows, "TFRecordDataset")}) {
    auto session = Session::Create(TheRuntime(), p.g);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const Status status = session->Run({}, {output}).status();
    EXPECT_EQ(status.code(), Code::kUnimplemented);
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

TEST(Datasets, OneThatSleepsIsCancelledWithItsStepAndSession) {
  Pipeline p;
  p.Range(3);
  p.dataset = p.g.Op("SleepDataset", {p.dataset, p.Int(INT64_MAX)}, p.Spec());
  auto session = std::make_unique<Session>(p.Open());
  ASSERT_TRUE(p.Begin(*session).ok());
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  EXPECT_EQ(p.Next(*session, options).status().code(), Code::kDeadlineExceeded);
  session.reset();  // which would never come back
}

TEST_F(DatasetFiles, RecordsOfOneLengthBetweenHeaderAndFooter) {
  for (const bool packed : {false, true}) {
    const std::string bytes = "HHaaabbbcccF";
    const std::string path = packed ? WriteGzip("fixed.gz", bytes) : Write("fixed", bytes);
    Pipeline p;
    p.Strings("FixedLengthRecordDatasetV2",
              {p.g.StringConst(path), p.Int(2), p.Int(3), p.Int(1), p.Int(0), p.g.StringConst(packed ? "GZIP" : "")});
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    for (const char* record : {"aaa", "bbb", "ccc"}) EXPECT_EQ(*p.Text(session), record);
    EXPECT_EQ(p.Text(session).status().code(), Code::kOutOfRange);
  }
}

}  // namespace
}  // namespace tenon::engine::dataset_test

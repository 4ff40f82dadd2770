// SPDX-License-Identifier: Apache-2.0
// The cycle model against hand-counted cases, SCALE-Sim's figures (scalesim/cycles.csv) and the first TPU's roofline.
#include "model/cycle_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tenon::tpu_sim::cycle_model_test {
namespace {

// No limit off chip, everything fits.
Machine Ideal(int64_t rows, int64_t columns, Weights weights) {
  Machine machine;
  machine.rows = rows;
  machine.columns = columns;
  machine.weights = weights;
  machine.memory_bandwidth = 0;
  machine.buffer_bytes = INT64_C(1) << 40;
  return machine;
}

Product Shape(int64_t m, int64_t n, int64_t k) {
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  return p;
}

TEST(CycleModel, CountsOneFoldAsLoadingStreamingAndDraining) {
  const Cycles c = MatrixCycles(Ideal(4, 8, Weights::kSerial), Shape(10, 8, 4));
  EXPECT_EQ(c.load, 4);             // a row of weights a cycle
  EXPECT_EQ(c.matrix, 10 + 4 + 8 - 2);  // rows stream in, the last result leaves the far corner
  EXPECT_EQ(c.vector, 0);
  EXPECT_EQ(c.stall, 0);
  EXPECT_EQ(c.total(), 24);
}

// A systolic array cell by cell: when the last sum leaves it. Independent of the model's formula.
int64_t SimulatedFold(int rows, int columns, int m) {
  std::vector<std::vector<int>> input(rows, std::vector<int>(columns, -1)),
      sum = input;                    // row of the left matrix inside a cell
  int64_t results = 0, cycle = rows;  // the weights are in
  while (results < static_cast<int64_t>(m) * columns) {
    const int64_t now = cycle - rows;
    for (int r = rows - 1; r >= 0; --r) {
      for (int c = columns - 1; c >= 0; --c) {
        const int64_t fed = now - r;  // row r gets its first element r cycles late
        const int left = c > 0 ? input[r][c - 1] : (fed >= 0 && fed < m ? static_cast<int>(fed) : -1);
        const int above = r > 0 ? sum[r - 1][c] : left;
        EXPECT_EQ(above, left);  // a sum meets the element that belongs to it
        input[r][c] = left;
        sum[r][c] = left;
        if (r == rows - 1 && left >= 0) ++results;
      }
    }
    ++cycle;
  }
  return cycle;
}

TEST(CycleModel, AgreesWithAnArraySimulatedCellByCell) {
  for (int rows : {1, 2, 5, 8}) {
    for (int columns : {1, 3, 8}) {
      for (int m : {1, 2, 7, 20}) {
        EXPECT_EQ(MatrixCycles(Ideal(rows, columns, Weights::kSerial), Shape(m, columns, rows)).total(),
                  SimulatedFold(rows, columns, m))
            << rows << "x" << columns << ", " << m << " rows";
      }
    }
  }
}

TEST(CycleModel, HidesTheNextWeightsBehindTheRowsInUse) {
  // Two folds of 10 rows on 4x4: the first weights, 20 rows without a gap, one drain.
  const Cycles c = MatrixCycles(Ideal(4, 4, Weights::kShadowed), Shape(10, 4, 8));
  EXPECT_EQ(c.load, 4);
  EXPECT_EQ(c.matrix, 20 + 6);
}

TEST(CycleModel, WaitsForWeightsWhenThereAreFewerRowsThanTheArrayHas) {
  const Cycles c = MatrixCycles(Ideal(8, 8, Weights::kShadowed), Shape(3, 8, 24));
  EXPECT_EQ(c.load, 8 + 2 * (8 - 3));
  EXPECT_EQ(c.matrix, 9 + 14);
}

TEST(CycleModel, ComputesAFloatProductInSixPasses) {
  Product p = Shape(100, 8, 8);
  const Machine machine = Ideal(8, 8, Weights::kSerial);
  const int64_t one = MatrixCycles(machine, p).total();
  p.passes = kFloatPasses;
  EXPECT_EQ(MatrixCycles(machine, p).total(), 6 * one);
}

TEST(CycleModel, CountsAConvolutionAsItsPatches) {
  Convolution c;
  c.height = c.width = 7;
  c.channels = 3;
  c.filter_height = c.filter_width = 3;
  c.filters = 5;
  c.stride_height = c.stride_width = 2;
  const Product p = AsProduct(c);
  EXPECT_EQ(p.m, 9);
  EXPECT_EQ(p.n, 5);
  EXPECT_EQ(p.k, 27);
  EXPECT_EQ(p.left_bytes, 7 * 7 * 3 * 2);  // the image, not 9 patches of 27
  EXPECT_EQ(ConvolutionCycles(Ideal(8, 8, Weights::kSerial), c), MatrixCycles(Ideal(8, 8, Weights::kSerial), p));
}

TEST(CycleModel, GivesAConvolutionWhoseFilterIsLargerThanItsImageNoCycles) {
  Convolution c;
  c.height = c.width = 2;
  c.channels = 1;
  c.filter_height = c.filter_width = 3;
  c.filters = 1;
  EXPECT_EQ(ConvolutionCycles(Machine(), c).total(), 0);
}

TEST(CycleModel, CountsEveryCycleOnceAndNoneNegative) {
  for (const Weights weights : {Weights::kSerial, Weights::kShadowed}) {
    for (const bool double_buffered : {false, true}) {
      Machine machine;
      machine.weights = weights;
      machine.double_buffered = double_buffered;
      machine.buffer_bytes = 1 << 20;
      for (int64_t size : {1, 100, 500, 2000}) {
        const Cycles c = MatrixCycles(machine, Shape(size, size, size));
        EXPECT_GT(c.matrix, 0);
        EXPECT_GT(c.load, 0);
        EXPECT_GT(c.stall, 0);  // the first fetch hides behind nothing
        EXPECT_EQ(c.total(), c.matrix + c.vector + c.load + c.stall);
      }
    }
  }
}

TEST(CycleModel, IsSlowerWithoutASecondBufferAndNeverByMoreThanTheTransfer) {
  Machine machine;
  const Product p = Shape(1000, 1000, 1000);
  const Cycles both = MatrixCycles(machine, p);
  machine.double_buffered = false;
  const Cycles one = MatrixCycles(machine, p);
  EXPECT_GT(one.stall, both.stall);
  const double transfer = (2 * 1e6 * 2 + 1e6 * 4) * machine.clock / machine.memory_bandwidth;
  EXPECT_NEAR(static_cast<double>(one.stall), transfer, 2);
  EXPECT_EQ(one.matrix, both.matrix);
}

TEST(CycleModel, FetchesTheLeftMatrixOnceForEveryColumnFoldWhenItDoesNotFit) {
  Machine machine;
  machine.memory_bandwidth = 1e9;  // transfers alone count
  machine.double_buffered = false;
  const Product p = Shape(256, 1280, 4096);  // the left matrix has 2 MiB, 10 folds of columns
  machine.buffer_bytes = 64 << 20;
  const double fits = static_cast<double>(MatrixCycles(machine, p).stall);
  machine.buffer_bytes = 1 << 20;
  const double folds = static_cast<double>(MatrixCycles(machine, p).stall);
  const double left = 256.0 * 4096 * 2 * machine.clock / machine.memory_bandwidth;
  EXPECT_NEAR(folds - fits, 9 * left, 4);
}

// The rule of cycle_model.h fold by fold, with one clock for the array and one for the channel.
double CyclesFoldByFold(const Machine& machine, const Product& p) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  const int64_t share = machine.buffer_bytes / (machine.double_buffered ? 4 : 2);
  const int64_t block = std::clamp<int64_t>(share / (machine.columns * 4), 1, p.m);
  const int64_t blocks = parts(p.m, block), columns = parts(p.n, machine.columns), rows = parts(p.k, machine.rows);
  const double left = static_cast<double>(p.m * p.k * p.input_bytes) / static_cast<double>(blocks);  // of a block
  const double right = static_cast<double>(p.n * p.k * p.input_bytes);
  const double a_byte = machine.memory_bandwidth > 0 ? machine.clock / machine.memory_bandwidth : 0;
  const bool left_stays = left <= static_cast<double>(share), right_stays = right <= static_cast<double>(share);
  double channel = 0, begin = 0, done = 0, to_write = 0;
  const auto write = [&] {
    if (to_write > 0) channel = std::max(channel, done) + to_write * a_byte;
    to_write = 0;
  };
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t m = std::min(block, p.m - b * block);
        const int64_t exposed = std::max<int64_t>(machine.rows - m, 0);
        const bool first = b + c + r == 0, last = b == blocks - 1 && c == columns - 1 && r == rows - 1;
        const int64_t fill = machine.rows + machine.columns - 2;
        const int64_t busy =
            machine.weights == Weights::kSerial
                ? p.passes * (machine.rows + m + fill)
                : (p.passes - 1) * exposed + (first ? machine.rows : exposed) + p.passes * m + (last ? fill : 0);
        const double reads = (c == 0 || !left_stays ? left / static_cast<double>(rows) : 0) +
                             (b == 0 || !right_stays ? right / static_cast<double>(rows * columns) : 0);
        if (!machine.double_buffered) write();
        channel = std::max(channel, machine.double_buffered ? begin : done) + reads * a_byte;
        begin = std::max(done, channel);
        write();
        done = begin + static_cast<double>(busy);
        if (r == rows - 1)
          to_write = static_cast<double>(p.m * p.n * p.output_bytes) / static_cast<double>(blocks * columns);
      }
  write();
  return std::max(done, channel);
}

TEST(CycleModel, GivesWhatAWalkFoldByFoldGives) {
  uint64_t random = 7;
  const auto draw = [&random](int64_t below) {
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return static_cast<int64_t>(random >> 33) % below;
  };
  for (int i = 0; i < 2000; ++i) {
    Machine machine;
    machine.rows = 1 + draw(40);
    machine.columns = 1 + draw(40);
    machine.weights = draw(2) == 0 ? Weights::kSerial : Weights::kShadowed;
    machine.double_buffered = draw(3) != 0;
    machine.buffer_bytes = int64_t{1024} << draw(12);
    machine.memory_bandwidth = draw(5) == 0 ? 0 : 1e9 * static_cast<double>(1 + draw(400));
    Product p = Shape(1 + draw(700), 1 + draw(900), 1 + draw(900));
    p.passes = 1 + draw(6);
    p.input_bytes = p.output_bytes = 2 + 2 * draw(2);
    const double walked = CyclesFoldByFold(machine, p);
    ASSERT_NEAR(static_cast<double>(MatrixCycles(machine, p).total()), walked, 1 + 1e-6 * walked)
        << machine.rows << "x" << machine.columns << ", buffer " << machine.buffer_bytes << ", "
        << machine.memory_bandwidth / 1e9 << " GB/s, " << p.m << "x" << p.n << "x" << p.k;
  }
}

TEST(CycleModel, HasNoJumpWhereAProductHasVeryManyFolds) {
  Machine machine;
  machine.rows = machine.columns = 8;
  machine.buffer_bytes = 1 << 16;
  // 2 blocks of rows, of which the second has one, and 2^18 folds, and then a few more.
  const Product few = Shape(513, 4096, 2048), more = Shape(513, 4104, 2048);
  EXPECT_NEAR(static_cast<double>(MatrixCycles(machine, few).total()), CyclesFoldByFold(machine, few), 1000);
  EXPECT_NEAR(static_cast<double>(MatrixCycles(machine, more).total()), CyclesFoldByFold(machine, more), 1000);
  EXPECT_LT(static_cast<double>(MatrixCycles(machine, more).total()),
            1.003 * static_cast<double>(MatrixCycles(machine, few).total()));
  machine.memory_bandwidth = 20e9;
  const Product large = Shape(512, 512, 300000);
  EXPECT_NEAR(static_cast<double>(MatrixCycles(machine, large).total()), CyclesFoldByFold(machine, large), 1000);
}

TEST(CycleModel, StaysFiniteForAbsurdSizes) {
  const Cycles c = MatrixCycles(Machine(), Shape(INT64_C(1) << 30, INT64_C(1) << 30, INT64_C(1) << 30));
  EXPECT_GT(c.total(), INT64_C(1) << 40);
}

TEST(CycleModel, GivesNoCyclesToNothing) {
  EXPECT_EQ(MatrixCycles(Machine(), Shape(0, 5, 5)).total(), 0);
  EXPECT_EQ(VectorCycles(Machine(), 0, 0, 0).total(), 0);
}

TEST(CycleModel, CountsElementwiseWorkByLanesAndByBandwidth) {
  Machine machine;
  machine.memory_bandwidth = 0;
  EXPECT_EQ(VectorCycles(machine, 1024 * 100, 1, 1), (Cycles{0, 100, 0, 0}));
  machine.memory_bandwidth = 350e9;  // 500 bytes a cycle
  const Cycles c = VectorCycles(machine, 1 << 20, INT64_C(8) << 20, INT64_C(4) << 20);
  EXPECT_EQ(c.vector, 1024);
  // 12 MiB at 500 bytes a cycle; computing hides behind the transfers.
  EXPECT_NEAR(static_cast<double>(c.total()), 12.0 * 1048576 / 500, 100);
}

TEST(CycleModel, CountsCopiesByTheirRoad) {
  Machine machine;
  EXPECT_EQ(MemoryCycles(machine, 500, 500).load, 2);
  EXPECT_EQ(HostCopyCycles(machine, 16000).load, 700 + 700);
  EXPECT_EQ(InterconnectCycles(machine, 62500).load, 700 + 700);
}

// ---- The program that reads products ----

// What it prints of these lines, errors too, and its status.
std::string CyclesOfLines(const std::string& lines) {
  const std::string command = "printf '" + lines + "' | " TENON_TPU_SIM_CYCLES " 2>&1; echo \"status $?\"";
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  char text[256];
  while (pipe != nullptr && std::fgets(text, sizeof text, pipe) != nullptr) out += text;
  if (pipe != nullptr) pclose(pipe);
  return out;
}

TEST(CyclesProgram, PrintsALineForAProduct) {
  EXPECT_EQ(CyclesOfLines("2 2 3 2 2\n\n2 2 3 4 2\n"), "7\n14\nstatus 0\n");
}

TEST(CyclesProgram, RefusesWhatIsNoProductByItsLine) {
  EXPECT_EQ(CyclesOfLines("2 2 3 2 2\n0 2 3 2 2\n"),
            "7\ntpu_sim_cycles: line 2, '0 2 3 2 2': an array has from 1 to 4096 rows and columns\nstatus 1\n");
  EXPECT_EQ(CyclesOfLines("2 2 3 2\n2 2 3 2 2\n"),
            "tpu_sim_cycles: line 1, '2 2 3 2': five whole numbers are expected: rows columns m n k\nstatus 1\n");
  EXPECT_EQ(CyclesOfLines("2 2 3 2 2 2\n"),
            "tpu_sim_cycles: line 1, '2 2 3 2 2 2': five whole numbers are expected: rows columns m n k\nstatus 1\n");
  EXPECT_EQ(CyclesOfLines("2 2 3 -2 2\n"),
            "tpu_sim_cycles: line 1, '2 2 3 -2 2': sizes of a product are numbers from 0 on\nstatus 1\n");
  EXPECT_EQ(CyclesOfLines("2 2 99999999999999999999 2 2\n"),
            "tpu_sim_cycles: line 1, '2 2 99999999999999999999 2 2': five whole numbers are expected: rows columns m n "
            "k\nstatus 1\n");
}

// ---- The first TPU: 256x256, 700 MHz, 34 GB/s, 8-bit weights ----

Machine FirstTpu() {
  Machine machine;
  machine.rows = machine.columns = 256;
  machine.clock = 700e6;
  machine.memory_bandwidth = 34e9;
  machine.buffer_bytes = INT64_C(28) << 20;
  return machine;
}

TEST(Roofline, OfTheFirstTpuPeaksAt92Teraoperations) {
  EXPECT_NEAR(PeakOperations(FirstTpu()) / 1e12, 92, 0.5);
}

TEST(Roofline, OfTheFirstTpuHasItsRidgeAt1350MultiplyAddsForEachByteOfWeights) {
  EXPECT_NEAR(RidgePoint(FirstTpu()) / 2, 1350, 5);
}

TEST(Roofline, BoundsFullyConnectedLayersOfAnyBatch) {
  const Machine machine = FirstTpu();
  for (int64_t batch : {8, 16, 64, 128, 200, 400, 1000, 1350, 2000, 4000}) {
    Product p = Shape(batch, 2048, 2048);
    p.input_bytes = 1;
    p.output_bytes = 0;  // the paper counts bytes of weights alone; so activations stay on chip
    p.left_bytes = 1;
    const double seconds = static_cast<double>(MatrixCycles(machine, p).total()) / machine.clock;
    const double operations = 2.0 * static_cast<double>(batch) * 2048 * 2048;
    const double bound = std::min(PeakOperations(machine), 2.0 * static_cast<double>(batch) * machine.memory_bandwidth);
    EXPECT_LE(operations / seconds, bound * 1.0001) << batch;
    // What is lost is the first fold's fetch, filling and draining.
    EXPECT_GE(operations / seconds, bound * 0.94) << batch;
  }
}

// ---- SCALE-Sim ----

struct Published {
  int64_t rows, columns;
  std::string topology, layer;
  int64_t m, n, k, compute, stall;
};

// Rows of a file of scalesim/, without comments and the header.
std::vector<std::vector<std::string>> ReadTable(const std::string& name, size_t cells_of_a_row) {
  std::ifstream file(TENON_TEST_SOURCE_DIR "/devices/tpu_sim/model/scalesim/" + name);
  std::vector<std::vector<std::string>> out;
  bool header = true;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || std::exchange(header, false)) continue;
    std::vector<std::string> cells;
    std::stringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    EXPECT_GE(cells.size(), cells_of_a_row) << line;
    if (cells.size() >= cells_of_a_row) out.push_back(std::move(cells));
  }
  EXPECT_FALSE(out.empty()) << name;
  return out;
}

std::vector<Published> ReadPublished() {
  std::vector<Published> out;
  for (const auto& row : ReadTable("cycles.csv", 9)) {
    const auto number = [&](size_t i) { return std::stoll(row[i]); };
    out.push_back({number(0), number(1), row[2], row[3], number(4), number(5), number(6), number(7), number(8)});
  }
  return out;
}

TEST(ScaleSim, AgreesLayerByLayerWithinTwoPercent) {
  std::map<std::string, int> layers;
  double worst = 0;
  for (const Published& p : ReadPublished()) {
    const Cycles ours = MatrixCycles(Ideal(p.rows, p.columns, Weights::kSerial), Shape(p.m, p.n, p.k));
    const double off = static_cast<double>(ours.total()) / static_cast<double>(p.compute) - 1;
    EXPECT_LE(std::abs(off), 0.02) << p.topology << " " << p.layer << " on " << p.rows << "x" << p.columns << ": "
                                   << ours.total() << " cycles, SCALE-Sim has " << p.compute;
    // Its count is the number of the last cycle, from 0 on; nothing else differs.
    EXPECT_EQ(ours.total(), p.compute + 1) << p.topology << " " << p.layer;
    EXPECT_EQ(p.stall, ours.stall);
    worst = std::max(worst, std::abs(off));
    ++layers[std::to_string(p.rows) + " " + p.topology];
  }
  for (const std::string rows : {"32", "128"}) {
    EXPECT_EQ(layers[rows + " gemm"], 19);
    EXPECT_EQ(layers[rows + " alexnet"], 5);
    EXPECT_EQ(layers[rows + " resnet50"], 54);
  }
  RecordProperty("worst_difference_percent", std::to_string(100 * worst));
}

TEST(ScaleSim, AgreesOnConvolutionsButForWindowsThatTheEdgeCuts) {
  std::map<std::string, std::string> reasons;
  for (const auto& row : ReadTable("differences.csv", 3)) reasons[row[0] + " " + row[1]] = row[2];
  std::map<std::string, int64_t> theirs;
  for (const Published& p : ReadPublished()) {
    theirs[std::to_string(p.rows) + " " + p.topology + " " + p.layer] = p.compute;
  }
  std::map<std::string, std::string> off_by_more;
  for (const std::string topology : {"alexnet", "resnet50"}) {
    for (const auto& row : ReadTable(topology + ".csv", 8)) {
      const auto number = [&](size_t i) { return std::stoll(row[i]); };
      Convolution c;
      c.height = number(1);
      c.width = number(2);
      c.filter_height = number(3);
      c.filter_width = number(4);
      c.channels = number(5);
      c.filters = number(6);
      c.stride_height = c.stride_width = number(7);
      for (const int64_t size : {32, 128}) {
        const auto ours = static_cast<double>(ConvolutionCycles(Ideal(size, size, Weights::kSerial), c).total());
        const auto their = static_cast<double>(theirs.at(std::to_string(size) + " " + topology + " " + row[0]));
        if (std::abs(ours / their - 1) > 0.02) off_by_more[topology + " " + row[0]] = reasons[topology + " " + row[0]];
      }
    }
  }
  for (const auto& [layer, reason] : off_by_more) EXPECT_NE(reason, "") << layer << " is off without a reason";
  EXPECT_EQ(off_by_more.size(), reasons.size()) << "a reason for a layer that is not off";
}

}  // namespace
}  // namespace tenon::tpu_sim::cycle_model_test

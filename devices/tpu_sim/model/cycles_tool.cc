// SPDX-License-Identifier: Apache-2.0
// tpu_sim_cycles: reads lines "rows columns m n k" and prints the model's cycles of that product, a line each, for
// compare_scalesim.py. The machine is SCALE-Sim's: serial folds and all the bandwidth that they need. A line that is no
// such product ends it, with status 1 and the line's number; empty lines are passed over.
#include <iostream>
#include <sstream>
#include <string>

#include "model/cycle_model.h"

int main() {
  tenon::tpu_sim::Machine machine;
  machine.weights = tenon::tpu_sim::Weights::kSerial;
  machine.memory_bandwidth = 0;
  machine.buffer_bytes = INT64_C(1) << 40;
  tenon::tpu_sim::Product product;
  const auto refuse = [](int64_t number, const std::string& line, const char* why) {
    std::cerr << "tpu_sim_cycles: line " << number << ", '" << line << "': " << why << '\n';
    return 1;
  };
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    std::istringstream words(line);
    if ((words >> std::ws).eof()) continue;
    std::string more;
    if (!(words >> machine.rows >> machine.columns >> product.m >> product.n >> product.k) || words >> more)
      return refuse(number, line, "five whole numbers are expected: rows columns m n k");
    if (machine.rows < 1 || machine.columns < 1 || machine.rows > tenon::tpu_sim::kMostCells ||
        machine.columns > tenon::tpu_sim::kMostCells)
      return refuse(number, line, "an array has from 1 to 4096 rows and columns");
    if (product.m < 0 || product.n < 0 || product.k < 0)
      return refuse(number, line, "sizes of a product are numbers from 0 on");
    std::cout << tenon::tpu_sim::MatrixCycles(machine, product).total() << '\n';
  }
  return std::cin.bad() ? 1 : 0;
}

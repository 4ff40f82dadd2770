// SPDX-License-Identifier: Apache-2.0
// tpu_sim_cycles: reads lines "rows columns m n k" and prints the model's cycles of that product, a line each, for
// compare_scalesim.py. The machine is SCALE-Sim's: serial folds and all the bandwidth that they need.
#include <iostream>

#include "model/cycle_model.h"

int main() {
  tenon::tpu_sim::Machine machine;
  machine.weights = tenon::tpu_sim::Weights::kSerial;
  machine.memory_bandwidth = 0;
  machine.buffer_bytes = INT64_C(1) << 40;
  tenon::tpu_sim::Product product;
  while (std::cin >> machine.rows >> machine.columns >> product.m >> product.n >> product.k) {
    std::cout << tenon::tpu_sim::MatrixCycles(machine, product).total() << '\n';
  }
  return std::cin.eof() ? 0 : 1;
}

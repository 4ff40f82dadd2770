// SPDX-License-Identifier: Apache-2.0
// What the generator makes code of: element-wise functions of values of one shape, in order; and of rows, whose sums
// and the like the functions behind them read.
#ifndef TENON_DEVICES_CPU_CODEGEN_CODE_PROGRAM_H_
#define TENON_DEVICES_CPU_CODEGEN_CODE_PROGRAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/dtype.h"

namespace tenon::cpu_codegen {

// The instructions that may be used. kNone: nothing is generated.
enum class Level : uint8_t { kNone, kAvx2, kAvx512 };
// The best of this processor and system.
Level BestLevel();

enum class Function : uint8_t {
  // Of one value.
  kNeg,
  kAbs,
  kSign,
  kSquare,
  kReciprocal,
  kSqrt,
  kRsqrt,
  kFloor,
  kCeil,
  kRound,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kSigmoid,
  kErf,
  kRelu,
  kRelu6,
  kLeakyRelu,
  kElu,
  kSelu,
  kSoftplus,
  kSoftsign,
  kNot,
  kIsNan,
  kIsInf,
  kIsFinite,
  kCast,
  kNumber,  // one and the same, wherever the operand is
  // Of two.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  kFloorDiv,
  kTruncateDiv,
  kDivNoNan,
  kMulNoNan,
  kXdivy,
  kXlogy,
  kTanhGrad,
  kSigmoidGrad,
  kSqrtGrad,
  kRsqrtGrad,
  kReciprocalGrad,
  kReluGrad,
  kRelu6Grad,
  kLeakyReluGrad,
  kEluGrad,
  kSeluGrad,
  kSoftplusGrad,
  kSoftsignGrad,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  // Of three, and of any number. Of x, y and z: x y + z, x y - z and z - x y, rounded once.
  kSelect,
  kClip,
  kPlusProduct,
  kProductMinus,
  kMinusProduct,
  kAddN,
  // Of a row: one value. kLargest passes NaN over.
  kSum,
  kMean,
  kProd,
  kMax,
  kMin,
  kLargest,
  kUnknown
};

inline bool IsHalf(uint32_t dtype) { return dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16; }
// By its word in formulas (tenon/formula.h); kUnknown: nothing that is generated.
Function FunctionOf(std::string_view word);
// Whether it is generated with these types (TENON_DT_*; of the inputs, which are alike where the op says so, and of the
// output).
bool IsGenerated(Function function, const std::vector<uint32_t>& inputs, uint32_t output, Level level);
// What the op computes of rows or columns (kSum to kMin), or kUnknown; and whether that is generated.
Function ReductionOf(std::string_view op);
// A sum of all dims but the last, without axes.
inline bool IsBiasGradient(std::string_view op) { return op == "BiasAddGrad"; }
inline bool IsReduction(Function function) { return function >= Function::kSum && function <= Function::kLargest; }
bool IsGeneratedReduction(Function function, uint32_t dtype, Level level);
// Softmax and LogSoftmax, which several nodes compute.
bool IsSoftmax(std::string_view op);
// Whether the kernel rounds in ways of its own: results may then differ from it in the last places.
bool IsApproximate(Function function);

struct Input {
  uint32_t dtype = 0;
  bool is_single = false;  // one element, read again for each call
  bool is_sum = false;  // the memory of the result that the only node makes which reads it: each row adds to what the
                        // one before has left there. It has whole registers' worth of elements
  bool is_listed = false;  // the call gives a list of pointers, one for each row; input_steps is of the list
};
struct Node {
  Function function = Function::kUnknown;
  uint32_t dtype = 0;         // of the result
  std::vector<int> operands;  // numbers of values: the inputs, then the nodes' results
  double number = 0;          // of kNumber; what kLeakyRelu and its gradient multiply by
};
struct Program {
  Level level = Level::kNone;
  bool streams = false;  // results go past the caches
  std::vector<Input> inputs;
  std::vector<Node> nodes;   // each behind its operands
  std::vector<int> outputs;  // numbers of values, of nodes alone; none twice
  int64_t row = 0;           // elements of a row, which are then part of the code; 0: there are no reductions
  int lanes = 0;             // elements that are computed at once; 0: as many as there is room for

  uint32_t DtypeOf(int value) const {
    const auto count = static_cast<int>(inputs.size());
    return value < count ? inputs[static_cast<size_t>(value)].dtype : nodes[static_cast<size_t>(value - count)].dtype;
  }
  // Whether the value is a sum that rows add to, as an input or as the result.
  bool IsSum(int value) const;
  // Of values: whether they are one of a row, as single inputs, reductions, and what is made of these alone. Of
  // programs without reductions single inputs.
  std::vector<bool> OfRows() const;
  // Equal for programs of equal code.
  std::string Key() const;
  // Elements that are computed at once.
  int Lanes() const;
};

// A while loop over a program: the first inputs of the body are what is carried; others stay. All values are registers'
// worth of elements, or one element.
struct Loop {
  Program body;               // without outputs; all inputs single
  std::vector<int> next;      // of each that is carried: the value that it is in the next turn: a node's, or itself
  int condition = 0;          // a truth; of its elements the first is asked
  int condition_nodes = 0;    // the first nodes of the body, before the condition is asked
  std::string Key() const;
};

inline constexpr size_t kMostNodes = 64, kMostInputs = 24, kMostOutputs = 16;

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_CODE_PROGRAM_H_

// SPDX-License-Identifier: Apache-2.0
// What a formula (tenon/formula.h) is of given numbers, in doubles: what an op is held against that says "computes".
#ifndef TENON_TESTING_FORMULA_VALUE_H_
#define TENON_TESTING_FORMULA_VALUE_H_

#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::testing {

// One evaluation. Formulas are as definitions have them: "mul(x, sigmoid(x))".
class FormulaValue {
 public:
  // What a name stands for: one number, or of a list one for each of its tensors; empty: nobody knows.
  using Named = std::function<std::vector<double>(const std::string& name)>;

  // whole: the numbers are whole ones, and divided as such.
  FormulaValue(std::string_view formula, Named named, bool whole) : named_(std::move(named)), whole_(whole) {
    rest_ = formula;
    const std::vector<double> values = Operand();
    if (is_known_ && values.size() == 1) value_ = values[0];
  }
  // Nothing where a function or a name is not known here.
  std::optional<double> value() const { return value_; }

 private:
  using Numbers = std::vector<double>;
  using Function = std::function<double(const FormulaValue&, const Numbers&)>;

  void Skip() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }
  bool Take(char letter) {
    Skip();
    if (rest_.empty() || rest_[0] != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }
  Numbers Unknown() {
    is_known_ = false;
    return {};
  }
  Numbers Operand() {
    Skip();
    size_t size = 0;
    while (size < rest_.size() && rest_[size] != '(' && rest_[size] != ')' && rest_[size] != ',' && rest_[size] != ' ')
      ++size;
    const std::string word(rest_.substr(0, size));
    rest_.remove_prefix(size);
    if (Take('(')) return Call(word);
    if (!word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_')) {
      Numbers values = named_(word);
      return values.empty() ? Unknown() : values;
    }
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    return word.empty() || *end != '\0' ? Unknown() : Numbers{number};
  }
  Numbers Call(const std::string& name) {
    Numbers operands;
    do {
      const Numbers more = Operand();
      operands.insert(operands.end(), more.begin(), more.end());
    } while (is_known_ && Take(','));
    const auto function = Functions().find(name);
    if (!is_known_ || !Take(')') || function == Functions().end() || operands.size() < function->second.least)
      return Unknown();
    return {function->second.of(*this, operands)};
  }

  static double Bit(double value) { return value != 0 ? 1 : 0; }
  static int64_t Whole(double value) { return static_cast<int64_t>(value); }

  struct Known {
    size_t least;
    Function of;
  };
  static const std::map<std::string, Known, std::less<>>& Functions();

  std::string_view rest_;
  const Named named_;
  const bool whole_;
  bool is_known_ = true;
  std::optional<double> value_;
};

inline const std::map<std::string, FormulaValue::Known, std::less<>>& FormulaValue::Functions() {
  constexpr double kSeluScale = 1.0507009873554804934193349852946, kSeluLimit = 1.7580993408473768599402175208123;
  const auto of_one = [](double (*function)(double)) {
    return Known{1, [function](const FormulaValue&, const Numbers& x) { return function(x[0]); }};
  };
  const auto of_two = [](double (*function)(double, double)) {
    return Known{2, [function](const FormulaValue&, const Numbers& x) { return function(x[0], x[1]); }};
  };
  const auto of_three = [](double (*function)(double, double, double)) {
    return Known{3, [function](const FormulaValue&, const Numbers& x) { return function(x[0], x[1], x[2]); }};
  };
  const auto divided = [](double (*round)(double)) {
    return Known{2, [round](const FormulaValue&, const Numbers& x) { return round(x[0] / x[1]); }};
  };
  static const std::map<std::string, Known, std::less<>> functions = {
      {"neg", of_one([](double x) { return -x; })},
      {"abs", of_one([](double x) { return std::abs(x); })},
      {"sign", of_one([](double x) { return std::isnan(x) ? x : x > 0 ? 1. : x < 0 ? -1. : 0.; })},
      {"square", of_one([](double x) { return x * x; })},
      {"reciprocal", of_one([](double x) { return 1 / x; })},
      {"sqrt", of_one([](double x) { return std::sqrt(x); })},
      {"rsqrt", of_one([](double x) { return 1 / std::sqrt(x); })},
      {"floor", of_one([](double x) { return std::floor(x); })},
      {"ceil", of_one([](double x) { return std::ceil(x); })},
      {"round", of_one([](double x) { return std::nearbyint(x); })},
      {"exp", of_one([](double x) { return std::exp(x); })},
      {"expm1", of_one([](double x) { return std::expm1(x); })},
      {"log", of_one([](double x) { return std::log(x); })},
      {"log1p", of_one([](double x) { return std::log1p(x); })},
      {"sin", of_one([](double x) { return std::sin(x); })},
      {"cos", of_one([](double x) { return std::cos(x); })},
      {"tan", of_one([](double x) { return std::tan(x); })},
      {"asin", of_one([](double x) { return std::asin(x); })},
      {"acos", of_one([](double x) { return std::acos(x); })},
      {"atan", of_one([](double x) { return std::atan(x); })},
      {"sinh", of_one([](double x) { return std::sinh(x); })},
      {"cosh", of_one([](double x) { return std::cosh(x); })},
      {"tanh", of_one([](double x) { return std::tanh(x); })},
      {"asinh", of_one([](double x) { return std::asinh(x); })},
      {"acosh", of_one([](double x) { return std::acosh(x); })},
      {"atanh", of_one([](double x) { return std::atanh(x); })},
      {"erf", of_one([](double x) { return std::erf(x); })},
      {"erfc", of_one([](double x) { return std::erfc(x); })},
      {"lgamma", of_one([](double x) { return std::lgamma(x); })},
      {"sigmoid", of_one([](double x) { return 1 / (1 + std::exp(-x)); })},
      {"relu", of_one([](double x) { return x > 0 || std::isnan(x) ? x : 0.; })},
      {"relu6", of_one([](double x) { return std::isnan(x) ? x : std::fmin(std::fmax(x, 0.), 6.); })},
      {"elu", of_one([](double x) { return x < 0 ? std::expm1(x) : x; })},
      {"selu", of_one([](double x) { return x < 0 ? kSeluLimit * std::expm1(x) : kSeluScale * x; })},
      {"softplus", of_one([](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); })},
      {"softsign", of_one([](double x) { return x / (1 + std::abs(x)); })},
      {"logical_not", of_one([](double x) { return 1 - Bit(x); })},
      {"bitwise_not", of_one([](double x) { return static_cast<double>(~Whole(x)); })},
      {"is_nan", of_one([](double x) { return std::isnan(x) ? 1. : 0.; })},
      {"is_inf", of_one([](double x) { return std::isinf(x) ? 1. : 0.; })},
      {"is_finite", of_one([](double x) { return std::isfinite(x) ? 1. : 0.; })},
      {"cast", of_two([](double x, double) { return x; })},
      {"leaky_relu", of_two([](double x, double alpha) { return x > 0 ? x : alpha * x; })},
      {"add", of_two([](double x, double y) { return x + y; })},
      {"sub", of_two([](double x, double y) { return x - y; })},
      {"mul", of_two([](double x, double y) { return x * y; })},
      {"div", {2, [](const FormulaValue& value, const Numbers& x) {
         return value.whole_ ? std::trunc(x[0] / x[1]) : x[0] / x[1];
       }}},
      {"maximum", of_two([](double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : std::fmax(x, y); })},
      {"minimum", of_two([](double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : std::fmin(x, y); })},
      {"squared_difference", of_two([](double x, double y) { return (x - y) * (x - y); })},
      {"floor_div", divided([](double x) { return std::floor(x); })},
      {"truncate_div", divided([](double x) { return std::trunc(x); })},
      {"floor_mod", of_two([](double x, double y) {
         const double rest = std::fmod(x, y);
         return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
       })},
      {"truncate_mod", of_two([](double x, double y) { return std::fmod(x, y); })},
      {"div_no_nan", of_two([](double x, double y) { return y == 0 ? 0 : x / y; })},
      {"mul_no_nan", of_two([](double x, double y) { return y == 0 ? 0 : x * y; })},
      {"xdivy", of_two([](double x, double y) { return x == 0 ? 0 : x / y; })},
      {"xlogy", of_two([](double x, double y) { return x == 0 ? 0 : x * std::log(y); })},
      {"xlog1py", of_two([](double x, double y) { return x == 0 ? 0 : x * std::log1p(y); })},
      {"pow", of_two([](double x, double y) { return std::pow(x, y); })},
      {"atan2", of_two([](double y, double x) { return std::atan2(y, x); })},
      {"bitwise_and", of_two([](double x, double y) { return static_cast<double>(Whole(x) & Whole(y)); })},
      {"bitwise_or", of_two([](double x, double y) { return static_cast<double>(Whole(x) | Whole(y)); })},
      {"bitwise_xor", of_two([](double x, double y) { return static_cast<double>(Whole(x) ^ Whole(y)); })},
      {"equal", of_two([](double x, double y) { return x == y ? 1. : 0.; })},
      {"not_equal", of_two([](double x, double y) { return x != y ? 1. : 0.; })},
      {"less", of_two([](double x, double y) { return x < y ? 1. : 0.; })},
      {"less_equal", of_two([](double x, double y) { return x <= y ? 1. : 0.; })},
      {"greater", of_two([](double x, double y) { return x > y ? 1. : 0.; })},
      {"greater_equal", of_two([](double x, double y) { return x >= y ? 1. : 0.; })},
      {"logical_and", of_two([](double x, double y) { return Bit(x) * Bit(y); })},
      {"logical_or", of_two([](double x, double y) { return Bit(Bit(x) + Bit(y)); })},
      {"tanh_grad", of_two([](double y, double dy) { return dy * (1 - y * y); })},
      {"sigmoid_grad", of_two([](double y, double dy) { return dy * y * (1 - y); })},
      {"sqrt_grad", of_two([](double y, double dy) { return dy == 0 ? 0 : dy / 2 / y; })},
      {"rsqrt_grad", of_two([](double y, double dy) { return dy == 0 ? 0 : -dy / 2 * y * y * y; })},
      {"reciprocal_grad", of_two([](double y, double dy) { return dy == 0 ? 0 : -dy * y * y; })},
      {"relu_grad", of_two([](double dy, double x) { return x > 0 ? dy : 0 * dy; })},
      {"relu6_grad", of_two([](double dy, double x) { return x > 0 && x < 6 ? dy : 0 * dy; })},
      {"elu_grad", of_two([](double dy, double y) { return y < 0 ? dy * (y + 1) : dy; })},
      {"selu_grad", of_two([](double dy, double y) { return y < 0 ? dy * (y + kSeluLimit) : dy * kSeluScale; })},
      {"softplus_grad", of_two([](double dy, double x) { return dy / (1 + std::exp(-x)); })},
      {"softsign_grad", of_two([](double dy, double x) { return dy / ((1 + std::abs(x)) * (1 + std::abs(x))); })},
      {"leaky_relu_grad", of_three([](double dy, double x, double alpha) { return x > 0 ? dy : alpha * dy; })},
      {"select", of_three([](double condition, double x, double y) { return condition != 0 ? x : y; })},
      {"clip", of_three([](double x, double low, double high) { return std::fmax(low, std::fmin(x, high)); })},
      {"add_n", {1, [](const FormulaValue&, const Numbers& x) {
         double sum = x[0];
         for (size_t i = 1; i < x.size(); ++i) sum += x[i];
         return sum;
       }}}};
  return functions;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_FORMULA_VALUE_H_

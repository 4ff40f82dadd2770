// SPDX-License-Identifier: Apache-2.0
#include "core/graph/constraint.h"

#include "core/graph/text_scanner.h"

namespace tenon::graph {
namespace {

Result<Term> ParseSum(TextScanner& scanner);

Result<Term> ParseAtom(TextScanner& scanner) {
  Term term;
  if (scanner.Take("(")) {
    TENON_ASSIGN_OR_RETURN(term, ParseSum(scanner));
    if (!scanner.Take(")")) return scanner.Error("')'");
    return term;
  }
  if (scanner.Take("-")) {
    TENON_ASSIGN_OR_RETURN(Term inner, ParseAtom(scanner));
    term.kind = Term::Kind::kSubtract;
    term.left = std::make_shared<Term>();
    term.right = std::make_shared<Term>(std::move(inner));
    return term;
  }
  if (auto number = scanner.TakeInt()) {
    term.number = *number;
    return term;
  }
  const std::string name = scanner.TakeName();
  if (name.empty()) return scanner.Error("a term");
  if (!scanner.Take("(")) {
    term.kind = Term::Kind::kName;
    term.name = name;
    return term;
  }
  if (name == "rank") term.kind = Term::Kind::kRank;
  else if (name == "dim") term.kind = Term::Kind::kDim;
  else if (name == "numel") term.kind = Term::Kind::kNumel;
  else if (name == "value") term.kind = Term::Kind::kValue;
  else if (name == "element") term.kind = Term::Kind::kElement;
  else if (name == "path") term.kind = Term::Kind::kPath;
  else return scanner.Error("rank, dim, numel, value, element or path");
  term.name = scanner.TakeName();
  if (term.name.empty()) return scanner.Error("an argument's name");
  if (term.kind == Term::Kind::kDim) {
    if (!scanner.Take(",")) return scanner.Error("','");
    auto index = scanner.TakeInt();
    if (!index) return scanner.Error("the dim's index");
    term.number = *index;
  }
  if (!scanner.Take(")")) return scanner.Error("')'");
  return term;
}

Term Binary(Term::Kind kind, Term left, Term right) {
  Term term;
  term.kind = kind;
  term.left = std::make_shared<Term>(std::move(left));
  term.right = std::make_shared<Term>(std::move(right));
  return term;
}

Result<Term> ParseProduct(TextScanner& scanner) {
  TENON_ASSIGN_OR_RETURN(Term left, ParseAtom(scanner));
  while (scanner.Take("*")) {
    TENON_ASSIGN_OR_RETURN(Term right, ParseAtom(scanner));
    left = Binary(Term::Kind::kMultiply, std::move(left), std::move(right));
  }
  return left;
}

Result<Term> ParseSum(TextScanner& scanner) {
  TENON_ASSIGN_OR_RETURN(Term left, ParseProduct(scanner));
  for (;;) {
    Term::Kind kind;
    if (scanner.Take("+")) kind = Term::Kind::kAdd;
    else if (scanner.Take("-")) kind = Term::Kind::kSubtract;
    else return left;
    TENON_ASSIGN_OR_RETURN(Term right, ParseProduct(scanner));
    left = Binary(kind, std::move(left), std::move(right));
  }
}

bool Mentions(const Term& term, Term::Kind kind) {
  return term.kind == kind || (term.left && Mentions(*term.left, kind)) || (term.right && Mentions(*term.right, kind));
}

// The values that a term may have: one, or one an element for value(x). Nothing: not known.
std::optional<std::vector<int64_t>> Evaluate(const Term& term, const ConstraintFacts& facts) {
  const auto one = [](std::optional<int64_t> value) -> std::optional<std::vector<int64_t>> {
    if (!value) return std::nullopt;
    return std::vector<int64_t>{*value};
  };
  switch (term.kind) {
    case Term::Kind::kInt: return std::vector<int64_t>{term.number};
    case Term::Kind::kName: return one(facts.attr ? facts.attr(term.name) : std::nullopt);
    case Term::Kind::kRank: return one(facts.rank ? facts.rank(term.name) : std::nullopt);
    case Term::Kind::kDim: return one(facts.dim ? facts.dim(term.name, term.number) : std::nullopt);
    case Term::Kind::kNumel: return one(facts.numel ? facts.numel(term.name) : std::nullopt);
    case Term::Kind::kValue: return facts.values ? facts.values(term.name) : std::nullopt;
    case Term::Kind::kElement:
    case Term::Kind::kPath: return std::nullopt;
    default: break;
  }
  const auto left = Evaluate(*term.left, facts);
  const auto right = Evaluate(*term.right, facts);
  if (!left || !right) return std::nullopt;
  std::vector<int64_t> out;
  for (int64_t a : *left)
    for (int64_t b : *right) {
      int64_t value = 0;
      const bool overflow = term.kind == Term::Kind::kAdd        ? __builtin_add_overflow(a, b, &value)
                            : term.kind == Term::Kind::kSubtract ? __builtin_sub_overflow(a, b, &value)
                                                                 : __builtin_mul_overflow(a, b, &value);
      if (overflow) return std::nullopt;
      out.push_back(value);
    }
  return out;
}

bool Holds(int64_t a, const std::string& comparison, int64_t b) {
  if (comparison == "==") return a == b;
  if (comparison == "!=") return a != b;
  if (comparison == "<=") return a <= b;
  if (comparison == ">=") return a >= b;
  if (comparison == "<") return a < b;
  return a > b;
}

}  // namespace

Result<std::vector<Constraint>> ParseConstraints(std::string_view text) {
  constexpr size_t kLongest = 512;  // terms lie in each other as deep as there are characters
  std::vector<Constraint> out;
  while (!text.empty()) {
    const size_t end = text.find(';');
    std::string_view piece = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (piece.size() > kLongest)
      return InvalidArgument(StrCat("a constraint of ", piece.size(), " characters, which begins with '",
                                    piece.substr(0, 32), "'; at most ", kLongest));
    TextScanner scanner(piece);
    if (scanner.done()) continue;
    Constraint constraint;
    while (!piece.empty() && std::isspace(static_cast<unsigned char>(piece.front()))) piece.remove_prefix(1);
    while (!piece.empty() && std::isspace(static_cast<unsigned char>(piece.back()))) piece.remove_suffix(1);
    constraint.text = piece;
    TENON_ASSIGN_OR_RETURN(constraint.left, ParseSum(scanner));
    if (constraint.is_path() && scanner.done()) {
      constraint.in_kernel = true;
      out.push_back(std::move(constraint));
      continue;
    }
    for (const char* comparison : {"==", "!=", "<=", ">=", "<", ">"})
      if (constraint.comparison.empty() && scanner.Take(comparison)) constraint.comparison = comparison;
    if (constraint.comparison.empty()) return scanner.Error("a comparison");
    TENON_ASSIGN_OR_RETURN(constraint.right, ParseSum(scanner));
    if (!scanner.done()) return scanner.Error("the end");
    constraint.in_kernel =
        Mentions(constraint.left, Term::Kind::kElement) || Mentions(constraint.right, Term::Kind::kElement);
    if (Mentions(constraint.left, Term::Kind::kPath) || Mentions(constraint.right, Term::Kind::kPath))
      return scanner.Error("path(x) alone");
    out.push_back(std::move(constraint));
  }
  return out;
}

Status Check(const Constraint& constraint, const ConstraintFacts& facts) {
  if (constraint.in_kernel) return Status::Ok();
  const auto left = Evaluate(constraint.left, facts);
  const auto right = Evaluate(constraint.right, facts);
  if (!left || !right) return Status::Ok();
  for (int64_t a : *left)
    for (int64_t b : *right)
      if (!Holds(a, constraint.comparison, b))
        return InvalidArgument(
            StrCat("must hold: ", constraint.text, "; found ", a, " ", constraint.comparison, " ", b));
  return Status::Ok();
}

}  // namespace tenon::graph

// SPDX-License-Identifier: Apache-2.0
#include "core/base/status.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace tenon::status_test {
namespace {

TEST(Status, IsOkWithoutAnObject) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_EQ(status.release(), nullptr);
  EXPECT_TRUE(Status(Code::kOk, "nothing is wrong").ok());
}

TEST(Status, NamesEveryCodeOfTheAbi) {
  const char* const names[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  for (uint32_t code = 0; code < 17; ++code) EXPECT_EQ(CodeName(static_cast<Code>(code)), names[code]);
  EXPECT_EQ(CodeName(static_cast<Code>(17)), "UNKNOWN");
  EXPECT_EQ(CodeName(static_cast<Code>(UINT32_MAX)), "UNKNOWN");
}

TEST(Status, PutsEachContextBeforeTheLast) {
  Status status = InvalidArgument("rank 2, found 3").Annotate("input 1").Annotate("node 'x' (Plus)");
  EXPECT_EQ(status.ToString(), "INVALID_ARGUMENT: node 'x' (Plus): input 1: rank 2, found 3");
  EXPECT_TRUE(Status().Annotate("context").ok());
}

TEST(Status, CopiesAndMovesLikeAValue) {
  Status first = NotFound("a");
  Status second = first;
  EXPECT_EQ(second.ToString(), "NOT_FOUND: a");
  second = Internal("b");
  EXPECT_EQ(first.ToString(), "NOT_FOUND: a");
  Status third = std::move(second);
  EXPECT_EQ(third.ToString(), "INTERNAL: b");
  EXPECT_TRUE(second.ok());  // NOLINT: what a moved status is stands in its header
  Status& same = third;
  third = same;
  EXPECT_EQ(third.ToString(), "INTERNAL: b");
}

TEST(Status, CrossesToTheAbiAndBackWithoutACopy) {
  Status status = OutOfRange("row 9");
  tenon_status* object = status.release();
  EXPECT_TRUE(status.ok());
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object->code, TENON_OUT_OF_RANGE);
  EXPECT_EQ(Status(object).ToString(), "OUT_OF_RANGE: row 9");
}

TEST(Status, KeepsTheOneOfNoMemoryAsItIs) {
  Status first(OutOfMemoryStatus());
  Status annotated = std::move(first).Annotate("node 'x'");
  EXPECT_EQ(annotated.ToString(), "RESOURCE_EXHAUSTED: out of memory");
  ReleaseStatus(annotated.release());  // frees nothing
  EXPECT_EQ(Status(OutOfMemoryStatus()).ToString(), "RESOURCE_EXHAUSTED: out of memory");
}

TEST(Result, HoldsAValueOrTheReason) {
  Result<std::string> value = std::string("here");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, "here");
  EXPECT_EQ(value->size(), 4u);
  Result<std::string> none = NotFound("gone");
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.status().ToString(), "NOT_FOUND: gone");
}

TEST(Result, RefusesSuccessWithoutAValue) {
  const Result<int> result = Status::Ok();
  EXPECT_EQ(result.status().ToString(), "INTERNAL: a Result was made of success without a value");
}

TEST(Result, PassesFailuresOnThroughTheMacros) {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) return InvalidArgument(StrCat(n, " is odd"));
    return n / 2;
  };
  const auto quarter = [&](int n) -> Result<int> {
    TENON_ASSIGN_OR_RETURN(const int once, half(n));
    TENON_RETURN_IF_ERROR(half(once).status());
    return half(once);
  };
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(7).status().ToString(), "INVALID_ARGUMENT: 7 is odd");
  EXPECT_EQ(quarter(6).status().ToString(), "INVALID_ARGUMENT: 3 is odd");
}

TEST(StrCat, JoinsTextsAndNumbers) {
  EXPECT_EQ(StrCat("a", std::string("b"), std::string_view("c"), 'd', -1, uint64_t{18446744073709551615u}),
            "abcd-118446744073709551615");
}

TEST(Guarded, MakesStatusesOfWhatIsThrown) {
  EXPECT_TRUE(Guarded([] { return Status::Ok(); }).ok());
  EXPECT_EQ(Guarded([] { return NotFound("it"); }).code(), Code::kNotFound);
  EXPECT_EQ(Guarded([]() -> Status { throw std::bad_alloc(); }).code(), Code::kResourceExhausted);
  const Status thrown = Guarded([]() -> Status { throw std::length_error("too long"); });
  EXPECT_EQ(thrown.code(), Code::kInternal);
  EXPECT_EQ(thrown.message(), "too long");
  EXPECT_EQ(Guarded([]() -> Status { throw 7; }).code(), Code::kInternal);
  bool called = false;
  EXPECT_TRUE(Guarded([&] { called = true; }).ok());
  EXPECT_TRUE(called);
  EXPECT_EQ(Guarded([] { throw 7; }).code(), Code::kInternal);
}

}  // namespace
}  // namespace tenon::status_test

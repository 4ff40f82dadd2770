// SPDX-License-Identifier: Apache-2.0
// StringFormat, Print, PrintV2: tensors for people to read, as a text, on the standard error or output, or in the log.
#include <atomic>
#include <cstdio>

#include "summary.h"
#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/number.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Format {
  explicit Format(CreateContext& c) : summarize(c.Int("summarize")) {
    const std::string_view placeholder = c.String("placeholder"), whole = c.String("template");
    size_t at = 0;
    if (placeholder.empty()) {
      c.Invalid("the placeholder is empty");
      return;
    }
    for (;;) {
      const size_t found = whole.find(placeholder, at);
      parts.emplace_back(whole.substr(at, found == std::string_view::npos ? found : found - at));
      if (found == std::string_view::npos) break;
      at = found + placeholder.size();
    }
    if (static_cast<size_t>(c.input_count()) + 1 != parts.size())
      c.Invalid("num placeholders in template and num inputs must match: ", parts.size() - 1, " vs. ", c.input_count());
  }
  void Run(RunContext c) const {
    Texts texts(c);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0)
        string::AppendSummary(c.input_view(static_cast<int32_t>(i) - 1), summarize, string::Style::kNested, &texts);
      texts.Append(parts[i]);
    }
    texts.End();
    texts.Give(0, {});
  }
  int64_t summarize;
  std::vector<std::string> parts;  // of the template, between placeholders
};

void Write(std::FILE* to, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

struct Print {
  explicit Print(CreateContext& c)
      : message(c.String("message")),
        left(c.Int("first_n")),
        limited(c.Int("first_n") >= 0),
        summarize(c.Int("summarize")) {}
  void Run(RunContext c) const {
    const KeptTensor input = KeptTensor::OfInput(c, 0);
    const tenon_tensor_view view = input.view();
    Check(c.services().set_output(c.frame(), 0, &view));
    if (limited && left.fetch_sub(1) <= 0) {
      left = 0;
      return;
    }
    Texts texts(c);
    texts.Append(message);
    for (int32_t i = 1; i < c.input_count(); ++i) {
      texts.Append("[");
      string::AppendSummary(c.input_view(i), summarize, string::Style::kFlat, &texts);
      texts.Append("]");
    }
    texts.Append("\n");
    Write(stderr, texts.Begun());
  }
  std::string message;
  mutable std::atomic<int64_t> left;  // that are still printed
  bool limited;
  int64_t summarize;
};

struct PrintV2 {
  explicit PrintV2(CreateContext& c) : stream(c.String("output_stream")), end(c.String("end")) {
    if (stream.starts_with("file://"))
      c.Fail(TENON_UNIMPLEMENTED, "PrintV2 does not write files ('", stream,
             "'): what a graph may write stands among its inputs, where it can be refused. WriteFile writes them; "
             "stderr, stdout and the log are open");
    for (const std::string_view known : {"stderr", "stdout", "log(info)", "log(warning)", "log(error)"})
      if (stream == known) return;
    c.Invalid("Unknown output stream: ", stream,
              ", Valid streams are: stdout, stderr, log(info), log(warning), log(error)");
  }
  void Run(RunContext c) const {
    Texts texts(c);
    texts.Append(StringAt(c.input_view(0), 0));
    if (stream.starts_with("log(")) {  // a line of its own anyway
      const uint32_t level = stream == "log(info)"      ? TENON_LOG_INFO
                             : stream == "log(warning)" ? TENON_LOG_WARNING
                                                        : TENON_LOG_ERROR;
      if (end != "\n") texts.Append(end);
      return tenon_plugin_host->log(level, ToSpan(texts.Begun()));
    }
    texts.Append(end);
    Write(stream == "stdout" ? stdout : stderr, texts.Begun());
  }
  std::string stream, end;
};

void PrintGradient(GradientContext& g) { g.PassOn(0, 0); }
void NothingShape(ShapeContext&) {}

}  // namespace

TENON_KERNEL(kStringFormatKernel) = Registration<Format>("StringFormat", {.dynamic_outputs = 1});
TENON_KERNEL(kPrintKernel) = Registration<Print>("Print", {.flags = TENON_KERNEL_STATEFUL,
                                                           .dynamic_outputs = 1,
                                                           .retained_inputs = 1});
TENON_KERNEL(kPrintV2Kernel) = Registration<PrintV2>("PrintV2", {.flags = TENON_KERNEL_STATEFUL});

TENON_OP(kStringFormat) = DefineOp({
    .name = "StringFormat",
    .inputs = "inputs: T",
    .outputs = "output: string",
    .attrs = "T: list(type); template: string = '%s'; placeholder: string = '%s'; summarize: int = 3",
    .doc = "The template with a tensor where each placeholder stands; of each dim summarize elements from each end, "
           "all where it is negative.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kPrint) = DefineOp({
    .name = "Print",
    .inputs = "input: T, data: U",
    .outputs = "output: T",
    .attrs = "T: type; U: list(type); message: string = ''; first_n: int = -1; summarize: int = 3",
    .doc = "The input; on the way the message and data's first elements go to the standard error, first_n times, or "
           "each time where it is negative.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<PrintGradient>,
});

TENON_OP(kPrintV2) = DefineOp({
    .name = "PrintV2",
    .inputs = "input: string",
    .attrs = "output_stream: string = 'stderr'; end: string = '\n'",
    .constraints = "rank(input) == 0",
    .doc = "Writes a text to the standard error or output (stderr, stdout), or to the log (log(info), log(warning), "
           "log(error)).",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<NothingShape>,
});

}  // namespace tenon::ops

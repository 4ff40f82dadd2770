// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/watch.h"

#include <cstring>

#include "core/exec/device/transfer.h"
#include "core/exec/kernel/frame.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"

namespace tenon::exec {
namespace {

// How many elements are no number, and infinite; the first of either. Types without such elements have none.
struct NotFinite {
  int64_t nans = 0, infinities = 0, first = -1;
};

// Of elements whose exponent has all of `exponent`'s bits: a mantissa says that it is no number.
template <typename Bits>
NotFinite Count(const void* data, int64_t count, Bits exponent, Bits mantissa) {
  NotFinite found;
  const char* at = static_cast<const char*>(data);
  for (int64_t i = 0; i < count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, at + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    if ((bits & exponent) != exponent) continue;
    ++((bits & mantissa) != 0 ? found.nans : found.infinities);
    if (found.first < 0) found.first = i;
  }
  return found;
}

// Of a type whose one NaN is one byte, and which has no infinities.
NotFinite CountByte(const void* data, int64_t count, uint8_t nan) {
  NotFinite found;
  const auto* at = static_cast<const uint8_t*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] != nan) continue;
    if (found.first < 0) found.first = i;
    ++found.nans;
  }
  return found;
}

NotFinite CountNotFinite(DType dtype, const void* data, int64_t count) {
  switch (dtype) {
    case TENON_DT_HALF: return Count<uint16_t>(data, count, 0x7C00, 0x03FF);
    case TENON_DT_BFLOAT16: return Count<uint16_t>(data, count, 0x7F80, 0x007F);
    case TENON_DT_FLOAT: return Count<uint32_t>(data, count, 0x7F800000u, 0x007FFFFFu);
    case TENON_DT_DOUBLE: return Count<uint64_t>(data, count, 0x7FF0000000000000u, 0x000FFFFFFFFFFFFFu);
    case TENON_DT_FLOAT8_E5M2: return Count<uint8_t>(data, count, 0x7C, 0x03);
    case TENON_DT_FLOAT8_E4M3FN: return Count<uint8_t>(data, count, 0x7F, 0x7F);  // which has no infinities
    case TENON_DT_FLOAT8_E4M3FNUZ:
    case TENON_DT_FLOAT8_E4M3B11FNUZ:
    case TENON_DT_FLOAT8_E5M2FNUZ: return CountByte(data, count, 0x80);
    case TENON_DT_FLOAT8_E8M0FNU: return CountByte(data, count, 0xFF);
    case TENON_DT_COMPLEX64:
    case TENON_DT_COMPLEX128: {
      NotFinite parts = dtype == TENON_DT_COMPLEX64 ? CountNotFinite(TENON_DT_FLOAT, data, 2 * count)
                                                    : CountNotFinite(TENON_DT_DOUBLE, data, 2 * count);
      if (parts.first >= 0) parts.first /= 2;
      return parts;
    }
    default: return {};
  }
}

std::string DescribeFound(const NotFinite& found) {
  std::string text;
  if (found.nans > 0) text += StrCat(found.nans, " NaN");
  if (found.infinities > 0)
    text += StrCat(text.empty() ? "" : " and ", found.infinities, found.infinities == 1 ? " infinity" : " infinities");
  return text;
}

// "[1,0]", of the element at that place.
std::string IndexOf(int64_t at, const Shape& shape) {
  std::string text;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    text = StrCat(at % shape.dim(i), text.empty() ? "" : ",", text);
    at /= shape.dim(i);
  }
  return StrCat("[", text, "]");
}

NotFinite In(const tenon_tensor_view& view) { return CountNotFinite(view.dtype, DataOf(view), NumElements(view)); }

// What came in, as far as it is in the host's memory.
std::string DescribeInputs(const tenon_frame& frame) {
  std::string text;
  for (int32_t i = 0; i < frame.input_count; ++i) {
    const tenon_tensor_view& view = *frame.inputs[i];
    if (IsRef(view.dtype) || !IsPlain(view.dtype) || !OnHost(view) || (view.dl.data == nullptr && view.byte_size > 0))
      continue;
    const NotFinite found = In(view);
    if (found.first >= 0)
      text += StrCat(text.empty() ? "" : "; ", "input ", i, " has ", DescribeFound(found), " already");
  }
  return text.empty() ? "; no input in the host's memory has any" : StrCat("; ", text);
}

Status CheckNumbers(const tenon_frame& frame, int32_t output, const tenon_tensor_view& value) {
  const NotFinite found = In(value);
  if (found.first < 0) return Status::Ok();
  return InvalidArgument(StrCat(frame.context->node->Describe(), " made ", DescribeFound(found), ": output ", output,
                                ", ", TypeName(value.dtype), ShapeOf(value).ToString(), ", the first at ",
                                IndexOf(found.first, ShapeOf(value)), DescribeInputs(frame)));
}

// The value in the host's memory; `copy` keeps it there.
Result<tenon_tensor_view> ShowOnHost(const tenon_frame& frame, int32_t output, Tensor* copy) {
  const tenon_frame_context& context = *frame.context;
  const tenon_tensor_view& value = *frame.outputs[output];
  if (context.place.host_output(static_cast<size_t>(output))) return value;
  QueueWork& work = *context.place.work;
  const Environment& env = *context.step->env;
  TENON_ASSIGN_OR_RETURN(const tenon_tensor_view target, NewCopyTarget(env, value, 0));
  *copy = Tensor(target.dtype, ShapeOf(target), target.buffer);
  tenon_timeline_point done{};
  TENON_RETURN_IF_ERROR(
      work.Copy(context.place.queue,
                CopyArgs(env, DataOf(value), context.place.device->memory, DataOf(target), 0, value.byte_size), {},
                context.node->name, &done));
  if (Status waited = work.HostWait(done); !waited.ok()) {
    Retain(target.buffer);  // the device may write there still
    work.Hold(target.buffer);
    return waited;
  }
  return copy->view();
}

}  // namespace

Status LookAtOutputs(tenon_frame* frame) {
  const tenon_frame_context& context = *frame->context;
  const Step& step = *context.step;
  for (int32_t k = 0; k < frame->output_count; ++k) {
    const tenon_tensor_view& made = *frame->outputs[k];
    const bool shown =
        !IsRef(made.dtype) && (IsPlain(made.dtype) || (made.dtype == TENON_DT_STRING && step.watcher != nullptr));
    if (!shown || (made.dl.data == nullptr && made.byte_size > 0)) continue;  // what was not set is refused later
    Tensor copy;
    const auto look = [&]() -> Status {
      TENON_RETURN_IF_ERROR(CheckCells(context, static_cast<size_t>(k), made));
      TENON_ASSIGN_OR_RETURN(const tenon_tensor_view value, ShowOnHost(*frame, k, &copy));
      if (step.env->check_numerics) TENON_RETURN_IF_ERROR(CheckNumbers(*frame, k, value));
      return step.watcher == nullptr
                 ? Status::Ok()
                 : step.watcher->Look(*context.node, k, value).Annotate("who watches ", context.node->Describe());
    };
    TENON_RETURN_IF_ERROR(look());
  }
  return Status::Ok();
}

}  // namespace tenon::exec

// SPDX-License-Identifier: Apache-2.0
// The learning rates of train.h.
#include "tenon/train/learning_rate.h"

#include "sdk/app/model_c/building.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

float Or(float given, float otherwise) { return given == 0 ? otherwise : given; }

Result<train::LearningRate> ReadKind(const tenon_rate_spec& spec) {
  const bool stairs = spec.staircase != 0;
  switch (spec.kind) {
    case TENON_RATE_CONSTANT: return train::ConstantRate(spec.rate);
    case TENON_RATE_EXPONENTIAL: return train::ExponentialDecay(spec.rate, spec.steps, spec.decay_rate, stairs);
    case TENON_RATE_NATURAL_EXP: return train::NaturalExpDecay(spec.rate, spec.steps, spec.decay_rate, stairs);
    case TENON_RATE_INVERSE_TIME: return train::InverseTimeDecay(spec.rate, spec.steps, spec.decay_rate, stairs);
    case TENON_RATE_POLYNOMIAL:
      return train::PolynomialDecay(spec.rate, spec.steps, spec.end, Or(spec.power, 1), spec.cycle != 0);
    case TENON_RATE_COSINE: return train::CosineDecay(spec.rate, spec.steps, spec.alpha);
    case TENON_RATE_COSINE_RESTARTS:
      return train::CosineRestarts(spec.rate, spec.steps, Or(spec.t_mul, 2), Or(spec.m_mul, 1), spec.alpha);
    case TENON_RATE_PIECEWISE: {
      TENON_CHECK(spec.values);
      const std::vector<int64_t> boundaries(spec.boundaries, spec.boundaries + spec.boundary_count);
      return train::PiecewiseConstant(boundaries,
                                      std::vector<float>(spec.values, spec.values + spec.boundary_count + 1));
    }
    default:
      return Status(Code::kInvalidArgument, "'kind' is " + std::to_string(spec.kind) + "; give one of TENON_RATE_*");
  }
}

Result<train::LearningRate> ReadRate(const tenon_rate_spec* given) {
  tenon_rate_spec spec;
  TENON_TRY(ReadStruct(given, true, "spec", &spec));
  TENON_TRY_ASSIGN(train::LearningRate rate, ReadKind(spec));
  return spec.warm_up_steps == 0 ? rate : train::WarmUp(spec.warm_up_steps, std::move(rate), spec.warm_up_from);
}

}  // namespace

extern "C" tenon_status* tenon_learning_rate(tenon_app_graph* graph, const tenon_rate_spec* spec, tenon_output step,
                                             tenon_output* out_rate) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(out_rate);
    TENON_TRY_ASSIGN(const train::LearningRate rate, ReadRate(spec));
    TENON_TRY_ASSIGN(const Output of, ReadEdge(graph, step, "step"));
    const Output made = rate(lent, of);
    TENON_TRY(lent.status());
    *out_rate = made.c_output();
    return Status();
  });
}

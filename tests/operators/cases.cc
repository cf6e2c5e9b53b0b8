#include "tests/operators/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/ops/operator_list.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/tensor/random.h"
#include "tests/operators/case_list.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSpecialValues[] = {
    0.0,        -0.0, 1.0,  -1.0,  kInfinity, 0.5,  std::numeric_limits<double>::quiet_NaN(),
    -kInfinity, 20.0, -3.0, -90.0, 90.0,      1e-20};

// Returns values that are 0.1 apart, in shuffled order; the values of other inputs are between
// them.
double DistinctValue(int64_t i, int64_t count, int input) {
  int64_t step = 7919;
  while (std::gcd(step, count) != 1) ++step;
  const int64_t place = i * step % count;
  const int64_t half = count / 2;
  return static_cast<double>(place - half) * 0.1 + 0.03 * input;
}

double DrawElement(const CaseInput& spec, RandomStream stream, int input, int64_t i) {
  const int64_t count = NumElements(spec.type.shape);
  const double uniform = RandomUniform(stream, 0, i);
  const double low = spec.draw.low, high = spec.draw.high;
  switch (spec.draw.kind) {
    case Draw::Kind::kNormal:
      return low + high * RandomNormal(stream, 0, i);
    case Draw::Kind::kUniform:
      return low + (high - low) * uniform;
    case Draw::Kind::kAwayFromZero:
      return uniform < 0.5 ? -(0.2 + 3.6 * uniform) : 0.2 + 3.6 * (uniform - 0.5);
    case Draw::Kind::kDistinct:
      return DistinctValue(i, count, input);
    case Draw::Kind::kInteger:
      return std::floor(low + (high - low) * uniform);
    case Draw::Kind::kLabels:
      return i % 3 == 2 ? -100 : std::floor(low + (high - low) * uniform);
    case Draw::Kind::kSomeNaN:
      return i % 23 == 9 ? kNaN : low + high * RandomNormal(stream, 0, i);
    case Draw::Kind::kSpecial:
      return kSpecialValues[(i + 5 * input) % std::size(kSpecialValues)];
  }
  return 0;
}

// `prepared` is the dtype of the prepared input.
std::vector<double> DrawInput(const Case& use, int input, DType prepared) {
  const CaseInput& spec = use.inputs[input];
  const RandomStream stream = MakeStream(1, absl::StrCat(use.name, " input ", input));
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(spec.type.shape); ++i) {
    // Every backend gets the same values, in f32 and in f64.
    const DType dtype = prepared == DType::kF64 ? DType::kF32 : prepared;
    values.push_back(Rounded(DrawElement(spec, stream, input, i), dtype));
  }
  return values;
}

absl::Status Derive(const DerivedInputs& derived, Backend& reference, PreparedCase& prepared) {
  const Operator* op = FindOperator(derived.op);
  std::vector<TensorType> types;
  std::vector<Array> inputs;
  const std::vector<Array> all = InputArrays(prepared, reference);
  for (int i : derived.from) {
    types.push_back(prepared.inputs[i]);
    inputs.push_back(all[i]);
  }
  ASSIGN_OR_RETURN(std::vector<TensorType> output_types, op->InferTypes(types, derived.attributes));
  ASSIGN_OR_RETURN(std::vector<Array> outputs,
                   RunOperator(reference, *op, derived.attributes, inputs, output_types));
  for (size_t i = 0; i < derived.to.size(); ++i) {
    std::vector<double>& values = prepared.values[derived.to[i]];
    values = Values(outputs[derived.outputs[i]]);
    const DType dtype = prepared.inputs[derived.to[i]].dtype;
    for (double& value : values) {
      value = Rounded(value, dtype == DType::kF64 ? DType::kF32 : dtype);
    }
  }
  return absl::OkStatus();
}

Attributes WithFloats(const Attributes& attributes, DType floats) {
  Attributes result = attributes;
  for (const auto& [name, value] : attributes.entries()) {
    const auto* dtype = std::get_if<DType>(&value);
    if (dtype != nullptr && *dtype == DType::kF32) result.Set(name, floats);
  }
  return result;
}

}  // namespace

CaseInput Normal(const Shape& shape, double mean, double stddev) {
  return {{DType::kF32, shape}, {Draw::Kind::kNormal, mean, stddev}};
}
CaseInput Uniform(const Shape& shape, double low, double high) {
  return {{DType::kF32, shape}, {Draw::Kind::kUniform, low, high}};
}
CaseInput AwayFromZero(const Shape& shape) {
  return {{DType::kF32, shape}, {Draw::Kind::kAwayFromZero}};
}
CaseInput Distinct(const Shape& shape) { return {{DType::kF32, shape}, {Draw::Kind::kDistinct}}; }
CaseInput SomeNaN(const Shape& shape) { return {{DType::kF32, shape}, {Draw::Kind::kSomeNaN}}; }
CaseInput Special(const Shape& shape) { return {{DType::kF32, shape}, {Draw::Kind::kSpecial}}; }
CaseInput Integers(DType dtype, const Shape& shape, double low, double high) {
  return {{dtype, shape}, {Draw::Kind::kInteger, low, high}};
}
CaseInput Ids(const Shape& shape, int64_t count) {
  return Integers(DType::kI32, shape, 0, static_cast<double>(count));
}
CaseInput Labels(const Shape& shape, int64_t count) {
  return {{DType::kI32, shape}, {Draw::Kind::kLabels, 0, static_cast<double>(count)}};
}
CaseInput Conditions(const Shape& shape) { return Integers(DType::kU8, shape, 0, 3); }
CaseInput Scalar(double value) { return Uniform({}, value, value); }
CaseInput Scalar(DType dtype, int64_t value) {
  return Integers(dtype, {}, static_cast<double>(value), static_cast<double>(value));
}

Case MakeCase(std::string op, absl::string_view detail, std::vector<CaseInput> inputs,
              Attributes attributes) {
  Case use;
  use.name = absl::StrCat(op, attributes.ToString());
  for (const CaseInput& input : inputs) absl::StrAppend(&use.name, " ", TypeToString(input.type));
  if (!detail.empty()) absl::StrAppend(&use.name, " (", detail, ")");
  for (const CaseInput& input : inputs) {
    const Draw::Kind kind = input.draw.kind;
    if (kind == Draw::Kind::kSpecial || kind == Draw::Kind::kSomeNaN) {
      use.finite = use.smooth = false;
    }
  }
  use.op = std::move(op);
  use.inputs = std::move(inputs);
  use.attributes = std::move(attributes);
  return use;
}

Case MakeCase(std::string op, std::vector<CaseInput> inputs, Attributes attributes) {
  return MakeCase(std::move(op), "", std::move(inputs), std::move(attributes));
}

Case SpecialCase(std::string op, std::vector<CaseInput> inputs, Attributes attributes) {
  return MakeCase(std::move(op), "special values", std::move(inputs), std::move(attributes));
}

const std::vector<Case>& AllCases() {
  static const auto* const cases = [] {
    auto* all = new std::vector<Case>();
    for (const auto& section :
         {ElementwiseCases(), ViewCases(), MatMulCases(), PictureCases(), RowCases(),
          BatchNormCases(), AttentionCases(), LinearLogSumExpCases(), DrawCases(), UpdateCases()}) {
      all->insert(all->end(), section.begin(), section.end());
    }
    return all;
  }();
  return *cases;
}

std::vector<Case> CasesOf(absl::string_view op) {
  std::vector<Case> cases;
  for (const Case& use : AllCases()) {
    if (op == use.op) cases.push_back(use);
  }
  return cases;
}

int64_t PreparedCase::elements() const {
  int64_t largest = 0;
  for (const auto* types : {&inputs, &outputs}) {
    for (const TensorType& type : *types) largest = std::max(largest, NumElements(type.shape));
  }
  return largest;
}

absl::StatusOr<PreparedCase> Prepare(const Case& use, Backend& reference, DType floats) {
  PreparedCase prepared;
  prepared.op = FindOperator(use.op);
  TESSERA_CHECK(prepared.op != nullptr) << use.op;
  prepared.attributes = WithFloats(use.attributes, floats);
  prepared.regions = use.regions;
  for (size_t i = 0; i < use.inputs.size(); ++i) {
    const int input = static_cast<int>(i);
    prepared.inputs.push_back(use.inputs[i].type);
    DType& dtype = prepared.inputs[i].dtype;
    if (dtype == DType::kF32) {
      dtype = prepared.op->IsStatistic(input) ? StatisticDType(floats) : floats;
    }
    prepared.values.push_back(DrawInput(use, input, dtype));
  }
  ASSIGN_OR_RETURN(prepared.outputs, prepared.op->InferTypes(prepared.inputs, prepared.attributes));
  for (const DerivedInputs& derived : use.derived) {
    RETURN_IF_ERROR(Derive(derived, reference, prepared));
  }
  return prepared;
}

std::vector<Array> InputArrays(const PreparedCase& prepared, const Backend& backend) {
  std::vector<Array> arrays;
  const std::vector<TensorType> types = Realized(backend, prepared.inputs);
  for (size_t i = 0; i < types.size(); ++i) {
    arrays.push_back(MakeArray(types[i], prepared.values[i]));
  }
  return arrays;
}

}  // namespace tessera::operator_tests

// The uses of operators that all tests of this folder run: for every operator odd shapes, sizes 1
// and 0, every pattern of broadcasting, every attribute.
#ifndef TESSERA_TESTS_OPERATORS_CASES_H_
#define TESSERA_TESTS_OPERATORS_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/operator.h"
#include "core/kernels/interface/backend.h"
#include "tests/operators/array.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {

// How the elements of an input are drawn. Each draw is a function of the case's name, the input's
// index and the element's.
struct Draw {
  enum class Kind {
    kNormal,        // mean `low`, standard deviation `high`
    kUniform,       // in [low, high)
    kAwayFromZero,  // in (-2, -0.2] or [0.2, 2)
    kDistinct,      // no two within 0.02 of each other, whichever input of the case they are in
    kInteger,       // in [low, high)
    kLabels,        // kInteger, except that every third is -100
    kSpecial,       // zeros, infinities, NaN, ...
    kSomeNaN,       // kNormal, except for a few
  };
  Kind kind = Kind::kNormal;
  double low = 0;
  double high = 1;
};

struct CaseInput {
  TensorType type;
  Draw draw;
};

// Inputs that another operator computes from earlier inputs, such as a gradient operator's
// statistics.
struct DerivedInputs {
  std::string op;
  Attributes attributes;
  std::vector<int> from;     // inputs of the case
  std::vector<int> outputs;  // of `op`
  std::vector<int> to;       // the inputs of the case that these outputs become
};

// One use of an operator. Floating inputs are f32 unless the case is about dtypes.
struct Case {
  std::string op;
  std::string name;  // "add f32[3, 5] f32[5]"; unique
  std::vector<CaseInput> inputs;
  Attributes attributes;
  std::vector<DerivedInputs> derived;
  // Set if operands are shards of global tensors. A Graph cannot record them, so such a case is
  // only for kernels.
  CallRegions regions;

  // The outputs whose gradient is defined; empty: all.
  std::vector<int> differentiable_outputs;
  // False if numeric differences are meaningless, because values are equal or not finite.
  bool smooth = true;
  // False if inputs hold NaN or infinities.
  bool finite = true;
  // A factor on the tolerance, for results of cancellation between much larger inputs.
  double condition = 1;
};

// Every case, in the order of the list of operators.
const std::vector<Case>& AllCases();
std::vector<Case> CasesOf(absl::string_view op);

// A case with types and input values.
struct PreparedCase {
  const Operator* op = nullptr;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  Attributes attributes;
  CallRegions regions;
  // Row-major. The inputs' dtypes represent all floating values exactly.
  std::vector<std::vector<double>> values;

  OpTypes types() const { return {inputs, outputs, attributes}; }
  int64_t elements() const;  // of the largest input or output
};

// Infers types and draws inputs; `reference` computes derived inputs. `floats` replaces f32 in
// inputs and attributes, except for statistics, which never have 16 bits.
absl::StatusOr<PreparedCase> Prepare(const Case& use, Backend& reference,
                                     DType floats = DType::kF32);

// Returns the inputs as arrays of the types that `backend` uses.
std::vector<Array> InputArrays(const PreparedCase& prepared, const Backend& backend);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_CASES_H_

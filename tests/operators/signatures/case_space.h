// The uses of operators by which their layout signatures are decided: few and small ones, each at
// sizes that divide the ranks, that do not, and that leave some ranks without a part.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_CASE_SPACE_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_CASE_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/operators/cases.h"

namespace tessera::operator_tests {

// A use at one of its sizes.
struct SizedCase {
  std::string sizes;  // "R=5 C=7"
  Case use;
  std::vector<int64_t> units;  // the elements of each unit of the family
};

// One use of an operator at several sizes. The operator declares the same signatures at each of
// them, up to the elements of a unit.
struct CaseFamily {
  std::string op;
  // The dimensions of the inputs, and what else matters: "[R, C], [C]".
  std::string shapes;
  // The letters of the dimensions of each input: "RC". 1 is a dimension of one element.
  std::vector<std::string> dims;
  // The units of splits, besides 1, that the operator may name: products of letters, like "T*C".
  std::vector<std::string> units;
  std::vector<SizedCase> cases;
};

// All families. Those of one operator are next to each other.
const std::vector<CaseFamily>& CaseSpace();
std::vector<CaseFamily> FamiliesOf(absl::string_view op);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_CASE_SPACE_H_

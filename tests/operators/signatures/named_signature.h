// Layouts and signatures of a family of cases, whose units have names: at each size of the family
// they are others.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_NAMED_SIGNATURE_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_NAMED_SIGNATURE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/layout/layout.h"
#include "tests/operators/signatures/case_space.h"

namespace tessera::operator_tests {

// A layout whose unit may be one that a family names.
struct NamedLayout {
  AxisLayout layout;      // in units of 1
  int unit = kUnitOfOne;  // index into the units of the family

  static constexpr int kUnitOfOne = -1;

  AxisLayout At(const SizedCase& size) const;
  std::string ToString(const CaseFamily& family) const;  // "S(0, T)"

  friend bool operator==(const NamedLayout& a, const NamedLayout& b) {
    return a.layout == b.layout && a.unit == b.unit;
  }
};

struct NamedSignature {
  std::vector<NamedLayout> inputs, outputs;

  Signature At(const SizedCase& size) const;
  std::string ToString(const CaseFamily& family) const;

  friend bool operator==(const NamedSignature& a, const NamedSignature& b) {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  }
};

// Returns whether ranks that compute by `declared`, with its units multiplied by some number, need
// no more than the inputs of `wanted`, and can make its outputs from theirs.
bool Implies(const Signature& declared, const Signature& wanted);

// Splits "S(0, T), B" into "S(0, T)" and "B".
std::vector<std::string> LayoutTexts(absl::string_view text);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_NAMED_SIGNATURE_H_

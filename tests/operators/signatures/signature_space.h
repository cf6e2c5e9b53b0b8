// Decides by trying which layout signatures of an operator are right.
//
// Every combination of input layouts along one axis is distributed over 2 and over 3 ranks at every
// size of a family of cases, with partial values that are drawn twice; the reference kernel runs on
// each rank; and each layout of an output is right if the ranks then hold the true output in it.
// Layouts are B, S(d) in units of 1 and in those that the family names, and P of each reduction.
//
// A right signature is missing if it is not declared, and if no declared one makes its outputs from
// its inputs: no rank could compute so much, or hold so little, without communication. What a rank
// converts by itself is not missing: it takes its split of an input that is B, makes inputs that
// are B or split partial, and outputs, too, by setting what it lacks to the identity. But it does
// not take its split of an output that is B: then it has computed more than it needs.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_SPACE_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_SPACE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/graph/operator.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "tests/operators/signatures/case_space.h"
#include "tests/operators/signatures/named_signature.h"

namespace tessera::operator_tests {

struct DecidedSignatures {
  std::vector<NamedSignature> declared;  // at every size, without those in parts
  std::vector<NamedSignature> in_parts;  // ranks communicate in them, so they are not tried
  std::vector<NamedSignature> missing;
  std::vector<std::string> wrong;  // what is wrong with each declared one that is
  int64_t combinations = 0;        // of input layouts that the shape rule takes
};

// Returns the signatures that an operator declares.
using Declared = std::function<std::vector<Signature>(const OpTypes& types)>;

// Decides the signatures of a family; `declared` replaces those of the operator.
DecidedSignatures DecideSignatures(const CaseFamily& family, Backend& reference);
DecidedSignatures DecideSignatures(const CaseFamily& family, Backend& reference,
                                   const Declared& declared);

// Returns the right signatures with the input layouts of a text like "S(1), B".
std::vector<NamedSignature> RightSignaturesWith(const CaseFamily& family, Backend& reference,
                                                absl::string_view inputs);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_SPACE_H_

// The one list of what operators do not declare, with reasons: signatures that are right but
// missing, and layouts of inputs that people ask for, of which no output can be computed.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_KNOWN_SIGNATURES_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_KNOWN_SIGNATURES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera::operator_tests {

// Why a right signature is not declared.
struct Reason {
  std::string name;  // "gradient"
  std::string text;
};

struct KnownMissing {
  std::vector<std::string> ops;
  std::vector<std::string> signatures;
  const Reason* reason;
};

// Input layouts with which no output of a use is right.
struct NeedsCommunication {
  std::string op;
  std::string shapes;  // of the family
  std::string inputs;  // "S(1), B, B"
  std::string reason;
};

const std::vector<const Reason*>& AllReasons();
const std::vector<KnownMissing>& AllKnownMissing();
const std::vector<NeedsCommunication>& AllNeedingCommunication();

// Returns the reason why a signature of an operator is not declared; null if there is none.
const Reason* ReasonOfMissing(absl::string_view op, absl::string_view signature);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_KNOWN_SIGNATURES_H_

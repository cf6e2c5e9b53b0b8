// Signatures of operators as the host describes them: "S(0), B -> S(0)", the layouts of inputs and
// outputs along one axis of a mesh.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_API_SIGNATURE_H_
#define TESSERA_STRATEGIES_API_SIGNATURE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera::strategy {

// The layouts in the order of the operator's inputs and outputs: "B", "S(2)", "S(0, 128)", "P".
// "B" alone is B for all of them, and has no outputs here.
struct Signature {
  std::string text;
  std::vector<std::string> inputs, outputs;
};

Signature ParseSignature(absl::string_view text);

// Returns the dimension along which a layout splits: 0 for "S(0, 128)"; -1 if it does not.
int SplitDimension(absl::string_view layout);
// Returns whether it is a partial value: "P", or "P" with how it is combined, as in "P(lse)".
bool IsPartial(absl::string_view layout);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_SIGNATURE_H_

// Finds signatures with the layouts that are expected of an op's inputs and outputs.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_EXPECTED_LAYOUTS_H_
#define TESSERA_CORE_PLAN_LAYOUTS_EXPECTED_LAYOUTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/layout/signature_fit.h"

namespace tessera {

// The layouts that are expected at one input or output.
struct Expected {
  enum class Kind : uint8_t { kAnything, kExactly, kBroadcastOrSum };
  Kind kind = Kind::kAnything;
  AxisLayout layout;  // of kExactly

  static Expected Anything() { return {}; }
  static Expected Exactly(const AxisLayout& layout) { return {Kind::kExactly, layout}; }
  // Returns the layouts expected of the gradient of a value with this layout.
  static Expected DualOf(const AxisLayout& layout);
};

struct ExpectedLayouts {
  explicit ExpectedLayouts(const Op& op) : inputs(op.inputs.size()), outputs(op.outputs.size()) {}
  std::vector<Expected> inputs, outputs;
};

// Returns the layouts expected of `op`, which the gradient rule of `forward` recorded, if `forward`
// is computed by `signature`.
ExpectedLayouts ExpectDual(const Graph& graph, const Op& op, const Op& forward,
                           const Signature& signature);

// Returns the signature (B everywhere counts as one) with the expected layouts and their units. If
// there are several, the one for which the fewest inputs are redistributed, then the first; B comes
// last. Nullopt if there is none.
std::optional<Signature> BestExpected(const FittedUse& use, const ExpectedLayouts& expected,
                                      absl::Span<const Arriving> arriving, const SplitAxis& axis);

// Returns the layout of all outputs of an op that is computed on a range of the elements of
// `input`. For an elementwise op this is B: outputs have elements of the same range. For an op that
// reduces its input it is P. Nullopt for any other op. An op without inputs is computed on ranges
// of its outputs.
std::optional<AxisLayout> OutputOnRange(const FittedUse& use, size_t input);

// Returns whether `signature` is `named` with all units multiplied by the same number.
bool IsMultipleOf(const Signature& signature, const Signature& named);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_EXPECTED_LAYOUTS_H_

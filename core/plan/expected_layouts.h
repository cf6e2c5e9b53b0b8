// Signatures that match the layouts which are expected of an op's inputs and outputs.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PLAN_EXPECTED_LAYOUTS_H_
#define TESSERA_CORE_PLAN_EXPECTED_LAYOUTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/layout/signature_fit.h"

namespace tessera {

// A layout that a signature may have at one input or output.
struct Expected {
  enum class Kind : uint8_t { kAnything, kExactly, kBroadcastOrSum };
  Kind kind = Kind::kAnything;
  AxisLayout layout;  // of kExactly

  static Expected Anything() { return {}; }
  static Expected Exactly(const AxisLayout& layout) { return {Kind::kExactly, layout}; }
  // The layout of the gradient of a value with this layout.
  static Expected DualOf(const AxisLayout& layout);
};

struct ExpectedLayouts {
  explicit ExpectedLayouts(const Op& op) : inputs(op.inputs.size()), outputs(op.outputs.size()) {}
  std::vector<Expected> inputs, outputs;
};

// The signature expected of `op`, of the gradient rule of `forward`, which is computed by
// `signature`.
ExpectedLayouts ExpectDual(const Graph& graph, const Op& op, const Op& forward,
                           const Signature& signature);

// The signature (B everywhere is one) that has the expected layouts, with their units: the one
// which needs the fewest inputs moved, then the first, B last. Nothing if there is none.
std::optional<Signature> BestExpected(const FittedUse& use, const ExpectedLayouts& expected,
                                      absl::Span<const Arriving> arriving, const SplitAxis& axis);

// The layout of all outputs of an op that is computed on any range of the elements of `input`: B,
// for elements of the same range, if it is elementwise; P, if it reduces its input; nothing if it
// is neither. An op without inputs is computed on ranges of its outputs.
std::optional<AxisLayout> OutputOnRange(const FittedUse& use, size_t input);

// Whether `signature` is `named` with all units multiplied by one number.
bool IsMultipleOf(const Signature& signature, const Signature& named);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_EXPECTED_LAYOUTS_H_

#include "core/plan/layouts/expected_layouts.h"

#include <utility>

#include "absl/algorithm/container.h"

namespace tessera {
namespace {

// Returns whether layouts that a signature names, with units multiplied by `factor`, are the
// expected ones. A factor of 0 is open: it is set to the one that the first expected split needs.
bool MeetsExpectations(absl::Span<const AxisLayout> named, absl::Span<const Expected> expected,
                       int64_t& factor) {
  for (size_t i = 0; i < named.size(); ++i) {
    switch (expected[i].kind) {
      case Expected::Kind::kAnything:
        break;
      case Expected::Kind::kExactly:
        if (!MatchesWithUnitFactor(named[i], expected[i].layout, factor)) return false;
        break;
      case Expected::Kind::kBroadcastOrSum:
        if (!named[i].broadcast() && named[i] != AxisLayout::Partial()) return false;
        break;
    }
  }
  return true;
}

// Returns how few changes the inputs need: the sum of 2 for each input that arrives in the wanted
// layout and 1 for each that is sliced.
int Closeness(const Signature& signature, absl::Span<const Arriving> arriving) {
  int closeness = 0;
  for (size_t i = 0; i < arriving.size(); ++i) {
    if (!arriving[i].has_value()) continue;
    if (*arriving[i] == signature.inputs[i]) {
      closeness += 2;
    } else if (arriving[i]->broadcast() && signature.inputs[i].split()) {
      closeness += 1;
    }
  }
  return closeness;
}

// Returns the unit in which the first split input arrives, divided by the unit that the signature
// names.
int64_t ArrivingFactor(const Signature& signature, absl::Span<const Arriving> arriving) {
  for (size_t i = 0; i < arriving.size(); ++i) {
    int64_t factor = 0;
    if (arriving[i].has_value() && arriving[i]->split() &&
        MatchesWithUnitFactor(signature.inputs[i], *arriving[i], factor)) {
      return factor;
    }
  }
  return 1;
}

}  // namespace

Expected Expected::DualOf(const AxisLayout& layout) {
  if (layout.split()) return Exactly(layout);
  if (layout.partial()) return Exactly(AxisLayout::Broadcast());
  return {Kind::kBroadcastOrSum, {}};
}

ExpectedLayouts ExpectDual(const Graph& graph, const Op& op, const Op& forward,
                           const Signature& signature) {
  ExpectedLayouts expected(op);
  // Returns the position of `value` in `values`, or -1.
  const auto find = [](const std::vector<ValueId>& values, ValueId value) {
    const auto it = absl::c_find(values, value);
    return it == values.end() || value == kNone ? -1 : static_cast<int>(it - values.begin());
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId value = op.inputs[i];
    if (const int j = find(forward.inputs, value); j >= 0) {
      expected.inputs[i] = Expected::Exactly(signature.inputs[j]);
    } else if (const int j = find(forward.outputs, value); j >= 0) {
      const bool partial = signature.outputs[j].partial();
      expected.inputs[i] =
          Expected::Exactly(partial ? AxisLayout::Broadcast() : signature.outputs[j]);
    } else if (const int j = find(forward.outputs, graph.value(value).gradient_of); j >= 0) {
      expected.inputs[i] = Expected::DualOf(signature.outputs[j]);
    }
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const int j = find(forward.inputs, graph.value(op.outputs[i]).gradient_of);
    if (j >= 0) expected.outputs[i] = Expected::DualOf(signature.inputs[j]);
  }
  return expected;
}

std::optional<Signature> BestExpected(const FittedUse& use, const ExpectedLayouts& expected,
                                      absl::Span<const Arriving> arriving, const SplitAxis& axis) {
  Signature broadcast;
  broadcast.inputs.resize(use.inputs.size());
  broadcast.outputs.resize(use.outputs.size());
  std::optional<Signature> best;
  int closest = -1;
  const auto consider = [&](const Signature& signature) {
    int64_t factor = 0;
    if (!MeetsExpectations(signature.inputs, expected.inputs, factor)) return;
    if (!MeetsExpectations(signature.outputs, expected.outputs, factor)) return;
    if (factor == 0) factor = ArrivingFactor(signature, arriving);
    Signature scaled = WithUnits(signature, factor);
    const int closeness = Closeness(scaled, arriving);
    if (closeness <= closest) return;
    closest = closeness;
    best = std::move(scaled);
  };
  for (const Signature& signature : use.signatures) consider(signature);
  consider(broadcast);
  return best;
}

std::optional<AxisLayout> OutputOnRange(const FittedUse& use, size_t input) {
  const Shape& shape = use.inputs.empty() ? use.outputs[0].shape : use.inputs[input].shape;
  std::optional<AxisLayout> output = AxisLayout::Broadcast();
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    std::optional<AxisLayout> made;
    for (const Signature& signature : use.signatures) {
      const AxisLayout split = AxisLayout::Split(d);
      if (!use.inputs.empty() && signature.inputs[input] != split) continue;
      const AxisLayout& first = signature.outputs[0];
      const bool same = absl::c_all_of(signature.outputs,
                                       [&](const AxisLayout& layout) { return layout == first; });
      if (!same || !(first == split || first.partial())) continue;
      if (first == split && use.outputs[0].shape != shape) continue;
      made = first.partial() ? first : AxisLayout::Broadcast();
      break;
    }
    if (!made.has_value() || (d > 0 && *made != *output)) return std::nullopt;
    output = made;
  }
  return output;
}

bool IsMultipleOf(const Signature& signature, const Signature& named) {
  if (signature.inputs.size() != named.inputs.size()) return false;
  if (signature.outputs.size() != named.outputs.size()) return false;
  int64_t factor = 0;
  for (size_t i = 0; i < named.inputs.size(); ++i) {
    if (!MatchesWithUnitFactor(named.inputs[i], signature.inputs[i], factor)) return false;
  }
  for (size_t i = 0; i < named.outputs.size(); ++i) {
    if (!MatchesWithUnitFactor(named.outputs[i], signature.outputs[i], factor)) return false;
  }
  return true;
}

}  // namespace tessera

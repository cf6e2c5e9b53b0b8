#include "core/layout/signature_fit.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/ids/id.h"
#include "core/layout/mesh_layout.h"

namespace tessera {
namespace {

// Returns whether the axis may split a tensor as `layout` says: in equal parts if they must be
// equal.
bool Fits(const AxisLayout& layout, const TensorType& type, const SplitAxis& axis) {
  return !layout.split() || !axis.even || type.shape[layout.dim] % (axis.parts * layout.unit) == 0;
}

bool Fits(absl::Span<const AxisLayout> layouts, absl::Span<const TensorType> types,
          const SplitAxis& axis) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!Fits(layouts[i], types[i], axis)) return false;
  }
  return true;
}

// Returns `signature` with units multiplied by `factor` (0 means 1); nullopt if the parts must be
// equal and would not be.
std::optional<Signature> WithUnitsIfEven(Signature signature, int64_t factor, const FittedUse& use,
                                         const SplitAxis& axis) {
  signature = WithUnits(std::move(signature), std::max<int64_t>(factor, 1));
  if (!Fits(signature.inputs, use.inputs, axis)) return std::nullopt;
  if (!Fits(signature.outputs, use.outputs, axis)) return std::nullopt;
  return signature;
}

// Returns whether each part has the same elements by both layouts, which split one dimension.
bool SplitAlike(const AxisLayout& a, const AxisLayout& b, const TensorType& type,
                const SplitAxis& axis) {
  if (axis.even) return Fits(a, type, axis) && Fits(b, type, axis);
  const int64_t extent = type.shape[a.dim];
  const auto parts = static_cast<int>(axis.parts);
  return PartExtent(extent, a.unit, parts) == PartExtent(extent, b.unit, parts);
}

// Returns `signature` with the arriving units; nullopt if it does not accept the arriving layouts.
std::optional<Signature> FitToArriving(const Signature& signature, const FittedUse& use,
                                       absl::Span<const Arriving> arriving, const SplitAxis& axis) {
  int64_t factor = 0;
  std::vector<size_t> of_other_units;  // inputs
  for (size_t i = 0; i < arriving.size(); ++i) {
    const AxisLayout& named = signature.inputs[i];
    if (!arriving[i].has_value()) continue;
    if (arriving[i]->broadcast()) {
      if (named.partial()) return std::nullopt;
    } else if (arriving[i]->partial()) {
      if (named != *arriving[i]) return std::nullopt;
    } else if (!MatchesWithUnitFactor(named, *arriving[i], factor)) {
      if (!named.split() || named.dim != arriving[i]->dim) return std::nullopt;
      of_other_units.push_back(i);
    }
  }
  std::optional<Signature> fit = WithUnitsIfEven(signature, factor, use, axis);
  for (size_t i : of_other_units) {
    if (!fit.has_value()) break;
    if (!SplitAlike(fit->inputs[i], *arriving[i], use.inputs[i], axis)) return std::nullopt;
    if (axis.keeps_units) fit->inputs[i] = *arriving[i];
  }
  return fit;
}

}  // namespace

bool MatchesWithUnitFactor(const AxisLayout& named, const AxisLayout& actual, int64_t& factor) {
  if (!named.split() || !actual.split()) return named == actual;
  if (named.dim != actual.dim || actual.unit % named.unit != 0) return false;
  if (factor == 0) factor = actual.unit / named.unit;
  return factor == actual.unit / named.unit;
}

Signature WithUnits(Signature signature, int64_t factor) {
  for (std::vector<AxisLayout>* layouts : {&signature.inputs, &signature.outputs}) {
    for (AxisLayout& layout : *layouts) {
      if (layout.split()) layout.unit *= factor;
    }
  }
  return signature;
}

bool FitsWithin(const Signature& inner, const Signature& outer) {
  bool split_again = false, split_first = false, units_differ = false;
  int64_t unit = 0;
  const auto compare = [&](absl::Span<const AxisLayout> within,
                           absl::Span<const AxisLayout> parts) {
    for (size_t i = 0; i < within.size() && i < parts.size(); ++i) {
      if (!within[i].split()) continue;
      if (parts[i].split() && parts[i].dim != within[i].dim) continue;
      (parts[i].split() ? split_again : split_first) = true;
      units_differ = units_differ || (unit != 0 && unit != within[i].unit);
      unit = within[i].unit;
    }
  };
  compare(inner.inputs, outer.inputs);
  compare(inner.outputs, outer.outputs);
  return !(split_again && split_first && units_differ);
}

std::optional<Signature> BestSignature(const FittedUse& use, absl::Span<const Arriving> arriving,
                                       const SplitAxis& axis) {
  std::optional<Signature> best;
  int64_t best_splits = -1;
  for (const Signature& signature : use.signatures) {
    std::optional<Signature> fit = FitToArriving(signature, use, arriving, axis);
    if (!fit.has_value()) continue;
    const int64_t splits = std::count_if(fit->outputs.begin(), fit->outputs.end(),
                                         [](const AxisLayout& layout) { return layout.split(); });
    if (splits > best_splits) {
      best = std::move(fit);
      best_splits = splits;
    }
  }
  return best;
}

std::optional<SignatureFit> FitOrGather(const FittedUse& use, absl::Span<const Arriving> arriving,
                                        absl::Span<const Id<Value>> values, const SplitAxis& axis) {
  const auto partial = [&](size_t i) { return arriving[i].has_value() && arriving[i]->partial(); };
  const auto split = [&](size_t i) { return arriving[i].has_value() && arriving[i]->split(); };
  // The sets of inputs to gather, in the order in which they are tried: none, each value that
  // arrives partial, all of these, and the same for those that arrive split.
  using InputSet = std::function<bool(size_t)>;  // whether it has an input
  std::vector<InputSet> sets_to_gather = {[](size_t) { return false; }};
  for (const InputSet& arrives_so : {InputSet(partial), InputSet(split)}) {
    bool has_inputs = false;
    for (size_t i = 0; i < arriving.size(); ++i) {
      if (!arrives_so(i)) continue;
      has_inputs = true;
      sets_to_gather.push_back([&values, i](size_t input) { return values[input] == values[i]; });
    }
    if (has_inputs) sets_to_gather.push_back(arrives_so);
  }
  for (const InputSet& to_gather : sets_to_gather) {
    SignatureFit fit;
    std::vector<Arriving> after_gathers(arriving.begin(), arriving.end());
    bool some_stay = false;  // split or partial
    for (size_t i = 0; i < after_gathers.size(); ++i) {
      fit.gathered.push_back(to_gather(i) && (partial(i) || split(i)));
      if (fit.gathered[i]) after_gathers[i] = AxisLayout::Broadcast();
      some_stay = some_stay || (after_gathers[i].has_value() && !after_gathers[i]->broadcast());
    }
    if (!some_stay) continue;
    std::optional<Signature> signature = BestSignature(use, after_gathers, axis);
    if (!signature.has_value()) continue;
    fit.signature = *std::move(signature);
    return fit;
  }
  return std::nullopt;
}

std::optional<Signature> FindSignatureProducing(const FittedUse& use,
                                                absl::Span<const Arriving> read,
                                                const SplitAxis& axis) {
  for (const Signature& signature : use.signatures) {
    int64_t factor = 0;
    bool produces = std::none_of(signature.inputs.begin(), signature.inputs.end(),
                                 [](const AxisLayout& input) { return input.partial(); });
    for (size_t i = 0; produces && i < read.size(); ++i) {
      produces =
          !read[i].has_value() ||
          (read[i]->split() && MatchesWithUnitFactor(signature.outputs[i], *read[i], factor));
    }
    if (!produces) continue;
    if (std::optional<Signature> fit = WithUnitsIfEven(signature, factor, use, axis)) return fit;
  }
  return std::nullopt;
}

}  // namespace tessera

#include "tests/operators/signatures/named_signature.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/signature_fit.h"

namespace tessera::operator_tests {
namespace {

std::string Print(const std::vector<NamedLayout>& layouts, const CaseFamily& family) {
  return absl::StrJoin(layouts, ", ", [&](std::string* out, const NamedLayout& layout) {
    absl::StrAppend(out, layout.ToString(family));
  });
}

// Returns whether a rank that has a value as `from` can make it `to` without communication; B only
// becomes a split if `takes_splits`.
bool Converts(const AxisLayout& from, const AxisLayout& to, bool takes_splits) {
  if (from == to) return true;
  if (from.broadcast()) return to.partial() || takes_splits;
  return from.split() && to.partial();
}

}  // namespace

AxisLayout NamedLayout::At(const SizedCase& size) const {
  AxisLayout at = layout;
  if (unit != kUnitOfOne) at.unit = size.units[unit];
  return at;
}

std::string NamedLayout::ToString(const CaseFamily& family) const {
  if (unit == kUnitOfOne) return layout.ToString();
  return absl::StrCat("S(", layout.dim, ", ", family.units[unit], ")");
}

Signature NamedSignature::At(const SizedCase& size) const {
  Signature signature;
  for (const NamedLayout& input : inputs) signature.inputs.push_back(input.At(size));
  for (const NamedLayout& output : outputs) signature.outputs.push_back(output.At(size));
  return signature;
}

std::string NamedSignature::ToString(const CaseFamily& family) const {
  const std::string of_outputs = Print(outputs, family);
  if (inputs.empty()) return absl::StrCat("-> ", of_outputs);
  return absl::StrCat(Print(inputs, family), " -> ", of_outputs);
}

std::vector<std::string> LayoutTexts(absl::string_view text) {
  std::vector<std::string> texts = {""};
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      texts.emplace_back();
    } else if (c != ' ' || depth > 0) {
      texts.back() += c;
    }
  }
  return texts;
}

bool Implies(const Signature& declared, const Signature& wanted) {
  std::set<int64_t> factors = {1};
  const auto add_factors = [&](const std::vector<AxisLayout>& of,
                               const std::vector<AxisLayout>& to) {
    for (size_t i = 0; i < of.size(); ++i) {
      int64_t factor = 0;
      if (of[i].split() && MatchesWithUnitFactor(of[i], to[i], factor)) factors.insert(factor);
    }
  };
  add_factors(declared.inputs, wanted.inputs);
  add_factors(declared.outputs, wanted.outputs);
  return std::any_of(factors.begin(), factors.end(), [&](int64_t factor) {
    const Signature scaled = WithUnits(declared, factor);
    for (size_t i = 0; i < wanted.inputs.size(); ++i) {
      if (!Converts(wanted.inputs[i], scaled.inputs[i], true)) return false;
    }
    for (size_t i = 0; i < wanted.outputs.size(); ++i) {
      if (!Converts(scaled.outputs[i], wanted.outputs[i], false)) return false;
    }
    return true;
  });
}

}  // namespace tessera::operator_tests

#include "tests/operators/named_signature.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::operator_tests {
namespace {

std::string Print(const std::vector<NamedLayout>& layouts, const CaseFamily& family) {
  return absl::StrJoin(layouts, ", ", [&](std::string* out, const NamedLayout& layout) {
    absl::StrAppend(out, layout.ToString(family));
  });
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

}  // namespace tessera::operator_tests

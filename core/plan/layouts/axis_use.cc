#include "core/plan/layouts/axis_use.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/layout/layout_text.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

absl::StatusOr<AxisUse> ParseAxisUse(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  AxisUse use;
  if (text == "B") return use;
  if (text == "flat") {
    use.kind = AxisUse::Kind::kFlat;
    return use;
  }
  use.kind = AxisUse::Kind::kSigned;
  ASSIGN_OR_RETURN(use.signature, ParseSignature(text));
  return use;
}

}  // namespace

AxisUse AxisUse::Broadcast(const Op& op) {
  AxisUse use;
  use.signature.inputs.resize(op.inputs.size());
  use.signature.outputs.resize(op.outputs.size());
  return use;
}

AxisUse AxisUse::Flat(const Op& op) {
  AxisUse use = Broadcast(op);
  use.kind = Kind::kFlat;
  return use;
}

AxisUse AxisUse::By(Signature signature) {
  const auto broadcast = [](const AxisLayout& layout) { return layout.broadcast(); };
  AxisUse use;
  if (!absl::c_all_of(signature.inputs, broadcast) ||
      !absl::c_all_of(signature.outputs, broadcast)) {
    use.kind = Kind::kSigned;
  }
  use.signature = std::move(signature);
  return use;
}

std::string AxisUse::ToString() const {
  switch (kind) {
    case Kind::kBroadcast:
      return "B";
    case Kind::kSigned:
      return signature.ToString();
    case Kind::kFlat:
      return "flat";
  }
  return "";
}

absl::StatusOr<AxisUses> ParseAxisUses(absl::string_view text, const Mesh& mesh) {
  AxisUses uses(mesh.num_axes());
  for (absl::string_view clause : absl::StrSplit(text, ';')) {
    const size_t colon = clause.find(':');
    if (colon == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quote(absl::StripAsciiWhitespace(clause)),
                       " names no axis; a clause looks like 'data: S(0), B -> S(0)'"));
    }
    const absl::string_view name = absl::StripAsciiWhitespace(clause.substr(0, colon));
    ASSIGN_OR_RETURN(const int axis, mesh.FindAxis(name));
    if (uses[axis].has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("axis '", name, "' is named twice"));
    }
    ASSIGN_OR_RETURN(uses[axis], ParseAxisUse(clause.substr(colon + 1)));
  }
  return uses;
}

std::string AxisUsesToString(absl::Span<const AxisUse> uses, const Mesh& mesh) {
  std::string text;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    absl::StrAppend(&text, axis == 0 ? "" : "; ", mesh.axis(axis).name, ": ",
                    uses[axis].ToString());
  }
  return text;
}

}  // namespace tessera

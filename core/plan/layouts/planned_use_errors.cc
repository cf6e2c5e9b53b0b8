#include "core/plan/layouts/planned_use_errors.h"

#include "absl/strings/str_cat.h"

namespace tessera {

absl::Status NoSuchSignature(const Graph& graph, const Op& op, const AxisUse& planned,
                             absl::Span<const Signature> possible, const std::string& axis) {
  std::string has = "B";
  for (const Signature& signature : possible) {
    absl::StrAppend(&has, "; ", signature.ToString(), signature.in_parts ? " (in parts)" : "");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the Plan gives operator '", op.path, "' the signature '", planned.ToString(),
                   "' along axis '", axis, "', which ", op.kind->name(),
                   " does not have in graph '", graph.name(), "'; it has ", has));
}

absl::Status NotOnRange(const Op& op, const std::string& axis) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the Plan computes operator '", op.path, "' as 'flat' along axis '", axis,
      "', but not on the range of its group that a rank holds along other axes; name it 'flat' ",
      "along all axes of the group and as the group is stored along the others, or nowhere"));
}

}  // namespace tessera

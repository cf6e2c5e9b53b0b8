#include <string>

#include "absl/strings/str_cat.h"
#include "core/plan/rewrite/precision.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

std::string Name(DType dtype) {
  const absl::string_view name = DTypeName(dtype);
  return {name.data(), name.size()};
}

absl::StatusOr<DType> ReadDType(absl::string_view field, absl::string_view text) {
  if (text.empty()) return DType::kF32;
  const absl::StatusOr<DType> dtype = ParseDType(text);
  if (dtype.ok() && (*dtype == DType::kF32 || IsHalf(*dtype))) return *dtype;
  return absl::InvalidArgumentError(absl::StrCat("the Plan's precision: ", field, ": ", Quote(text),
                                                 " is none of f32, bf16 and f16"));
}

}  // namespace

absl::StatusOr<Precision> ReadPrecision(const Stage& stage) {
  Precision precision;
  if (!stage.has_precision()) return precision;
  const PrecisionChoice& choice = stage.precision();
  ASSIGN_OR_RETURN(precision.parameters, ReadDType("parameters", choice.parameters()));
  ASSIGN_OR_RETURN(precision.reduction, ReadDType("reduction", choice.reduction()));
  ASSIGN_OR_RETURN(precision.outputs, ReadDType("outputs", choice.outputs()));
  if (IsHalf(precision.outputs) && precision.outputs != precision.parameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan's precision: outputs: ", Name(precision.outputs),
                     " is neither f32 nor the dtype of parameters, ", Name(precision.parameters)));
  }
  if (!choice.in_f32().empty()) {
    absl::StatusOr<PathPattern> pattern = PathPattern::Parse(choice.in_f32());
    if (!pattern.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan's precision: in_f32: ", pattern.status().message()));
    }
    precision.in_f32 = *std::move(pattern);
  }
  return precision;
}

void CompletePrecision(Stage& stage) {
  if (!stage.has_precision()) return;
  PrecisionChoice& choice = *stage.mutable_precision();
  for (std::string* dtype :
       {choice.mutable_parameters(), choice.mutable_reduction(), choice.mutable_outputs()}) {
    if (dtype->empty()) *dtype = Name(DType::kF32);
  }
}

}  // namespace tessera

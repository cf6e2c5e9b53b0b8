#include "core/plan/rewrite/precision_choice.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/graph/attributes_proto.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::StatusOr<DType> ReadDType(absl::string_view field, TypeProto::DType stated) {
  const absl::StatusOr<DType> dtype = FromProto(stated);
  if (dtype.ok() && (*dtype == DType::kF32 || IsHalf(*dtype))) return *dtype;
  const std::string& name = TypeProto::DType_Name(stated);
  return absl::InvalidArgumentError(absl::StrCat("the Plan's precision: ", field, ": ",
                                                 name.empty() ? absl::StrCat(stated) : name,
                                                 " is none of F32, BF16 and F16"));
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
        absl::StrCat("the Plan's precision: outputs: ", TypeProto::DType_Name(choice.outputs()),
                     " is neither F32 nor the dtype of parameters, ",
                     TypeProto::DType_Name(choice.parameters())));
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

bool LowersPrecision(const Plan& plan) {
  if (plan.stages_size() == 0) return false;
  const PrecisionChoice& precision = plan.stages(0).precision();
  return precision.parameters() != TypeProto::F32 || precision.reduction() != TypeProto::F32;
}

void CompletePrecision(Stage& stage) {
  if (!stage.has_precision()) return;
  PrecisionChoice& choice = *stage.mutable_precision();
  choice.set_parameters(choice.parameters());
  choice.set_reduction(choice.reduction());
  choice.set_outputs(choice.outputs());
}

}  // namespace tessera

#include "core/train/record/plan_text.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/status_macros.h"
#include "core/text/byte_order_mark.h"
#include "core/text/first_error.h"
#include "google/protobuf/text_format.h"

namespace tessera {

absl::StatusOr<Plan> ParsePlanText(const std::string& text) {
  Plan plan;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(SkipByteOrderMark(text)), &plan)) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no Plan: line ", error.line(), ": ", error.message()));
  }
  RETURN_IF_ERROR(CheckPlanForm(plan));
  return plan;
}

}  // namespace tessera

#include "core/train/saved_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/program/passes/pass.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

constexpr int kPlanFormat = 1;

// Keeps the first error of the parser, which would print all of them.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
    if (message_.empty()) message_ = absl::StrCat("line ", line + 1, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

absl::Status CheckPart(const PlanPart& part) {
  if (part.graph().empty()) return absl::DataLossError("a part is for no graph");
  if (part.micro_batches() < 1) {
    return absl::DataLossError(absl::StrCat("graph '", part.graph(), "' has ", part.micro_batches(),
                                            " micro-batches; it must have 1 or more"));
  }
  for (const PassChoice& pass : part.passes()) {
    if (pass.name() == "none") continue;
    const absl::Status found = FindPass(pass.name()).status();
    if (!found.ok()) return absl::DataLossError(found.message());
  }
  return absl::OkStatus();
}

absl::Status CheckPlan(const Plan& plan) {
  if (plan.format() != kPlanFormat) {
    return absl::DataLossError(
        absl::StrCat("the plan has format ", plan.format(), "; this program reads ", kPlanFormat));
  }
  if (plan.stages_size() != 1 || plan.stages(0).mesh_size() > 0) {
    return absl::DataLossError("the plan is not for one device");
  }
  for (const PlanPart& part : plan.stages(0).parts()) RETURN_IF_ERROR(CheckPart(part));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> ReadPlan(const Checkpoint& checkpoint) {
  Plan plan;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  absl::Status status;
  if (parser.ParseFromString(checkpoint.plan(), &plan)) {
    status = CheckPlan(plan);
  } else {
    status = absl::DataLossError(absl::StrCat("is no plan: ", error.message()));
  }
  if (status.ok()) return plan;
  return absl::Status(status.code(),
                      absl::StrCat(checkpoint.folder(), "/", kPlanFile, ": ", status.message()));
}

}  // namespace tessera

// A strategy that returns a Plan from a file that was written by hand.
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

class PlanFile : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    if (request.Text("file").empty()) {
      return absl::InvalidArgumentError("no Plan is named: file=PATH names one");
    }
    std::ifstream file(request.Text("file"));
    if (!file.good()) {
      return absl::NotFoundError(absl::StrCat("cannot read '", request.Text("file"), "'"));
    }
    std::stringstream text;
    text << file.rdbuf();
    ASSIGN_OR_RETURN(const Plan plan, host.ReadPlan(text.str()));
    // Fails if the mesh does not fit the number of ranks, or if the model lacks a name in the Plan.
    const absl::Status fits = host.Complete(plan).status();
    if (!fits.ok()) return absl::InvalidArgumentError(fits.message());
    return plan;
  }
};

}  // namespace

TESSERA_STRATEGY(PlanFile,
                 {
                     .name = "plan_file",
                     .version = "1.0",
                     .summary = "a Plan that was written by hand",
                     .options = {{"file", "text", "", "the Plan, in protobuf's text form"}},
                 });

}  // namespace tessera::strategy

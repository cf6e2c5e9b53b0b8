// A plugin that shows that it was loaded: it makes a file `mark` in the working directory. Its
// strategy is data parallel, with a pass of its own that changes nothing.
#include <fcntl.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

// Runs when the library is loaded, before the host calls any function of it.
__attribute__((constructor)) void LeaveMark() {
  const int file = open("mark", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file >= 0) close(file);
}

class Helper : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    PlanBuilder plan;
    plan.Axis("data");
    plan.SplitBatch(model);
    PassChoice::PluginPass& pass = *plan.stage().add_pass()->mutable_plugin();
    pass.set_name("helper");
    pass.set_version("1.0");
    pass.set_pass("keep");
    return plan.Build();
  }

  absl::StatusOr<ProgramProto> RunPass(const PassRequest& request, Host& host) override {
    return request.program();
  }
};

}  // namespace

TESSERA_STRATEGY(Helper, {
                             .name = "helper",
                             .version = "1.0",
                             .summary = "data parallel, and leaves a mark where it is loaded",
                             .passes = {"keep"},
                         });

}  // namespace tessera::strategy

// A data parallel strategy in which every second parameter is stored split over the ranks.
#include <string>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace {

using namespace tessera::strategy;  // NOLINT(google-build-using-namespace)

class Half : public Strategy {
 public:
  absl::StatusOr<tessera::Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    PlanBuilder plan;
    plan.Axis("data");
    plan.SplitBatch(model);
    bool split = false;
    for (const ParameterInfo& parameter : model.parameters) {
      split = !split;
      if (split) plan.Store(parameter.path, "data: S(0)");
    }
    return plan.Build();
  }
};

}  // namespace

TESSERA_STRATEGY(Half, {
                           .name = "half",
                           .version = "1.0",
                           .summary = "every second parameter is stored split over the ranks",
                       });

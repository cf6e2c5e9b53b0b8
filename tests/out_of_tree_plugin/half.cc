// A data parallel strategy in which every second parameter is stored split over the ranks.
#include <string>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace {

using namespace tessera::strategy;  // NOLINT(google-build-using-namespace)

class Half : public Strategy {
 public:
  absl::StatusOr<tessera::Plan> MakePlan(const Request& request, Host& host) override {
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!graphs.ok()) return graphs.status();
    const ModelInfo model = DescribeModel(*graphs);
    tessera::Plan plan;
    tessera::Stage& stage = *plan.add_stages();
    stage.add_mesh()->set_name("data");
    SplitBatch(model, {"data"}, stage);
    bool split = false;
    for (const ParameterInfo& parameter : model.parameters) {
      split = !split;
      if (!split) continue;
      tessera::StoreChoice& store = *stage.add_store();
      store.set_path(parameter.path);
      store.set_layout("data: S(0)");
    }
    return plan;
  }
};

}  // namespace

TESSERA_STRATEGY(Half, {
                           .name = "half",
                           .version = "1.0",
                           .summary = "every second parameter is stored split over the ranks",
                       });

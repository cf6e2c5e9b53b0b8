// Data parallel: each rank has all parameters and a shard of the batch.
#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

// Chooses "data: B" for the operators that compute gradients of embeddings and for the additions
// that read them: each rank computes the full gradient, from the rows of all ranks, which are
// gathered first. A head's gradient to which it is added is then reduced once it is computed.
absl::Status ReplicateEmbeddingGradients(const RunGraphs& graphs, PlanBuilder& plan) {
  std::set<std::string> paths;  // a Plan must not have two choices for one path
  for (const GraphProto& graph : graphs.graphs()) {
    std::set<int> gradients;
    for (const GraphProto::Op& op : graph.ops()) {
      const bool reads = std::any_of(op.inputs().begin(), op.inputs().end(),
                                     [&](int input) { return gradients.count(input) > 0; });
      const bool adds = reads && op.kind() == "add" && op.phase() == GraphProto::BACKWARD;
      if (op.kind() == "embedding_grad") gradients.insert(op.outputs(0));
      if (op.kind() == "embedding_grad" || adds) paths.insert(op.path());
    }
  }
  for (const std::string& path : paths) plan.Compute(path, "data: B");
  if (!paths.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "embedding=gathered: the model has no embedding that is trained; embedding=reduced would do");
}

class Ddp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const RunGraphs graphs, host.Graphs());
    PlanBuilder plan;
    plan.Axis("data");
    plan.SplitBatch(DescribeModel(graphs));
    plan.Precision(/*parameters=*/TypeProto::F32, request.DType("reduce"));
    if (request.Text("embedding") == "gathered") {
      if (request.micro_batches() > 1) {
        return absl::InvalidArgumentError(
            "embedding=gathered would reduce a tied head's gradient in every micro-batch: it needs "
            "micro_batches=1");
      }
      RETURN_IF_ERROR(ReplicateEmbeddingGradients(graphs, plan));
    }
    const double cap = request.Mebibytes("bucket"), first = request.Mebibytes("first_bucket");
    if (cap > 0) {
      auto& buckets = *plan.stage().add_pass()->mutable_bucket_gradients();
      buckets.set_cap_mib(cap);
      buckets.set_first_mib(first > 0 ? first : cap);
    }
    return plan.Build();
  }
};

}  // namespace

TESSERA_STRATEGY(
    Ddp,
    {
        .name = "ddp",
        .version = "1.0",
        .summary =
            "data parallel: every rank has all parameters; gradients are all-reduced in buckets",
        .options = {{"bucket", "bytes", "25MiB",
                     "how many bytes of gradients are reduced together; 0: each by itself"},
                    {"first_bucket", "bytes", "1MiB",
                     "the bucket whose gradients are ready first, so that communication begins "
                     "early; 0: it is as large as the others"},
                    {"embedding", "reduced|gathered", "reduced",
                     "how gradients of embeddings are summed: the tables are all-reduced, or the "
                     "rows of all ranks gathered; then a tied head's gradient is reduced early"},
                    {"reduce", "f32|bf16|f16", "f32",
                     "the dtype in which gradients are reduced: half the bytes, and rounded"}},
    });

}  // namespace tessera::strategy

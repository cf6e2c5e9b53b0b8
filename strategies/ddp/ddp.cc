// Data parallel: each rank has all parameters and a shard of the batch.
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

// Makes every rank compute the gradients of embeddings from the rows of all ranks. If such a
// gradient is added to that of a head with the same table, the head's gradient is reduced first, as
// soon as it is computed.
absl::Status GatherEmbeddings(const RunGraphs& graphs, PlanBuilder& plan) {
  for (const GraphProto& graph : graphs.graphs()) {
    for (const GraphProto::Op& op : graph.ops()) {
      if (op.kind() != "embedding_grad") continue;
      plan.Compute(op.path(), "data: B");
      for (const GraphProto::Op& user : graph.ops()) {
        if (user.kind() != "add" || user.phase() != GraphProto::BACKWARD) continue;
        for (const int input : user.inputs()) {
          if (input == op.outputs(0)) plan.Compute(user.path(), "data: B");
        }
      }
    }
  }
  if (plan.stage().compute_size() > 0) return absl::OkStatus();
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
      RETURN_IF_ERROR(GatherEmbeddings(graphs, plan));
    }
    if (const double cap = request.Mebibytes("bucket"), first = request.Mebibytes("first_bucket");
        cap > 0) {
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

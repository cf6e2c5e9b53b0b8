// Data parallel: each rank has all parameters and a shard of the batch.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

constexpr char kAxis[] = "data";

// About a pebibyte, which no model has.
constexpr char kMostMebibytes[] = "1000000000";

void ComputeOnAllRows(const GraphProto::Op& op, Stage& stage) {
  ComputeChoice& choice = *stage.add_compute();
  choice.set_path(op.path());
  choice.set_signature(absl::StrCat(kAxis, ": B"));
}

// Makes every rank compute the gradients of embeddings from the rows of all ranks. If such a
// gradient is added to that of a head with the same table, the head's gradient is reduced first, as
// soon as it is computed.
absl::Status GatherEmbeddings(const RunGraphs& graphs, Stage& stage) {
  for (const GraphProto& graph : graphs.graphs()) {
    for (const GraphProto::Op& op : graph.ops()) {
      if (op.kind() != "embedding_grad") continue;
      ComputeOnAllRows(op, stage);
      for (const GraphProto::Op& user : graph.ops()) {
        if (user.kind() != "add" || user.phase() != GraphProto::BACKWARD) continue;
        for (const int32_t input : user.inputs()) {
          if (input == op.outputs(0)) ComputeOnAllRows(user, stage);
        }
      }
    }
  }
  if (stage.compute_size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "embedding=gathered: the model has no embedding that is trained; embedding=reduced would do");
}

class Ddp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    const double cap = request.Number("bucket_mb"), first = request.Number("first_bucket_mb");
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!graphs.ok()) return graphs.status();

    Plan plan;
    Stage& stage = *plan.add_stages();
    stage.add_mesh()->set_name(kAxis);
    SplitBatch(DescribeModel(*graphs), {kAxis}, stage);
    if (const TypeProto::DType reduction = request.DType("reduce"); reduction != TypeProto::F32) {
      stage.mutable_precision()->set_reduction(reduction);
    }
    if (request.Text("embedding") == "gathered") {
      if (request.message().micro_batches() > 1) {
        return absl::InvalidArgumentError(
            "embedding=gathered would reduce a tied head's gradient in every micro-batch: it needs "
            "micro_batches=1");
      }
      const absl::Status gathered = GatherEmbeddings(*graphs, stage);
      if (!gathered.ok()) return gathered;
    }
    if (cap > 0) {
      auto& buckets = *stage.add_pass()->mutable_bucket_gradients();
      buckets.set_cap_mib(cap);
      buckets.set_first_mib(first > 0 ? first : cap);
    }
    return plan;
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
        .options =
            {
                {"bucket_mb", "number", "25",
                 "MiB of gradients that are reduced together; 0: each by itself", "0",
                 kMostMebibytes},
                {"first_bucket_mb", "number", "1",
                 "MiB of the bucket whose gradients are ready first, so that communication begins "
                 "early; 0: it is as large as the others",
                 "0", kMostMebibytes},
                {"embedding", "reduced|gathered", "reduced",
                 "how gradients of embeddings are summed: the tables are all-reduced, or the rows "
                 "of all ranks gathered; then a tied head's gradient is reduced early"},
                {"reduce", "f32|bf16|f16", "f32",
                 "the dtype in which gradients are reduced: half the bytes, and rounded"},
            },
    });

}  // namespace tessera::strategy

// Data parallel: each rank has all parameters and a part of the batch's rows.
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

constexpr char kAxis[] = "data";

// Bytes as a Plan writes them.
std::string Bytes(double mebibytes) {
  return absl::StrCat(static_cast<int64_t>(mebibytes * (1 << 20)), "B");
}

class Ddp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    const double cap = request.Number("bucket_mb"), first = request.Number("first_bucket_mb");
    if (cap < 0 || first < 0) {
      return absl::InvalidArgumentError(
          "bucket_mb and first_bucket_mb are sizes of 0 (no buckets) or more");
    }
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!graphs.ok()) return graphs.status();

    Plan plan;
    Stage& stage = *plan.add_stages();
    stage.add_mesh()->set_name(kAxis);
    SplitBatch(DescribeModel(*graphs), {kAxis}, stage);
    if (request.Text("reduce") != "f32") {
      stage.mutable_precision()->set_reduction(request.Text("reduce"));
    }
    if (cap > 0) {
      PassChoice& buckets = *stage.add_pass();
      buckets.set_name("bucket_gradients");
      buckets.set_cap(Bytes(cap));
      buckets.set_first(Bytes(first > 0 ? first : cap));
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
                 "MiB of gradients that are reduced together; 0: each by itself"},
                {"first_bucket_mb", "number", "1",
                 "MiB of the bucket whose gradients are ready first, so that communication begins "
                 "early"},
                {"reduce", "f32|bf16|f16", "f32",
                 "the dtype in which gradients are reduced: half the bytes, and rounded"},
            },
    });

}  // namespace tessera::strategy

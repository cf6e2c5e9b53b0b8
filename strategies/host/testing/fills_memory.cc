// A plugin that decides the batch: data parallel training with the largest batch that fits. It
// doubles the default batch as long as the memory limit allows.
#include <cstdint>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

class FillsMemory : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    if (const int64_t rows = request.Int("rows"); rows != 0) {
      return DataParallel(rows, request.Int("micro_batches"), host, /*context=*/nullptr);
    }
    if (!request.MayDecide(PlanRequest::BATCH)) {
      return DataParallel(/*rows=*/0, /*micro_batches=*/0, host, /*context=*/nullptr);
    }
    Plan largest;
    for (int64_t rows = request.batch(); rows <= request.Int("most"); rows *= 2) {
      ASSIGN_OR_RETURN(TesseraContext* const context, host.OpenContext(rows, /*sequence=*/0));
      ASSIGN_OR_RETURN(const Plan plan, DataParallel(rows, /*micro_batches=*/0, host, context));
      ASSIGN_OR_RETURN(const StepCost cost, host.Lower(plan, context));
      host.CloseContext(context);
      const int64_t limit = request.memory_limit_bytes();
      if (limit > 0 && cost.peak_bytes() > limit && largest.batch() > 0) break;
      largest = plan;
    }
    return largest;
  }

 private:
  // Returns a Plan for so many rows in micro-batches; if one of them is 0, it is left open.
  static absl::StatusOr<Plan> DataParallel(int64_t rows, int64_t micro_batches, const Host& host,
                                           TesseraContext* context) {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model(context));
    PlanBuilder plan;
    plan.Axis("data");
    plan.SplitBatch(model);
    plan.Batch(rows);
    if (micro_batches > 0) plan.MicroBatches(model, micro_batches);
    return plan.Build();
  }
};

}  // namespace

TESSERA_STRATEGY(FillsMemory,
                 {
                     .name = "fills_memory",
                     .version = "1.0",
                     .summary = "data parallel, with the largest batch that fits",
                     .options = {{"most", "int 1..", "64", "the largest batch to try"},
                                 {"rows", "int", "0", "state this batch, whether it fits or not"},
                                 {"micro_batches", "int 0..", "0", "with rows: in so many"}},
                     .needs_minor = 1,
                 });

}  // namespace tessera::strategy

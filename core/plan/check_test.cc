#include "core/plan/check.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

Plan Complete() {
  Plan plan;
  plan.set_format(2);
  PlanPart& part = *plan.add_stages()->add_parts();
  part.set_graph("train");
  part.set_micro_batches(2);
  part.add_passes("order");
  return plan;
}

TEST(CheckPlanFormTest, AcceptsOpenAndCompletePlans) {
  EXPECT_TRUE(CheckPlanForm(Plan()).ok());
  EXPECT_TRUE(CheckPlanForm(Complete()).ok());
  Plan none = Complete();
  none.mutable_stages(0)->mutable_parts(0)->set_passes(0, "none");
  EXPECT_TRUE(CheckPlanForm(none).ok());
}

TEST(CheckPlanFormTest, RefusesInOneLineWhatCannotBeFollowed) {
  const std::vector<std::pair<std::function<void(Plan&, PlanPart&)>, std::string>> cases = {
      {[](Plan& plan, PlanPart&) { plan.set_format(99); },
       "the Plan has format 99; this version reads format 2, which docs/plans.md describes"},
      {[](Plan& plan, PlanPart&) { plan.add_stages(); },
       "the Plan has 2 stages; this version runs one"},
      {[](Plan& plan, PlanPart&) { plan.set_batch(-1); },
       "the Plan is for a batch of -1 rows; it must be at least 1"},
      {[](Plan&, PlanPart& part) { part.clear_graph(); },
       "the Plan has a part that names no graph"},
      {[](Plan& plan, PlanPart& part) { *plan.mutable_stages(0)->add_parts() = part; },
       "the Plan has two parts for graph 'train'"},
      {[](Plan&, PlanPart& part) { part.set_micro_batches(-1); },
       "the Plan's part for graph 'train' has micro_batches: -1; it must be at least 1"},
      {[](Plan&, PlanPart& part) { part.set_logits(static_cast<PlanPart::Logits>(3)); },
       "the Plan's part for graph 'train' has logits: 3, which is neither RECOMPUTED nor KEPT"},
      {[](Plan&, PlanPart& part) { part.add_passes("magic"); },
       "the Plan's part for graph 'train' lists pass 'magic'; there are fuse, order and none"},
      {[](Plan&, PlanPart& part) { part.add_passes("none"); },
       "the Plan's part for graph 'train' lists pass 'none' beside others; it stands alone"},
      {[](Plan&, PlanPart& part) { part.add_passes("offload"); },
       "the Plan's part for graph 'train' lists pass 'offload', which the stage lists: stages { "
       "pass { offload {} } }"},
      {[](Plan& plan, PlanPart&) { plan.mutable_stages(0)->add_pass(); },
       "the Plan's stage lists an empty pass; there are bucket_gradients, prefetch_gathers, "
       "limit_gathers, offload and plugin"},
  };
  for (const auto& [damage, message] : cases) {
    Plan plan = Complete();
    damage(plan, *plan.mutable_stages(0)->mutable_parts(0));
    const absl::Status status = CheckPlanForm(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()), message);
  }
}

}  // namespace
}  // namespace tessera

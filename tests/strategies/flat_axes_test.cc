// Groups that are flat over two axes of the mesh, in the order of the mesh, are those over one axis
// of as many ranks: one collective serves both axes.
#include <string>

#include "gtest/gtest.h"
#include "tests/strategies/osdp_fixture.h"

namespace tessera {
namespace {

// Returns fsdp's Plan with its axis divided in two.
Plan Divided(Plan plan) {
  Stage& stage = *plan.mutable_stages(0);
  stage.clear_mesh();
  for (const char* name : {"host", "core"}) {
    MeshAxis& axis = *stage.add_mesh();
    axis.set_name(name);
    axis.set_size(std::string(name) == "host" ? 2 : 0);
  }
  for (StoreChoice& store : *stage.mutable_store()) store.set_layout("host: S(0), core: S(0)");
  for (GroupChoice& group : *stage.mutable_group()) {
    group.clear_over();
    for (const char* name : {"host", "core"}) group.add_over(name);
  }
  return plan;
}

TEST(FlatAxesTest, TwoAxesInTheOrderOfTheMeshAreOne) {
  for (const int ranks : {4, 6}) {
    PlanningSetup setup = SetupOf(TinyGpt(3));
    setup.ranks = ranks;
    setup.config.set_batch(2 * ranks);
    const PlannedRun run(setup);
    for (const char* reshard : {"reshard=yes", "reshard=no"}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + reshard);
      const auto one = run.Ask({.strategy = "fsdp", .options = {reshard}});
      ASSERT_TRUE(one.ok()) << one.status();
      const StepCost two = run.Lower(Divided(one->plan));
      EXPECT_EQ(two.peak_bytes(), one->cost.peak_bytes());
      // The loss and the norm of gradients are still reduced over one axis after the other.
      EXPECT_NEAR(two.step_seconds(), one->cost.step_seconds(), 0.02 * one->cost.step_seconds());
      EXPECT_NEAR(SentBytes(two), SentBytes(one->cost), 64);
      for (const char* operation : {"all-gather", "reduce-scatter"}) {
        EXPECT_EQ(CallsOf(two, operation), CallsOf(one->cost, operation)) << operation;
      }
    }
  }
}

}  // namespace
}  // namespace tessera

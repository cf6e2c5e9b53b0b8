// Redistributions in Plans: a completed Plan lists them, and a Plan may state them.
#include "core/compile/redistribution_choices.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/candidates.h"
#include "core/compile/compile.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Records the squares of x, and their sum.
std::vector<Graph> Record() {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 6}}, 0);
  graph.SetOutput("sum", ReduceSum(Square(x), {0, 1}));
  graph.SetOutput("squares", Square(x));
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return graphs;
}

// Each rank has a part of x, so the sum is partial on both axes.
constexpr char kOpen[] = R"p(
  stages {
    mesh { name: "data" size: 2 }
    mesh { name: "model" size: 2 }
    store { path: "x" layout: "data: S(0), model: S(1)" }
    compute { path: "square*" signature: "data: S(0) -> S(0); model: S(1) -> S(1)" }
  })p";

// The reference backend computes in f64. Of 8 bytes, latency decides.
constexpr char kFound[] = R"(
    type { dtype: F64 }
    from: "data: P, model: P"
    to: "B"
    step: "all-reduce along model: data: P, model: P => data: P"
    step: "all-reduce along data: data: P => B")";

constexpr char kInOneStep[] = R"(
    type { dtype: F64 }
    from: "data: P, model: P"
    to: "B"
    step: "all-reduce along data and model: data: P, model: P => B")";

template <typename Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Returns the axes of the collectives that complete the sum, in order.
std::string CollectivesOfSum(const Program& program) {
  std::string text;
  for (const CollectiveRequest& request : program.collectives) {
    if (request.operation != CollectiveOperation::kAllReduce) continue;
    for (const std::string& axis : request.mesh_axes) text += axis + " ";
    text += "; ";
  }
  return text;
}

class RedistributionChoicesTest : public ::testing::Test {
 protected:
  // Returns the open Plan with one redistribution.
  static Plan With(const std::string& choice) {
    Plan plan = FromText<Plan>(kOpen);
    *plan.mutable_stages(0)->add_redistribution() = FromText<RedistributionChoice>(choice);
    return plan;
  }

  absl::StatusOr<CompiledRun> Compile(const Plan& plan) {
    return CompileRun(Record(), plan, *backend_, 4);
  }

  std::string Error(const std::string& choice) {
    const auto run = Compile(With(choice));
    EXPECT_TRUE(absl::IsInvalidArgument(run.status())) << run.status();
    const auto candidate = candidates_.Compile(With(choice));
    EXPECT_EQ(candidate.status(), run.status());
    return std::string(run.status().message());
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  const CandidateCompiler candidates_{std::make_shared<const std::vector<Graph>>(Record()), 0,
                                      backend_.get(), 4};
};

TEST_F(RedistributionChoicesTest, ACompletedPlanListsWhatProgramsRun) {
  const auto run = Compile(FromText<Plan>(kOpen));
  ASSERT_TRUE(run.ok()) << run.status();
  const Stage& stage = run->plan.stages(0);
  ASSERT_EQ(stage.redistribution_size(), 2) << run->plan.DebugString();
  EXPECT_EQ(stage.redistribution(0).DebugString(),
            FromText<RedistributionChoice>(kFound).DebugString());
  EXPECT_EQ(stage.redistribution(1).from(), "data: S(0), model: S(1)");
  EXPECT_EQ(CollectivesOfSum(run->programs[0]), "model ; data ; ");
  const auto again = Compile(run->plan);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->plan.DebugString(), run->plan.DebugString());
  EXPECT_EQ(again->programs[0].ToString(), run->programs[0].ToString());
}

TEST_F(RedistributionChoicesTest, TheStatedStepsAreRun) {
  const Plan plan = With(kInOneStep);
  const auto run = Compile(plan);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(CollectivesOfSum(run->programs[0]), "data model ; ");
  ASSERT_EQ(run->plan.stages(0).redistribution_size(), 2);
  EXPECT_EQ(run->plan.stages(0).redistribution(0).DebugString(),
            plan.stages(0).redistribution(0).DebugString());
  // Candidates with other steps on the same mesh, one after another.
  for (int i = 0; i < 2; ++i) {
    const auto stated = candidates_.Compile(plan);
    ASSERT_TRUE(stated.ok()) << stated.status();
    EXPECT_EQ(CollectivesOfSum(stated->step), "data model ; ");
    const auto found = candidates_.Compile(FromText<Plan>(kOpen));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(CollectivesOfSum(found->step), "model ; data ; ");
  }
}

TEST_F(RedistributionChoicesTest, WhatNoProgramRunsIsNotListed) {
  const auto run = Compile(With(R"(
    type { shape: 8 }
    from: "data: P"
    to: "B"
    step: "all-reduce along data: data: P => B")"));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->plan.stages(0).redistribution_size(), 2);
  EXPECT_EQ(run->plan.stages(0).redistribution(0).from(), "data: P, model: P");
}

TEST_F(RedistributionChoicesTest, ErrorsNameTheRedistribution) {
  EXPECT_EQ(Error(R"(
              type { shape: 8 }
              from: "data: P"
              to: "B"
              step: "all-reduce along model: data: P => B")"),
            "the Plan's redistribution of f32[8] from 'data: P' to 'B': step 'all-reduce along "
            "model: data: P => B' changes the layout along other axes than its own. Without this "
            "choice the cheapest steps are taken");
  EXPECT_THAT(Error(R"(type { shape: 8 } from: "data: P" to: "B")"),
              HasSubstr("its steps end in layout 'data: P' instead of 'B'"));
  EXPECT_THAT(Error(R"(type { shape: 8 } from: "rows: P" to: "B")"), HasSubstr("'rows'"));
  EXPECT_THAT(Error(R"(type { shape: -8 } from: "data: P" to: "B")"),
              HasSubstr("of a value from 'data: P' to 'B': a tensor with a dimension of -8"));
  EXPECT_THAT(Error(R"(type { shape: 8 } from: "data: P" to: "B" step: "sum\n")"),
              HasSubstr("step 'sum\\n' is of no known kind"));
  Plan twice = With(kFound);
  *twice.mutable_stages(0)->add_redistribution() = FromText<RedistributionChoice>(kInOneStep);
  EXPECT_THAT(Compile(twice).status().message(),
              HasSubstr("it is stated twice, or was found before"));
  Plan without_mesh;
  *without_mesh.add_stages()->add_redistribution() = FromText<RedistributionChoice>(kInOneStep);
  EXPECT_THAT(CompileRun(Record(), without_mesh, *backend_).status().message(),
              HasSubstr("the Plan has no mesh"));
}

}  // namespace
}  // namespace tessera

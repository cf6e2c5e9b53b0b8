#include <random>
#include <string>
#include <vector>

#include "core/layout/layout_proto.h"
#include "core/plan/complete.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/plan/rewrite/slices.h"
#include "core/plan/rewrite_and_lay_out.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/transformer.h"
#include "google/protobuf/io/tokenizer.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Words that occur in Plans, so that many edited Plans are valid.
const std::vector<std::string>& Words() {
  static const std::vector<std::string>* const words = new std::vector<std::string>{
      "S(0)",    "S(1)", "S(2)",     "S(0, 2)", "S(3, 7)",    "B",       "P",           "P(lse)",
      "P(max)",  "flat", "data",     "model",   "tokens",     "*",       "|",           ", ",
      "wte",     " -> ", "; ",       ": ",      ".",          "0",       "embed",       "-1",
      "9999999", "",     "weight.*", "ONCE",    "EACH_PHASE", "cap_mib", "nan",         "gathers",
      "2",       "[0:",  "1]",       "count",   "dimension",  "P(min)",  "AFTER_UPDATE"};
  return *words;
}

// Replaces a random word of the text, or inserts one at a random position.
std::string Edited(std::string text, std::mt19937& random) {
  const std::string& to = Words()[random() % Words().size()];
  const std::string& from = Words()[random() % Words().size()];
  size_t at = text.find(from, random() % text.size());
  if (at == std::string::npos || from.empty()) at = random() % text.size();
  return text.replace(at, random() % 4 == 0 ? 0 : from.size(), to);
}

class IgnoredErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {}
};

// Checks that the training Graph can be rewritten as a completed Plan says, or that the error has
// one line.
void CheckRewriting(const Plan& plan, const std::vector<Graph>& graphs) {
  const Stage& stage = plan.stages(0);
  if (stage.mesh_size() == 0) return;
  const Mesh mesh = Mesh::ForRanks(AxesFromProto(stage.mesh()), 4).value();
  const std::vector<Graph> sliced = SliceGraphs(graphs, FindSlices(stage, graphs).value()).value();
  const LayoutDecisions decisions = FindDecisions(stage, sliced, mesh).value();
  for (const PlanPart& part : stage.parts()) {
    if (part.graph() != graphs[0].name()) continue;
    const auto rewritten = RewriteAndLayOut(
        sliced[0], LayOutGraph(sliced[0], 0, mesh, decisions).value(), part, mesh, decisions);
    if (rewritten.ok()) {
      EXPECT_EQ(rewritten->layouts.ops.size(), rewritten->graph.ops().size());
    } else {
      EXPECT_EQ(rewritten.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(rewritten.status().message().find('\n'), absl::string_view::npos);
    }
  }
}

// A randomly edited Plan gives an error in one line, or is completed; completing it again changes
// nothing.
TEST(CompletePlanEditsTest, RandomEditsAreErrorsOrPlans) {
  std::vector<Graph> graphs;
  graphs.push_back(RecordTransformerTraining({}));
  graphs.push_back(RecordTransformerState(graphs[0]));
  std::mt19937 random(20);
  IgnoredErrors ignored;
  int completed = 0, refused = 0;
  for (const char* file :
       {"docs/plans/fully_sharded.textproto", "docs/plans/hybrid_sharded.textproto",
        "docs/plans/data_tensor_parallel.textproto", "docs/plans/sliced.textproto"}) {
    Plan open = ReadPlanFile(file);
    open.mutable_stages(0)->clear_pass();
    open.mutable_stages(0)->MergeFrom(ParsePlan(R"text(stages {
      pass { bucket_gradients { cap_mib: 25 first_mib: 1 } }
      pass { prefetch_gathers { distance: 1 } }
      pass { limit_gathers { in_flight: 2 } }
      parts { graph: "train" micro_batches: 2 } })text")
                                          .stages(0));
    for (GroupChoice& group : *open.mutable_stages(0)->mutable_group()) {
      group.set_gather(GroupChoice::ONCE);
    }
    const std::string text = open.DebugString();
    for (int i = 0; i < 3400; ++i) {
      std::string edited = text;
      for (unsigned edits = 1 + random() % 3; edits > 0; --edits) edited = Edited(edited, random);
      Plan plan;
      google::protobuf::TextFormat::Parser parser;
      parser.RecordErrorsTo(&ignored);
      if (!parser.ParseFromString(edited, &plan)) continue;
      const auto result = CompletePlan(plan, graphs, 4);
      if (!result.ok()) {
        ++refused;
        EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
        EXPECT_EQ(result.status().message().find('\n'), absl::string_view::npos) << edited;
        continue;
      }
      ++completed;
      const auto again = CompletePlan(*result, graphs, 4);
      ASSERT_TRUE(again.ok()) << again.status() << "\n" << edited;
      EXPECT_EQ(again->SerializeAsString(), result->SerializeAsString()) << edited;
      if (completed % 8 == 0) CheckRewriting(*result, graphs);
    }
  }
  EXPECT_GT(completed, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tessera

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/ops.h"
#include "core/plan/complete.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/transformer.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Returns the error of a stage that has a mesh with one axis, "data", and these choices.
std::string ErrorOf(const std::string& choices, int ranks = 2) {
  static const std::vector<Graph>* const graphs =
      new std::vector<Graph>{RecordTransformerTraining({}), RecordTransformerLoss({})};
  const Plan plan = ParsePlan("stages { mesh { name: 'data' } " + choices + " }");
  const auto completed = CompletePlan(plan, *graphs, ranks);
  EXPECT_EQ(completed.status().code(), absl::StatusCode::kInvalidArgument) << choices;
  std::string message(completed.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(CompletePlanErrorsTest, TheMesh) {
  EXPECT_EQ(ErrorOf("mesh { name: 'model' size: 3 }", 4),
            "the Plan's mesh: axis 'data' of the mesh cannot take the ranks that remain: the other "
            "axes have 3 ranks, which do not divide 4");
  EXPECT_EQ(ErrorOf("mesh { name: 'data' size: 2 }"),
            "the Plan's mesh: the mesh has two axes named 'data'");
  EXPECT_EQ(ErrorOf("mesh { name: 'model' }"),
            "the Plan's mesh: axes 'data' and 'model' of the mesh have no size; only one can take "
            "the ranks that remain");
}

// The batch of the transformer has 4 rows.
TEST(CompletePlanErrorsTest, TheBatch) {
  const std::vector<Graph> graphs = {RecordTransformerTraining({})};
  Plan plan = ParsePlan("batch: 5 stages { mesh { name: 'data' } }");
  EXPECT_EQ(CompletePlan(plan, graphs, 2).status().message(),
            "the Plan is for a batch of 5 rows, but input 'tokens' of graph 'train' has 4");
  plan.set_batch(4);
  const auto completed = CompletePlan(plan, graphs, 2);
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->batch(), 4);
}

TEST(CompletePlanErrorsTest, Stores) {
  EXPECT_EQ(ErrorOf("store { path: 'tokens' layout: 'model: S(0)' }"),
            "the Plan's store 'tokens': the mesh (data: 2) has no axis 'model'");
  EXPECT_EQ(ErrorOf("store { path: 'tokenz' layout: 'data: S(0)' }"),
            "the Plan's store 'tokenz': no state or input of the graphs 'train', 'evaluate' "
            "matches; did you mean 'tokens'?");
  EXPECT_EQ(ErrorOf("store { path: 'blocks.*.mlp.fx.*' layout: 'data: S(0)' }"),
            "the Plan's store 'blocks.*.mlp.fx.*': no state or input of the graphs 'train', "
            "'evaluate' matches");
  EXPECT_EQ(ErrorOf("store { path: 'tokens|' layout: 'data: S(0)' }"),
            "the Plan's store 'tokens|': path 'tokens|' has an empty alternative");
  EXPECT_EQ(ErrorOf("store { path: 'tokens' layout: 'data: S(2)' }"),
            "the Plan's store 'tokens': 'tokens': layout 'data: S(2)' does not fit [4, 6]: S(2) "
            "along axis 'data' splits a dimension that is not in 0..1");
  EXPECT_EQ(ErrorOf("store { path: 'tokens' layout: 'data: Q' }"),
            "the Plan's store 'tokens': 'Q' is no layout; one is B, S(dimension), S(dimension, "
            "unit), P, P(max), P(min) or P(lse)");
  EXPECT_EQ(ErrorOf("store { path: 'wte.weight' layout: 'data: P' }"),
            "the Plan's store 'wte.weight': 'data: P' holds partial values; a store is S or B");
  EXPECT_EQ(ErrorOf("store { path: 'tokens|targets' layout: 'data: S(0)' } "
                    "store { path: 't*' layout: 'data: S(0)' }"),
            "the Plan's store 't*': 'tokens' is named by store 'tokens|targets' too; one of them "
            "must go");
}

TEST(CompletePlanErrorsTest, Operators) {
  EXPECT_EQ(
      ErrorOf("compute { path: 'blocks.*.mlp.fc.matmul' signature: 'data: S(9), B -> B' }"),
      "the Plan gives operator 'blocks.0.mlp.fc.matmul' the signature 'S(9), B -> B' along "
      "axis 'data', which matmul does not have in graph 'train'; it has B; S(0), B -> S(0); S(1), "
      "B -> S(1); B, S(0) -> S(2); S(2), S(1) -> P; P, B -> P; B, P -> P");
  EXPECT_EQ(
      ErrorOf("compute { path: 'blocks.*.mlp.fc.matmul' signature: 'data: S(0) -> S(0)' }"),
      "the Plan gives operator 'blocks.0.mlp.fc.matmul' the signature 'S(0) -> S(0)' along "
      "axis 'data', which matmul does not have in graph 'train'; it has B; S(0), B -> S(0); S(1), "
      "B -> S(1); B, S(0) -> S(2); S(2), S(1) -> P; P, B -> P; B, P -> P");
  EXPECT_EQ(
      ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'data: flat' }"),
      "the Plan gives operator 'ln_f.layer_norm' the signature 'flat' along axis 'data', "
      "which layer_norm does not have in graph 'train'; it has B; S(0), B, B -> S(0), S(0), S(0); "
      "S(1), B, B -> S(1), S(1), S(1); S(2), S(0), S(0) -> S(2), B, B (in parts)");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_nrm' signature: 'data: B' }"),
            "the Plan's compute 'ln_f.layer_nrm': no operator of the graphs 'train', 'evaluate' "
            "matches; did you mean 'ln_f.layer_norm'?");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'B, S(0) -> S(2)' }"),
            "the Plan's compute 'ln_f.layer_norm': 'B, S(0) -> S(2)' names no axis; a clause "
            "looks like 'data: S(0), B -> S(0)'");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'dat: B' }"),
            "the Plan's compute 'ln_f.layer_norm': the mesh (data: 2) has no axis 'dat'; did you "
            "mean 'data'?");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'data: S(0)' }"),
            "the Plan's compute 'ln_f.layer_norm': 'S(0)' is no signature; one looks like 'S(0), "
            "B -> S(0)'");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'data: B; data: B' }"),
            "the Plan's compute 'ln_f.layer_norm': axis 'data' is named twice");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'data: B' } "
                    "compute { path: 'ln_f.*' signature: 'data: B' }"),
            "the Plan's compute 'ln_f.*': 'ln_f.layer_norm' is named by compute "
            "'ln_f.layer_norm' too; one of them must go");
  EXPECT_EQ(ErrorOf("compute { path: 'ln_f.layer_norm' signature: 'data: B' } parts { "
                    "graph: 'train' compute { path: 'ln_f.layer_norm' signature: 'data: B' } }"),
            "the Plan's compute 'ln_f.layer_norm': 'ln_f.layer_norm' is named by compute "
            "'ln_f.layer_norm' too; one of them must go");
}

TEST(CompletePlanErrorsTest, ANewlineInATextIsEscaped) {
  for (const char* choice :
       {"store { path: 'a\\nb' layout: 'data: B' }", "store { path: 'a\\n|' layout: 'data: B' }",
        "store { path: 'tokens' layout: 'data: S(0)\\n, a\\nb: B' }",
        "compute { path: 'ln_f.layer_norm' signature: 'da\\nta: B' }",
        "compute { path: 'ln_f.layer_norm' signature: 'da\\nta' }",
        "group { path: 'wte\\n' over: 'data' }", "group { path: 'wte' over: 'a\\n' }"}) {
    EXPECT_NE(ErrorOf(choice), "");
  }
}

TEST(CompletePlanErrorsTest, Groups) {
  EXPECT_EQ(ErrorOf("group { path: 'blocks.*' }"),
            "the Plan's group 'blocks.*': it names no axis, such as over: \"data\"");
  EXPECT_EQ(ErrorOf("group { path: 'blocks.*' over: 'data' over: 'data' }"),
            "the Plan's group 'blocks.*': over: axis 'data' is named twice");
  EXPECT_EQ(ErrorOf("group { path: 'blocks.*' over: 'dat' }"),
            "the Plan's group 'blocks.*': the mesh (data: 2) has no axis 'dat'; did you mean "
            "'data'?");
  EXPECT_EQ(ErrorOf("group { path: 'block.*' over: 'data' }"),
            "the Plan's group 'block.*': no parameter of the graphs 'train', 'evaluate' matches");
  EXPECT_EQ(ErrorOf("group { path: 'blocks.*' over: 'data' } "
                    "group { path: 'blocks.0.ln1' over: 'data' }"),
            "the Plan's group 'blocks.0.ln1': 'blocks.0.ln1.weight' is named by group 'blocks.*' "
            "too; one of them must go");
  EXPECT_EQ(ErrorOf("store { path: 'wte.weight' layout: 'data: S(0)' } "
                    "group { path: 'wte' over: 'data' }"),
            "the Plan's group 'wte': 'wte.weight' is split over axis 'data' by store 'wte.weight' "
            "too; one of them must go");
  EXPECT_EQ(ErrorOf("store { path: 'wte.weight.adam_m' layout: 'data: S(0)' } "
                    "group { path: 'wte' over: 'data' }"),
            "the Plan's store 'wte.weight.adam_m': 'wte.weight.adam_m' belongs to 'wte.weight', "
            "which is in a flat group; it is stored with it");
}

TEST(CompletePlanErrorsTest, WhatAGroupCannotDo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"again_over: 'data'",
       "again_over: 'data': the group is not split over that axis with another one after it"},
      {"again_over: 'data' gather: ONCE", "again_over: 'data': the group is gathered ONCE"},
      {"again_over: 'data' gather: AFTER_UPDATE",
       "again_over: 'data': the group is gathered AFTER_UPDATE, and never again; leave it out"},
      // A message may have numbers that no enumerator has.
      {"gather: 17", "gather: 17, which this version does not know"},
      {"reduce: -1", "reduce: -1, which this version does not know"},
      {"split_at_multiples_of: 0", "split_at_multiples_of: 0; it must be from 1 to 2^30"},
      {"split_at_multiples_of: 1073741825",
       "split_at_multiples_of: 1073741825; it must be from 1 to 2^30"}};
  for (const auto& [options, error] : cases) {
    EXPECT_EQ(ErrorOf("group { path: 'wte' over: 'data' " + options + " }"),
              "the Plan's group 'wte': " + error);
  }
}

TEST(CompletePlanErrorsTest, LayoutsWithoutAMesh) {
  const auto completed =
      CompletePlan(ParsePlan("stages { store { path: 'tokens' layout: 'data: S(0)' } }"), {}, 1);
  EXPECT_EQ(std::string(completed.status().message()),
            "the Plan has no mesh, but a layout for store 'tokens'; name an axis: mesh { name: "
            "\"data\" }");
  EXPECT_EQ(
      std::string(CompletePlan(Plan(), {}, 2).status().message()),
      "the Plan has no mesh for the 2 ranks of the job; name an axis: mesh { name: \"data\" }");
}

TEST(CompletePlanErrorsTest, APartForAnotherGraph) {
  EXPECT_EQ(ErrorOf("parts { graph: 'train' fingerprint: '00' }"),
            "the Plan was made for another graph 'train': its fingerprint is 00, this graph's "
            "f484c6ea05dfa9f9365e94d83bf8711f. Model, sizes and optimizer must be those that it "
            "was made with");
}

}  // namespace
}  // namespace tessera

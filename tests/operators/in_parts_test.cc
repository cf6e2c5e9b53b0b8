// Checks that what an operator is made of in parts (Operator::RecordInParts) computes what the
// operator does. That each part may be computed in its layouts is checked like that of any other
// operator; tests/plans/in_parts_training_test.cc trains with both.
#include "core/plan/rewrite/in_parts.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/operators/array.h"
#include "tests/operators/cases.h"
#include "tests/operators/interpreter.h"

namespace tessera::operator_tests {
namespace {

using Given = std::map<std::string, std::vector<double>>;

bool HasParts(const PreparedCase& prepared) {
  return absl::c_any_of(prepared.op->StatedSignatures(prepared.types()),
                        [](const Signature& signature) { return signature.in_parts; });
}

// A Graph of one use of an operator.
struct Whole {
  Graph graph{"whole"};
  Given given;

  explicit Whole(const PreparedCase& prepared) {
    std::vector<Tensor> inputs;
    for (const TensorType& type : prepared.inputs) {
      const std::string path = absl::StrCat("input_", inputs.size());
      given[path] = prepared.values[inputs.size()];
      inputs.push_back(graph.Input(path, type));
    }
    graph.Record(*prepared.op, inputs, prepared.attributes);
  }
};

TEST(InPartsTest, PartsComputeWhatTheOperatorDoes) {
  const auto reference = MakeReferenceBackend();
  std::set<std::string> ops;
  for (const Case& use : AllCases()) {
    // Rows of a cache that are not finite are not read.
    if (!(use.finite || use.op == "attention_decode") || !use.regions.empty()) continue;
    SCOPED_TRACE(use.name);
    const auto prepared = Prepare(use, *reference);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    if (!HasParts(*prepared)) continue;
    const Whole whole(*prepared);
    ASSERT_TRUE(whole.graph.status().ok()) << whole.graph.status();
    const Op& op = whole.graph.ops().back();
    const OpParts parts = PartsOf(whole.graph, op);
    ASSERT_GT(parts.graph.ops().size(), 1);
    ASSERT_EQ(parts.outputs.size(), op.outputs.size());
    const auto wanted = Interpret(whole.graph, *reference, whole.given);
    const auto actual = Interpret(parts.graph, *reference, whole.given);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    ASSERT_TRUE(actual.ok()) << actual.status();
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      EXPECT_EQ(Difference((*actual)[parts.outputs[i]], Values((*wanted)[op.outputs[i]]),
                           1e-12 * use.condition),
                "")
          << "output " << i;
    }
    ops.insert(std::string(op.kind->name()));
  }
  EXPECT_THAT(ops, ::testing::ElementsAre("attention_decode", "layer_norm", "layer_norm_grad",
                                          "linear_log_sum_exp", "linear_log_sum_exp_grad",
                                          "softmax", "softmax_grad"));
}

TEST(InPartsTest, TheSignaturesSplitAnInputAndNameAllOperands) {
  const auto reference = MakeReferenceBackend();
  for (const Case& use : AllCases()) {
    const auto prepared = Prepare(use, *reference);
    if (!prepared.ok() || !HasParts(*prepared)) continue;
    for (const Signature& signature : prepared->op->StatedSignatures(prepared->types())) {
      SCOPED_TRACE(absl::StrCat(use.name, ": ", signature.ToString()));
      EXPECT_EQ(signature.inputs.size(), prepared->inputs.size());
      EXPECT_EQ(signature.outputs.size(), prepared->outputs.size());
      EXPECT_TRUE(absl::c_any_of(signature.inputs,
                                 [](const AxisLayout& layout) { return layout.split(); }));
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests

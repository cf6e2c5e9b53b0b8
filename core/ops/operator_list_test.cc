#include "core/ops/operator_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

TEST(OperatorList, NamesAreUniqueAndFindTheirOperator) {
  std::set<std::string> names;
  for (const Operator* kind : AllOperators()) {
    const std::string name(kind->name().data(), kind->name().size());
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(FindOperator(name), kind);
    EXPECT_TRUE(std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || c == '_';
    })) << name;
  }
  EXPECT_EQ(FindOperator("no_such_operator"), nullptr);
  EXPECT_EQ(FindOperator(""), nullptr);
}

// tests/operators uses the name of a gradient operator to find its operator.
TEST(OperatorList, AGradientOperatorIsNamedForItsOperator) {
  for (const Operator* kind : AllOperators()) {
    const absl::string_view name = kind->name();
    if (!absl::EndsWith(name, "_grad")) continue;
    EXPECT_NE(FindOperator(absl::StripSuffix(name, "_grad")), nullptr)
        << "'" << name << "' is the gradient of no operator: name it for its operator";
  }
}

TEST(OperatorList, ShapeRulesRefuseNothingAtAllWithoutEndingTheProgram) {
  for (const Operator* kind : AllOperators()) {
    const auto types = kind->InferTypes({}, {});
    EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument) << kind->name();
  }
}

// A saved Graph may contain anything: a shape rule returns types, or an error in one line.
TEST(OperatorList, ShapeRulesEndureAnyNumberAndRankOfInputs) {
  for (const Operator* kind : AllOperators()) {
    for (DType dtype : {DType::kF32, DType::kI32, DType::kU8}) {
      for (int count = 0; count <= 9; ++count) {
        for (int rank = 0; rank <= 5; ++rank) {
          const std::vector<TensorType> inputs(count, {dtype, Shape(rank, 2)});
          for (const Attributes& attributes :
               {Attributes(), Attributes({{"axis", int64_t{-1}},
                                          {"axes", std::vector<int64_t>{9}},
                                          {"shape", std::vector<int64_t>{-1}},
                                          {"dtype", int64_t{0}},
                                          {"sizes", std::vector<int64_t>{-1}},
                                          {"eps", -1.0},
                                          {"permutation", std::vector<int64_t>{7, 7}},
                                          {"keep_dims", true},
                                          {"transpose_a", true},
                                          {"transpose_b", true},
                                          {"causal", true},
                                          {"scale", 1.0},
                                          {"momentum", 0.5},
                                          {"weight_decay", 0.0},
                                          {"rows", int64_t{-1}}})}) {
            const auto types = kind->InferTypes(inputs, attributes);
            if (types.ok()) continue;
            EXPECT_EQ(types.status().message().find('\n'), absl::string_view::npos);
            EXPECT_FALSE(types.status().message().empty());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera

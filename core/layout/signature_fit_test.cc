#include "core/layout/signature_fit.h"

#include <string>
#include <vector>

#include "core/ids/id.h"
#include "core/layout/layout_text.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

class SignatureFitTest : public ::testing::Test {
 protected:
  void AddSignatures(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) signatures_.push_back(*ParseSignature(text));
  }
  FittedUse use() const { return {signatures_, inputs_, outputs_}; }

  // "?" is an input that can be brought to any layout.
  static std::vector<Arriving> Layouts(const std::vector<std::string>& texts) {
    std::vector<Arriving> layouts;
    for (const std::string& text : texts) {
      layouts.push_back(text == "?" ? Arriving() : Arriving(*ParseAxisLayout(text)));
    }
    return layouts;
  }

  std::string Best(const std::vector<std::string>& arriving, SplitAxis axis = {2, true}) const {
    const auto fit = BestSignature(use(), Layouts(arriving), axis);
    return fit.has_value() ? fit->ToString() : "none";
  }
  // Returns the signature, and the inputs that are gathered.
  std::string Fit(const std::vector<std::string>& arriving, const std::vector<int>& values) const {
    const std::vector<Id<Value>> ids(values.begin(), values.end());
    const auto fit = FitOrGather(use(), Layouts(arriving), ids, {2, true});
    if (!fit.has_value()) return "none";
    std::string text = fit->signature.ToString();
    for (size_t i = 0; i < fit->gathered.size(); ++i) {
      if (fit->gathered[i]) text += " gather " + std::to_string(i);
    }
    return text;
  }

  std::vector<Signature> signatures_;
  std::vector<TensorType> inputs_ = {{DType::kF32, {8, 6}}, {DType::kF32, {6, 4}}};
  std::vector<TensorType> outputs_ = {{DType::kF32, {8, 4}}};
};

TEST_F(SignatureFitTest, RowsOfGroupsFitWithinASplitOfTheGroups) {
  const auto fits = [](const std::string& inner, const std::string& outer) {
    return FitsWithin(*ParseSignature(inner), *ParseSignature(outer));
  };
  // The rows of x belong to groups of 2, whose sums the operator makes.
  EXPECT_FALSE(fits("S(0, 2) -> S(0)", "S(0, 7) -> P"));
  EXPECT_TRUE(fits("S(0, 2) -> S(0)", "S(0, 2) -> S(0)"));
  EXPECT_TRUE(fits("S(0, 2) -> S(0)", "S(1) -> P"));
  EXPECT_TRUE(fits("S(0, 2) -> S(0)", "B -> B"));
  EXPECT_TRUE(fits("S(0) -> P", "S(0, 2) -> S(0)"));
  // Operands of one unit may be independent of each other.
  EXPECT_TRUE(fits("S(0), S(0) -> P(min)", "S(0), B -> P(min)"));
}

TEST_F(SignatureFitTest, TakesWhatArrivesAndSplitsABroadcast) {
  AddSignatures({"P, B -> P", "S(0), B -> S(0)", "B, S(1) -> S(1)", "S(1), S(0) -> P"});
  EXPECT_EQ(Best({"S(0)", "B"}), "S(0), B -> S(0)");
  EXPECT_EQ(Best({"P", "B"}), "P, B -> P");
  EXPECT_EQ(Best({"S(1)", "B"}), "S(1), S(0) -> P");
  EXPECT_EQ(Best({"P(max)", "B"}), "none");
  EXPECT_EQ(Best({"P", "S(1)"}), "none");
  // The signature with the most split outputs is preferred.
  EXPECT_EQ(Best({"B", "B"}), "S(0), B -> S(0)");
}

TEST_F(SignatureFitTest, UnitsAreMultipliedTogether) {
  AddSignatures({"S(0), B -> S(0, 2)"});
  outputs_ = {{DType::kF32, {16, 4}}};
  EXPECT_EQ(Best({"S(0, 2)", "B"}), "S(0, 2), B -> S(0, 4)");
  EXPECT_EQ(Best({"S(0, 3)", "B"}), "none");  // 8 rows are no two equal parts of units of 3
  EXPECT_EQ(Best({"S(0, 3)", "B"}, {2, /*even=*/false}), "S(0, 3), B -> S(0, 6)");
}

TEST_F(SignatureFitTest, InputsOfTwoUnitsDoNotFitTogether) {
  AddSignatures({"S(0), S(0) -> S(0)"});
  EXPECT_EQ(Best({"S(0)", "S(0, 2)"}, {2, false}), "none");
  EXPECT_EQ(Best({"S(0, 2)", "S(0, 2)"}, {2, false}), "S(0, 2), S(0, 2) -> S(0, 2)");
}

// Two parts of 8 rows are the same in units of 1, 2 and 4; three parts are not.
TEST_F(SignatureFitTest, UnitsMayDifferWhereEachPartHasTheSameElements) {
  AddSignatures({"S(0), B -> P", "S(0, 4), B -> S(0)"});
  inputs_[1] = inputs_[0] = {DType::kF32, {8, 6}};
  outputs_ = {{DType::kF32, {2, 6}}};
  const SplitAxis ranks = {2, /*even=*/false, /*keeps_units=*/false};
  EXPECT_EQ(Best({"S(0)", "B"}, ranks), "S(0, 4), B -> S(0)");
  EXPECT_EQ(Best({"S(0, 2)", "B"}, ranks), "S(0, 4), B -> S(0)");
  EXPECT_EQ(Best({"S(0, 8)", "B"}, ranks), "S(0, 8), B -> S(0, 2)");
  EXPECT_EQ(Best({"S(1)", "B"}, ranks), "none");
  EXPECT_EQ(Best({"S(0)", "B"}, {3, false, false}), "S(0), B -> P");
  // Parts in time are read as they are.
  EXPECT_EQ(Best({"S(0)", "B"}), "S(0), B -> S(0)");
  EXPECT_EQ(Best({"S(0)", "B"}, {4, /*even=*/true}), "S(0), B -> P");
}

TEST_F(SignatureFitTest, AnInputThatCanBeBroughtToAnyLayoutFollowsTheOthers) {
  AddSignatures({"S(0), B -> S(0)", "B, S(1) -> S(1)", "S(1), S(0) -> P"});
  EXPECT_EQ(Best({"S(0)", "?"}), "S(0), B -> S(0)");
  EXPECT_EQ(Best({"S(1)", "?"}), "S(1), S(0) -> P");
  // An input that can be brought to any layout does not require a split by itself.
  EXPECT_EQ(Fit({"B", "?"}, {0, 1}), "none");
}

TEST_F(SignatureFitTest, PartialInputsAreGatheredBeforeSplitOnesAndAsFewAsPossible) {
  AddSignatures({"S(0), B -> S(0)", "P, P -> P"});
  EXPECT_EQ(Fit({"S(0)", "B"}, {0, 1}), "S(0), B -> S(0)");
  EXPECT_EQ(Fit({"S(0)", "P"}, {0, 1}), "S(0), B -> S(0) gather 1");
  EXPECT_EQ(Fit({"S(0)", "S(1)"}, {0, 1}), "S(0), B -> S(0) gather 1");
  EXPECT_EQ(Fit({"P", "P"}, {0, 1}), "P, P -> P");
  EXPECT_EQ(Fit({"P(max)", "P(max)"}, {0, 1}), "none");
  EXPECT_EQ(Fit({"B", "B"}, {0, 1}), "none");
  // One value that is both inputs is gathered for both.
  EXPECT_EQ(Fit({"S(0)", "S(0)"}, {0, 0}), "none");
  EXPECT_EQ(Fit({"S(0)", "S(0)"}, {0, 1}), "S(0), B -> S(0) gather 1");
}

TEST_F(SignatureFitTest, FindsTheSignatureThatMakesWhatIsRead) {
  AddSignatures({"P, B -> P", "S(0), B -> S(0)", "B, S(1) -> S(1)"});
  const auto making = [&](const std::string& read) {
    const auto fit = FindSignatureProducing(use(), Layouts({read}), {2, true});
    return fit.has_value() ? fit->ToString() : "none";
  };
  EXPECT_EQ(making("S(1, 2)"), "B, S(1, 2) -> S(1, 2)");
  EXPECT_EQ(making("S(0)"), "S(0), B -> S(0)");
  EXPECT_EQ(making("P"), "none");
  EXPECT_EQ(making("?"), "S(0), B -> S(0)");
}

}  // namespace
}  // namespace tessera

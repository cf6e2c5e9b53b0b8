// The validator of layout signatures finds operators that declare too much or too little.
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/layout/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/operators/signatures/case_space.h"
#include "tests/operators/signatures/signature_space.h"

namespace tessera::operator_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const AxisLayout kB = AxisLayout::Broadcast(), kP = AxisLayout::Partial();
AxisLayout S(int dim, int64_t unit = 1) { return AxisLayout::Split(dim, unit); }

// Decides a family whose operator declares the signatures that a test passes.
class DecideSignaturesTest : public ::testing::Test {
 protected:
  void Use(absl::string_view op, absl::string_view shapes) {
    for (const CaseFamily& family : FamiliesOf(op)) {
      if (family.shapes == shapes) family_ = family;
    }
    ASSERT_FALSE(family_.cases.empty()) << op << " " << shapes;
  }

  void Decide(const Declared& declared) {
    decided_ = DecideSignatures(family_, *reference_, declared);
  }
  void Decide(const std::vector<Signature>& declared) {
    Decide([&](const OpTypes& types) { return declared; });
  }

  std::vector<std::string> Missing() const { return Texts(decided_.missing); }
  std::vector<std::string> Texts(const std::vector<NamedSignature>& signatures) const {
    std::vector<std::string> texts;
    for (const NamedSignature& signature : signatures) texts.push_back(signature.ToString(family_));
    return texts;
  }

  const std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  CaseFamily family_;
  DecidedSignatures decided_;
};

const Signature kByRows = {{S(0), kB}, {S(0)}}, kByColumns = {{kB, S(1)}, {S(1)}},
                kBySum = {{S(1), S(0)}, {kP}}, kOfTermsA = {{kP, kB}, {kP}},
                kOfTermsB = {{kB, kP}, {kP}};

TEST_F(DecideSignaturesTest, AllOfMatmulAreRightAndNoneIsMissing) {
  Use("matmul", "[M, K], [K, N]");
  Decide({kByRows, kByColumns, kBySum, kOfTermsA, kOfTermsB});
  EXPECT_THAT(decided_.wrong, IsEmpty());
  EXPECT_THAT(Missing(), IsEmpty());
  EXPECT_THAT(Texts(decided_.declared), ElementsAre("S(0), B -> S(0)", "B, S(1) -> S(1)",
                                                    "S(1), S(0) -> P", "P, B -> P", "B, P -> P"));
  // B or one of four reductions of both inputs; or rows, columns or the sum is split, and the input
  // that is not may be partial.
  EXPECT_EQ(decided_.combinations, 25 + 5 + 5 + 1);
}

TEST_F(DecideSignaturesTest, EachThatIsNotDeclaredIsMissing) {
  Use("matmul", "[M, K], [K, N]");
  Decide({kByRows, kByColumns, kOfTermsA, kOfTermsB});
  EXPECT_THAT(Missing(), ElementsAre("S(1), S(0) -> P"));
  Decide({kByRows, kBySum, kOfTermsA});
  EXPECT_THAT(Missing(), ElementsAre("B, P -> P", "B, S(1) -> S(1)"));
  Decide(std::vector<Signature>());
  EXPECT_THAT(Missing(), ElementsAre("B, P -> P", "P, B -> P", "B, S(1) -> S(1)", "S(0), B -> S(0)",
                                     "S(1), S(0) -> P"));
}

TEST_F(DecideSignaturesTest, WrongOnesAreFound) {
  Use("matmul", "[M, K], [K, N]");
  const Signature as_split = {{S(1), S(0)}, {S(0)}}, as_complete = {{S(1), S(0)}, {kB}},
                  of_both = {{kP, kP}, {kP}},
                  as_max = {{S(1), S(0)}, {AxisLayout::Partial(AxisLayout::Reduction::kMax)}};
  for (const Signature& wrong : {as_split, as_complete, of_both, as_max}) {
    Decide({kByRows, wrong, kByColumns, kBySum, kOfTermsA, kOfTermsB});
    ASSERT_FALSE(decided_.wrong.empty()) << wrong.ToString();
    for (const std::string& text : decided_.wrong) {
      EXPECT_THAT(text, HasSubstr(wrong.ToString() + " at "));
    }
  }
}

TEST_F(DecideSignaturesTest, ABiasThatEachRankAddsIsWrong) {
  Use("add", "[R, C], [C]");
  Decide({{{kP, kB}, {kP}}});
  EXPECT_THAT(decided_.wrong, testing::Contains(HasSubstr("P, B -> P at R=5 C=7 on 2 ranks")));
}

TEST_F(DecideSignaturesTest, AnotherUnitIsWrong) {
  Use("reshape", "[B, T, C] to [R, C], R = B*T");
  Decide({{{S(0)}, {S(0)}}});
  EXPECT_THAT(decided_.wrong, testing::Contains(HasSubstr("S(0) -> S(0) at B=5 T=3 C=2 R=15")));
  EXPECT_THAT(Missing(), testing::Contains("S(0) -> S(0, T)"));
}

TEST_F(DecideSignaturesTest, OneThatIsDeclaredAtSomeSizesOnlyIsWrong) {
  Use("matmul", "[M, K], [K, N]");
  Decide([](const OpTypes& types) {
    std::vector<Signature> signatures = {kByRows, kByColumns, kOfTermsA, kOfTermsB};
    if (types.inputs[0].shape[0] == 5) signatures.push_back(kBySum);
    return signatures;
  });
  EXPECT_THAT(decided_.wrong,
              ElementsAre(HasSubstr("S(1), S(0) -> P at B=3 M=5 K=7 N=3 is not declared at")));
  EXPECT_THAT(Missing(), ElementsAre("S(1), S(0) -> P"));
}

}  // namespace
}  // namespace tessera::operator_tests

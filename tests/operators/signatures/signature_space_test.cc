// Every layout signature that an operator declares is right, and every right one that it does not
// declare is listed with a reason (known_signatures.cc). docs/layout-signatures.md shows both.
#include "tests/operators/signatures/signature_space.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/mesh.h"
#include "core/ops/operator_list.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/distributed_use.h"
#include "tests/operators/run_kernel.h"
#include "tests/operators/signatures/case_space.h"
#include "tests/operators/signatures/known_signatures.h"
#include "tests/operators/signatures/signature_page.h"

namespace tessera::operator_tests {
namespace {

// So many pairs of signatures of a use are checked on a mesh of two axes, or all if it has fewer.
constexpr size_t kMostPairs = 40;

constexpr char kRemedy[] = "run ./bazelw run //tests/operators/signatures:signature_table";

std::string ReadPage() {
  std::ifstream file("docs/layout-signatures.md");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the lines of the page that are rows of an operator.
std::string RowsOnPage(absl::string_view op) {
  std::string rows;
  for (absl::string_view line : absl::StrSplit(ReadPage(), '\n')) {
    if (absl::StartsWith(line, RowStart(op))) absl::StrAppend(&rows, line, "\n");
  }
  return rows;
}

class SignatureSpaceTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  const std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_P(SignatureSpaceTest, DeclaredAreRightAndRightOnesAreDeclared) {
  const std::string op(GetParam()->name());
  const std::vector<CaseFamily> families = FamiliesOf(op);
  ASSERT_FALSE(families.empty()) << "operator '" << op
                                 << "' has no form: add some to tests/operators/*_forms.cc";
  std::string rows;
  std::set<std::string> missing;
  for (const CaseFamily& family : families) {
    SCOPED_TRACE(absl::StrCat(op, " ", family.shapes));
    const DecidedSignatures decided = DecideSignatures(family, *reference_);
    for (const std::string& text : decided.wrong) ADD_FAILURE() << text;
    for (const NamedSignature& signature : decided.missing) {
      const std::string text = signature.ToString(family);
      missing.insert(text);
      EXPECT_NE(ReasonOfMissing(op, text), nullptr)
          << text << " is right: declare it in core/ops, or list it with a reason in "
          << "tests/operators/signatures/known_signatures.cc";
    }
    absl::StrAppend(&rows, PageRow(family, decided));
  }
  for (const KnownMissing& known : AllKnownMissing()) {
    if (std::find(known.ops.begin(), known.ops.end(), op) == known.ops.end()) continue;
    for (const std::string& text : known.signatures) {
      EXPECT_EQ(missing.count(text), 1u)
          << text
          << " is listed in tests/operators/signatures/known_signatures.cc, but it is not missing";
    }
  }
  EXPECT_EQ(RowsOnPage(op), rows) << kRemedy;
}

TEST_P(SignatureSpaceTest, PairsOnTwoAxesAreRight) {
  for (const CaseFamily& family : FamiliesOf(GetParam()->name())) {
    for (const SizedCase& size : family.cases) {
      SCOPED_TRACE(size.use.name);
      const auto use = Prepare(size.use, *reference_);
      ASSERT_TRUE(use.ok()) << use.status();
      const auto global = RunOperator(*reference_, *use->op, use->attributes,
                                      InputArrays(*use, *reference_), use->outputs);
      ASSERT_TRUE(global.ok()) << global.status();
      for (const auto& [outer, inner] : {std::pair{2, 2}, {2, 3}, {3, 2}}) {
        const Mesh mesh = *Mesh::Create({{"a", outer}, {"b", inner}});
        const std::vector<UseLayouts> all = LayoutsOnTwoAxes(*use, mesh);
        const RandomStream stream = MakeStream(9, absl::StrCat(size.use.name, outer, inner));
        const size_t count = std::min(kMostPairs, all.size());
        for (size_t i = 0; i < count; ++i) {
          const auto drawn =
              static_cast<size_t>(RandomUniform(stream, 0, i) * static_cast<double>(all.size()));
          const UseLayouts& layouts = all[all.size() <= kMostPairs ? i : drawn];
          EXPECT_EQ(CheckDistributed(*reference_, *use, layouts, mesh, *global), "")
              << layouts.ToString(mesh);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, SignatureSpaceTest,
                         ::testing::ValuesIn(AllOperators().begin(), AllOperators().end()),
                         [](const auto& info) { return std::string(info.param->name()); });

// Returns the only family of an operator with these shapes.
CaseFamily FamilyWith(absl::string_view op, absl::string_view shapes) {
  for (const CaseFamily& family : FamiliesOf(op)) {
    if (family.shapes == shapes) return family;
  }
  ADD_FAILURE() << "operator '" << op << "' has no form " << shapes;
  return {};
}

TEST(KnownSignatures, InputsThatNeedCommunicationHaveNoOutputs) {
  const auto reference = MakeReferenceBackend();
  for (const NeedsCommunication& wanted : AllNeedingCommunication()) {
    const CaseFamily family = FamilyWith(wanted.op, wanted.shapes);
    ASSERT_FALSE(family.cases.empty());
    for (const NamedSignature& right : RightSignaturesWith(family, *reference, wanted.inputs)) {
      ADD_FAILURE() << wanted.op << " " << wanted.shapes << ": " << right.ToString(family);
    }
  }
}

TEST(KnownSignatures, AreOfOperators) {
  for (const KnownMissing& known : AllKnownMissing()) {
    for (const std::string& op : known.ops) EXPECT_NE(FindOperator(op), nullptr) << op;
  }
}

TEST(CaseSpace, IsOfOperators) {
  for (const CaseFamily& family : CaseSpace()) {
    EXPECT_NE(FindOperator(family.op), nullptr) << family.op;
  }
}

TEST(SignaturePage, HasTheRowsOfAllOperatorsInOrder) {
  std::string page = PageHead();
  for (const Operator* op : AllOperators()) absl::StrAppend(&page, RowsOnPage(op->name()));
  EXPECT_EQ(ReadPage(), page + PageEnd()) << kRemedy;
}

}  // namespace
}  // namespace tessera::operator_tests

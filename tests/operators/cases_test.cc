// Checks that every operator has cases, and that every case is a valid use of its operator.
#include "tests/operators/cases.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "gtest/gtest.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

TEST(Cases, EveryOperatorHasSome) {
  for (const Operator* op : AllOperators()) {
    EXPECT_FALSE(CasesOf(op->name()).empty())
        << "operator '" << op->name() << "' has no case: add some to tests/operators/*_cases.cc";
  }
}

// Every operator has a row in docs/operators.md, with its name in the first column.
TEST(Cases, EveryOperatorIsDocumented) {
  std::ifstream file("docs/operators.md");
  ASSERT_TRUE(file.is_open());
  std::set<std::string> documented;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() < 3 || !cells[0].empty()) continue;
    const std::vector<std::string> words = absl::StrSplit(cells[1], '`');
    for (size_t i = 1; i < words.size(); i += 2) documented.insert(words[i]);
  }
  for (const Operator* kind : AllOperators()) {
    EXPECT_EQ(documented.erase(std::string(kind->name())), 1u)
        << "operator '" << kind->name() << "' has no row in docs/operators.md";
  }
  for (const std::string& name : documented) {
    ADD_FAILURE() << "docs/operators.md has a row for '" << name << "', which is no operator";
  }
}

TEST(Cases, EachIsLegalAndHasANameOfItsOwn) {
  const auto reference = MakeReferenceBackend();
  std::set<std::string> names;
  for (const Case& use : AllCases()) {
    EXPECT_TRUE(names.insert(use.name).second) << "two cases are called '" << use.name << "'";
    ASSERT_NE(FindOperator(use.op), nullptr) << use.name;
    const auto prepared = Prepare(use, *reference);
    EXPECT_TRUE(prepared.ok()) << use.name << ": " << prepared.status();
  }
}

TEST(Cases, TheReferenceRunsAllAndLeavesNothingUnwritten) {
  const auto reference = MakeReferenceBackend();
  for (const Case& use : AllCases()) {
    const auto prepared = Prepare(use, *reference);
    ASSERT_TRUE(prepared.ok()) << use.name << ": " << prepared.status();
    const auto outputs =
        RunOperator(*reference, *prepared->op, prepared->attributes,
                    InputArrays(*prepared, *reference), prepared->outputs, prepared->regions);
    ASSERT_TRUE(outputs.ok()) << use.name << ": " << outputs.status();
    if (!use.finite) continue;
    for (const Array& output : *outputs) {
      for (double value : Values(output)) ASSERT_TRUE(value == value) << use.name;
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests

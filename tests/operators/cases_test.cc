// That no operator is forgotten, and that every case is one.
#include "tests/operators/cases.h"

#include <set>
#include <string>

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
    const auto outputs = RunOperator(*reference, *prepared->op, prepared->attributes,
                                     InputArrays(*prepared, *reference), prepared->outputs);
    ASSERT_TRUE(outputs.ok()) << use.name << ": " << outputs.status();
    if (!use.finite) continue;
    for (const Array& output : *outputs) {
      for (double value : Values(output)) ASSERT_TRUE(value == value) << use.name;
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests

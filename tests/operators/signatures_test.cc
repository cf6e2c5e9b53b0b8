// Checks every layout signature on the reference backend: an operator that runs on the shards of
// its inputs gives the shards of its outputs without communication, on meshes of one and two axes.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/layout.h"
#include "core/layout/mesh_layout.h"
#include "core/ops/operator_list.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/distributed_use.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

constexpr int64_t kMostElements = 5000;  // Cases larger than this are for speed and threads.

// Larger cases are not run on meshes of two axes, which have many signatures.
constexpr int64_t kMostElementsOnTwoAxes = 300;

class SignaturesTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  // Calls check(prepared, global outputs) for each case of up to so many elements.
  template <typename Check>
  void ForEachCase(int64_t most_elements, const Check& check) {
    for (const Case& use : CasesOf(GetParam()->name())) {
      SCOPED_TRACE(use.name);
      if (!use.finite || !use.regions.empty()) continue;
      const auto prepared = Prepare(use, *reference_, DType::kF64);
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      if (prepared->elements() > most_elements) continue;
      const auto global = RunOperator(*reference_, *prepared->op, prepared->attributes,
                                      InputArrays(*prepared, *reference_), prepared->outputs);
      ASSERT_TRUE(global.ok()) << global.status();
      check(*prepared, *global);
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_P(SignaturesTest, PartsMakeTheGlobalValue) {
  ForEachCase(kMostElements, [&](const PreparedCase& prepared, const std::vector<Array>& global) {
    for (const Signature& signature : prepared.op->Signatures(prepared.types())) {
      for (int ranks : {2, 3}) {
        const Mesh mesh = *Mesh::Create({{"a", ranks}});
        SCOPED_TRACE(absl::StrCat(signature.ToString(), " over ", ranks));
        const UseLayouts layouts = With(AllBroadcast(prepared, mesh), 0, signature);
        ASSERT_EQ(CheckDistributed(*reference_, prepared, layouts, mesh, global), "");
      }
    }
  });
}

TEST_P(SignaturesTest, PartsOnTwoAxesMakeTheGlobalValue) {
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 3}});
  const auto check = [&](const PreparedCase& prepared, const std::vector<Array>& global) {
    for (const UseLayouts& layouts : LayoutsOnTwoAxes(prepared, mesh)) {
      SCOPED_TRACE(layouts.ToString(mesh));
      ASSERT_EQ(CheckDistributed(*reference_, prepared, layouts, mesh, global), "");
    }
  };
  ForEachCase(kMostElementsOnTwoAxes, check);
}

INSTANTIATE_TEST_SUITE_P(Operators, SignaturesTest,
                         ::testing::ValuesIn(AllOperators().begin(), AllOperators().end()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace tessera::operator_tests

// Compares the offsets and strides of views and assemblies with the contents that docs/operators.md
// defines.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

// Returns the (row-major) index of the element of input 0 that is element `index` of output
// `output`.
int64_t SourceOf(const PreparedCase& prepared, int output, const std::vector<int64_t>& index,
                 int64_t row_major_index) {
  const std::string name(prepared.op->name());
  if (name == "reshape") return row_major_index;
  const Shape& x = prepared.inputs[0].shape;
  std::vector<int64_t> source(x.size(), 0);
  if (name == "transpose") {
    const std::vector<int64_t>& permutation = prepared.attributes.GetInts("permutation");
    for (size_t d = 0; d < x.size(); ++d) source[permutation[d]] = index[d];
  } else if (name == "split") {
    source = index;
    const std::vector<int64_t>& sizes = prepared.attributes.GetInts("sizes");
    for (int i = 0; i < output; ++i) source[prepared.attributes.GetInt("axis")] += sizes[i];
  } else if (name == "expand") {
    for (size_t d = 0; d < x.size(); ++d) {
      source[d] = x[d] == 1 ? 0 : index[index.size() - x.size() + d];
    }
  } else {
    ADD_FAILURE() << "view '" << name << "' is not known to this test";
  }
  int64_t at = 0;
  for (size_t d = 0; d < x.size(); ++d) at += source[d] * RowMajorStrides(x)[d];
  return at;
}

std::vector<double> ExpectedView(const PreparedCase& prepared, int output,
                                 const std::vector<double>& input) {
  const Shape& shape = prepared.outputs[output].shape;
  const Strides strides = RowMajorStrides(shape);
  std::vector<double> expected;
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    std::vector<int64_t> index(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) index[d] = i / strides[d] % shape[d];
    expected.push_back(input[SourceOf(prepared, output, index, i)]);
  }
  return expected;
}

// Writes the inputs one after another along `axis`.
std::vector<double> ExpectedConcat(const PreparedCase& prepared) {
  const int64_t axis = prepared.attributes.GetInt("axis");
  const Shape& shape = prepared.outputs[0].shape;
  const Strides strides = RowMajorStrides(shape);
  std::vector<double> expected(NumElements(shape), 0);
  int64_t before = 0;
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    const Shape& part = prepared.inputs[i].shape;
    const Strides own = RowMajorStrides(part);
    for (int64_t j = 0; j < NumElements(part); ++j) {
      int64_t at = before * strides[axis];
      for (size_t d = 0; d < part.size(); ++d) at += j / own[d] % part[d] * strides[d];
      expected[at] = prepared.values[i][j];
    }
    before += part[axis];
  }
  return expected;
}

class ViewsTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  // Tries a view's input at several strides. With the first of them the output must always be a
  // view.
  void CheckView(const PreparedCase& prepared) {
    const Array input = InputArrays(prepared, *reference_)[0];
    std::vector<Array> inputs = {input};
    for (const StridePattern& pattern : StridePatterns(input.type.shape)) {
      inputs.push_back(WithStrides(input, pattern.strides));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      SCOPED_TRACE(i == 0 ? "row-major" : StridePatterns(input.type.shape)[i - 1].name);
      for (size_t output = 0; output < prepared.outputs.size(); ++output) {
        const auto place =
            prepared.op->View(prepared.types(), static_cast<int>(output), inputs[i].strides);
        if (!place.has_value()) {
          // Only merging dimensions can need a copy.
          EXPECT_EQ(prepared.op->name(), "reshape");
          EXPECT_NE(i, 0u);
          continue;
        }
        const Array view{{input.type.dtype, prepared.outputs[output].shape},
                         place->strides,
                         inputs[i].offset + place->offset,
                         inputs[i].bytes};
        EXPECT_EQ(Values(view),
                  ExpectedView(prepared, static_cast<int>(output), Values(inputs[i])));
      }
    }
  }

  void CheckAssembly(const PreparedCase& prepared) {
    const auto outputs = RunOperator(*reference_, *prepared.op, prepared.attributes,
                                     InputArrays(prepared, *reference_), prepared.outputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(Values((*outputs)[0]), ExpectedConcat(prepared));
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_P(ViewsTest, LieWhereTheirElementsAre) {
  for (const Case& use : CasesOf(GetParam()->name())) {
    SCOPED_TRACE(use.name);
    const auto prepared = Prepare(use, *reference_);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    if (GetParam()->is_view()) {
      CheckView(*prepared);
    } else {
      ASSERT_EQ(GetParam()->name(), "concat") << "an assembly that is not known to this test";
      CheckAssembly(*prepared);
    }
  }
}

std::vector<const Operator*> ViewsAndAssemblies() {
  std::vector<const Operator*> operators;
  for (const Operator* op : AllOperators()) {
    if (op->is_view() || op->is_assembly()) operators.push_back(op);
  }
  return operators;
}

INSTANTIATE_TEST_SUITE_P(Operators, ViewsTest, ::testing::ValuesIn(ViewsAndAssemblies()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace tessera::operator_tests

// Every layout signature: an operator that runs on the parts of its inputs gives the parts of its
// outputs, with no communication in between. On the reference backend.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/layout.h"
#include "core/ops/operator_list.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

constexpr int64_t kMostElements = 5000;  // Cases larger than this are for speed and threads.

// The part of a tensor that one of `members` holds: elements [start, start + size) per dimension.
struct Part {
  std::vector<int64_t> start;
  Shape size;
};

Part PartOf(const Shape& shape, const AxisLayout& layout, int member, int members) {
  Part part{std::vector<int64_t>(shape.size(), 0), shape};
  if (!layout.split()) return part;
  const int64_t global = shape[layout.dim];
  const int64_t units = global / layout.unit;
  const int64_t length = (units + members - 1) / members * layout.unit;
  const int64_t start = std::min(global, member * length);
  part.start[layout.dim] = start;
  part.size[layout.dim] = std::min(length, global - start);
  return part;
}

// The row-major index in the global tensor of each element of a part, in row-major order.
std::vector<int64_t> IndicesOf(const Part& part, const Shape& global) {
  const Strides strides = RowMajorStrides(global), own = RowMajorStrides(part.size);
  std::vector<int64_t> indices(NumElements(part.size), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t d = 0; d < global.size(); ++d) {
      indices[i] += (part.start[d] + static_cast<int64_t>(i) / own[d] % part.size[d]) * strides[d];
    }
  }
  return indices;
}

// Brings together what members hold of one element of a partial tensor.
double Combine(AxisLayout::Reduction reduction, const std::vector<double>& shares) {
  double result = 0;
  const double max = *std::max_element(shares.begin(), shares.end());
  switch (reduction) {
    case AxisLayout::Reduction::kSum:
      for (double share : shares) result += share;
      return result;
    case AxisLayout::Reduction::kMax:
      return max;
    case AxisLayout::Reduction::kLogSumExp:
      for (double share : shares) result += std::exp(share - max);
      return max + std::log(result);
  }
  return 0;
}

// Draws shares that combine to `global`.
std::vector<double> SharesOf(double global, DType dtype, AxisLayout::Reduction reduction,
                             int members, RandomStream stream, int64_t element) {
  const bool integer = !IsFloating(dtype);
  std::vector<double> shares(members);
  const auto draw = [&](int member) { return RandomUniform(stream, member, element); };
  const int owner = static_cast<int>(draw(members) * members);
  double rest = global;
  for (int m = 0; m < members; ++m) {
    switch (reduction) {
      case AxisLayout::Reduction::kSum:
        shares[m] = 4 * draw(m) - 2;
        if (integer) shares[m] = std::round(10 * shares[m]);
        if (dtype == DType::kU8) shares[m] = std::floor(draw(m) * rest);
        if (m + 1 == members) shares[m] = rest;
        rest -= shares[m];
        break;
      case AxisLayout::Reduction::kMax:
        shares[m] = m == owner ? global : global - (integer ? 1 : draw(m));
        break;
      case AxisLayout::Reduction::kLogSumExp:
        shares[m] = global - std::log(static_cast<double>(members));
        break;
    }
  }
  return shares;
}

class SignaturesTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  // The part of input i that each member holds.
  std::vector<std::vector<double>> Cut(const PreparedCase& prepared, int i,
                                       const AxisLayout& layout, int members) {
    const std::vector<double>& global = prepared.values[i];
    std::vector<std::vector<double>> parts(members);
    const RandomStream stream = MakeStream(4, absl::StrCat("share of ", i));
    for (size_t j = 0; j < global.size() && layout.partial(); ++j) {
      const std::vector<double> shares =
          SharesOf(global[j], prepared.inputs[i].dtype, layout.reduction, members, stream,
                   static_cast<int64_t>(j));
      for (int m = 0; m < members; ++m) parts[m].push_back(shares[m]);
    }
    for (int m = 0; m < members && !layout.partial(); ++m) {
      const Shape& shape = prepared.inputs[i].shape;
      for (int64_t j : IndicesOf(PartOf(shape, layout, m, members), shape)) {
        parts[m].push_back(global[j]);
      }
    }
    return parts;
  }

  // The outputs that one member computes from its parts of the inputs.
  absl::StatusOr<std::vector<Array>> RunMember(
      const PreparedCase& prepared, const Signature& signature, int member, int members,
      const std::vector<std::vector<std::vector<double>>>& parts) {
    std::vector<TensorType> input_types, output_types;
    std::vector<Region> regions;
    std::vector<Array> inputs;
    for (size_t i = 0; i < prepared.inputs.size(); ++i) {
      const TensorType& global = prepared.inputs[i];
      input_types.push_back(
          {global.dtype, PartOf(global.shape, signature.inputs[i], member, members).size});
      inputs.push_back(MakeArray({reference_->Realize(global.dtype), input_types.back().shape},
                                 parts[i][member]));
    }
    for (size_t i = 0; i < prepared.outputs.size(); ++i) {
      const TensorType& global = prepared.outputs[i];
      const Part part = PartOf(global.shape, signature.outputs[i], member, members);
      output_types.push_back({global.dtype, part.size});
      regions.push_back({part.start, {global.shape.begin(), global.shape.end()}});
    }
    const Attributes attributes =
        prepared.op->LocalAttributes(prepared.attributes, output_types, regions);
    const auto inferred = prepared.op->InferTypes(input_types, attributes);
    if (!inferred.ok()) return inferred.status();
    if (*inferred != output_types) {
      return absl::InternalError("the layouts of the outputs are not what the shape rule says");
    }
    return RunOperator(*reference_, *prepared.op, attributes, inputs, output_types);
  }

  // Compares the parts of output i that members computed with the global output.
  std::string Compare(const PreparedCase& prepared, int i, const AxisLayout& layout,
                      const std::vector<std::vector<Array>>& outputs, const Array& global) {
    const int members = static_cast<int>(outputs.size());
    const Shape& shape = global.type.shape;
    std::vector<double> combined(NumElements(shape), 0);
    std::vector<std::vector<double>> held;
    for (const std::vector<Array>& member : outputs) held.push_back(Values(member[i]));
    for (size_t j = 0; j < combined.size() && layout.partial(); ++j) {
      std::vector<double> shares;
      for (const std::vector<double>& values : held) shares.push_back(values[j]);
      combined[j] = Combine(layout.reduction, shares);
    }
    for (int m = 0; m < members && !layout.partial(); ++m) {
      const std::vector<int64_t> indices = IndicesOf(PartOf(shape, layout, m, members), shape);
      for (size_t j = 0; j < indices.size(); ++j) combined[indices[j]] = held[m][j];
      if (layout.broadcast() && held[m] != held[0]) return "members differ";
    }
    return Difference(global, combined, 1e-11);
  }

  void CheckSignature(const PreparedCase& prepared, const Signature& signature, int members,
                      const std::vector<Array>& global) {
    ASSERT_EQ(signature.inputs.size(), prepared.inputs.size());
    ASSERT_EQ(signature.outputs.size(), prepared.outputs.size());
    std::vector<std::vector<std::vector<double>>> parts;  // by input and member
    for (size_t i = 0; i < prepared.inputs.size(); ++i) {
      parts.push_back(Cut(prepared, static_cast<int>(i), signature.inputs[i], members));
    }
    std::vector<std::vector<Array>> outputs;  // by member and output
    for (int m = 0; m < members; ++m) {
      auto results = RunMember(prepared, signature, m, members, parts);
      ASSERT_TRUE(results.ok()) << "member " << m << ": " << results.status();
      outputs.push_back(*std::move(results));
    }
    for (size_t i = 0; i < global.size(); ++i) {
      EXPECT_EQ(Compare(prepared, static_cast<int>(i), signature.outputs[i], outputs, global[i]),
                "")
          << "output " << i;
    }
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_P(SignaturesTest, PartsMakeTheWhole) {
  for (const Case& use : CasesOf(GetParam()->name())) {
    SCOPED_TRACE(use.name);
    if (!use.finite) continue;
    const auto prepared = Prepare(use, *reference_, DType::kF64);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    if (prepared->elements() > kMostElements) continue;
    const auto global = RunOperator(*reference_, *prepared->op, prepared->attributes,
                                    InputArrays(*prepared, *reference_), prepared->outputs);
    ASSERT_TRUE(global.ok()) << global.status();
    for (const Signature& signature : prepared->op->Signatures(prepared->types())) {
      for (int members : {2, 3}) {
        SCOPED_TRACE(absl::StrCat(signature.ToString(), " over ", members));
        CheckSignature(*prepared, signature, members, *global);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, SignaturesTest,
                         ::testing::ValuesIn(AllOperators().begin(), AllOperators().end()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace tessera::operator_tests

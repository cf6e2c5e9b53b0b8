// Checks every layout signature on the reference backend: an operator that runs on the shards of
// its inputs gives the shards of its outputs without communication, on meshes of one and two axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/layout.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/testing/rank_arrays.h"
#include "core/ops/operator_list.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

constexpr int64_t kMostElements = 5000;  // Cases larger than this are for speed and threads.

// Larger cases are not run on meshes of two axes, which have many signatures.
constexpr int64_t kMostElementsOnTwoAxes = 300;

// The layouts in which an operator's use is computed on a mesh.
struct UseLayouts {
  std::vector<MeshLayout> inputs;
  std::vector<MeshLayout> outputs;

  std::string ToString(const Mesh& mesh) const {
    const auto print = [&](std::string* out, const MeshLayout& layout) {
      absl::StrAppend(out, "'", layout.ToString(mesh), "'");
    };
    return absl::StrCat(absl::StrJoin(inputs, ", ", print), " -> ",
                        absl::StrJoin(outputs, ", ", print));
  }
};

// One rank's part of an operator's use: the types and regions of its shards of all values.
struct LocalPart {
  std::vector<TensorType> inputs, outputs;
  std::vector<Region> input_regions, output_regions;

  Attributes AttributesOf(const PreparedCase& prepared) const {
    return prepared.op->LocalAttributes(prepared.attributes,
                                        {inputs, outputs, input_regions, output_regions});
  }
};

void AddPart(const TensorType& global, const MeshLayout& layout, const Mesh& mesh, int rank,
             std::vector<TensorType>* types, std::vector<Region>* regions) {
  const Box box = BoxOf(layout, global.shape, mesh, mesh.CoordinatesOf(rank));
  types->push_back({global.dtype, box.extent});
  Region& region = regions->emplace_back();
  region.start = box.start;
  region.global = global.shape;
}

LocalPart PartOf(const PreparedCase& prepared, const UseLayouts& layouts, const Mesh& mesh,
                 int rank) {
  LocalPart part;
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    AddPart(prepared.inputs[i], layouts.inputs[i], mesh, rank, &part.inputs, &part.input_regions);
  }
  for (size_t i = 0; i < prepared.outputs.size(); ++i) {
    AddPart(prepared.outputs[i], layouts.outputs[i], mesh, rank, &part.outputs,
            &part.output_regions);
  }
  return part;
}

// Returns the row-major index in the global tensor of each element of a box, in row-major order.
std::vector<int64_t> IndicesOf(const Box& box, const Shape& global) {
  const Strides strides = RowMajorStrides(global), own = RowMajorStrides(box.extent);
  std::vector<int64_t> indices(NumElements(box.extent), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t d = 0; d < global.size(); ++d) {
      indices[i] += (box.start[d] + static_cast<int64_t>(i) / own[d] % box.extent[d]) * strides[d];
    }
  }
  return indices;
}

std::vector<int> PartialAxes(const MeshLayout& layout) {
  std::vector<int> axes;
  for (int i = 0; i < layout.num_axes(); ++i) {
    if (layout.axis(i).partial()) axes.push_back(i);
  }
  return axes;
}

// Draws the partial values of the ranks, which combine to `global`.
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
      case AxisLayout::Reduction::kMin:
        shares[m] = m == owner ? global : global + (integer ? 1 : draw(m));
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
  // Returns the shard of input i on each rank.
  std::vector<std::vector<double>> Distribute(const PreparedCase& prepared, int i,
                                              const MeshLayout& layout, const Mesh& mesh) {
    const std::vector<double>& global = prepared.values[i];
    const TensorType& type = prepared.inputs[i];
    const std::vector<int> partial = PartialAxes(layout);
    const RandomStream stream = MakeStream(4, absl::StrCat("share of ", i));
    std::vector<std::vector<double>> held(mesh.size());
    for (const std::vector<int>& group : mesh.GroupsAlong(partial)) {
      const Box box = BoxOf(layout, type.shape, mesh, mesh.CoordinatesOf(group[0]));
      for (const int64_t j : IndicesOf(box, type.shape)) {
        std::vector<double> shares = {global[j]};
        if (!partial.empty()) {
          shares = SharesOf(global[j], type.dtype, layout.axis(partial[0]).reduction,
                            static_cast<int>(group.size()), stream, j);
        }
        for (size_t m = 0; m < group.size(); ++m) held[group[m]].push_back(shares[m]);
      }
    }
    return held;
  }

  // Returns the outputs that one rank computes from its shards of the inputs.
  absl::StatusOr<std::vector<Array>> RunRank(
      const PreparedCase& prepared, const LocalPart& part, int rank,
      const std::vector<std::vector<std::vector<double>>>& held) {
    std::vector<Array> inputs;
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      const TensorType& type = part.inputs[i];
      inputs.push_back(MakeArray({reference_->Realize(type.dtype), type.shape}, held[i][rank]));
    }
    const Attributes attributes = part.AttributesOf(prepared);
    const auto inferred = prepared.op->InferTypes(part.inputs, attributes);
    if (!inferred.ok()) return inferred.status();
    if (*inferred != part.outputs) {
      return absl::InternalError("the layouts of the outputs are not what the shape rule says");
    }
    return RunOperator(*reference_, *prepared.op, attributes, inputs, part.outputs,
                       {part.input_regions, part.output_regions});
  }

  // Compares the ranks' shards of output i with the global output.
  std::string Compare(int i, const MeshLayout& layout, const Mesh& mesh,
                      const std::vector<std::vector<Array>>& outputs, const Array& global) {
    const Shape& shape = global.type.shape;
    const std::vector<int> partial = PartialAxes(layout);
    std::vector<double> combined(NumElements(shape), 0);
    std::vector<bool> known(combined.size(), false);
    for (const std::vector<int>& group : mesh.GroupsAlong(partial)) {
      std::vector<std::vector<double>> held;
      for (int rank : group) held.push_back(Values(outputs[rank][i]));
      const Box box = BoxOf(layout, shape, mesh, mesh.CoordinatesOf(group[0]));
      const std::vector<int64_t> indices = IndicesOf(box, shape);
      for (size_t j = 0; j < indices.size(); ++j) {
        std::vector<double> shares;
        for (const std::vector<double>& values : held) shares.push_back(values[j]);
        const double value =
            partial.empty() ? shares[0] : Combine(layout.axis(partial[0]).reduction, shares);
        if (known[indices[j]] && combined[indices[j]] != value) return "ranks differ";
        combined[indices[j]] = value;
        known[indices[j]] = true;
      }
    }
    if (std::find(known.begin(), known.end(), false) != known.end()) return "elements are missing";
    return Difference(global, combined, 1e-11);
  }

  void CheckLayouts(const PreparedCase& prepared, const UseLayouts& layouts, const Mesh& mesh,
                    const std::vector<Array>& global) {
    ASSERT_EQ(layouts.inputs.size(), prepared.inputs.size());
    ASSERT_EQ(layouts.outputs.size(), prepared.outputs.size());
    std::vector<std::vector<std::vector<double>>> held;  // by input and rank
    for (size_t i = 0; i < prepared.inputs.size(); ++i) {
      held.push_back(Distribute(prepared, static_cast<int>(i), layouts.inputs[i], mesh));
    }
    std::vector<std::vector<Array>> outputs;  // by rank and output
    for (int rank = 0; rank < mesh.size(); ++rank) {
      auto results = RunRank(prepared, PartOf(prepared, layouts, mesh, rank), rank, held);
      ASSERT_TRUE(results.ok()) << "rank " << rank << ": " << results.status();
      outputs.push_back(*std::move(results));
    }
    for (size_t i = 0; i < global.size(); ++i) {
      EXPECT_EQ(Compare(static_cast<int>(i), layouts.outputs[i], mesh, outputs, global[i]), "")
          << "output " << i;
    }
  }

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

// Returns `layouts` with the layouts of a signature along `axis`.
UseLayouts With(UseLayouts layouts, int axis, const Signature& signature) {
  for (size_t i = 0; i < layouts.inputs.size(); ++i) {
    layouts.inputs[i] = layouts.inputs[i].With(axis, signature.inputs[i]);
  }
  for (size_t i = 0; i < layouts.outputs.size(); ++i) {
    layouts.outputs[i] = layouts.outputs[i].With(axis, signature.outputs[i]);
  }
  return layouts;
}

UseLayouts AllBroadcast(const PreparedCase& prepared, const Mesh& mesh) {
  const MeshLayout broadcast(mesh.num_axes());
  return {std::vector<MeshLayout>(prepared.inputs.size(), broadcast),
          std::vector<MeshLayout>(prepared.outputs.size(), broadcast)};
}

// Returns whether no value is a sum along one axis and a maximum along another.
bool AreLayouts(const PreparedCase& prepared, const UseLayouts& layouts, const Mesh& mesh) {
  for (size_t i = 0; i < layouts.inputs.size(); ++i) {
    if (!CheckLayout(layouts.inputs[i], prepared.inputs[i].shape, mesh).ok()) return false;
  }
  for (size_t i = 0; i < layouts.outputs.size(); ++i) {
    if (!CheckLayout(layouts.outputs[i], prepared.outputs[i].shape, mesh).ok()) return false;
  }
  return true;
}

TEST_P(SignaturesTest, PartsMakeTheGlobalValue) {
  ForEachCase(kMostElements, [&](const PreparedCase& prepared, const std::vector<Array>& global) {
    for (const Signature& signature : prepared.op->Signatures(prepared.types())) {
      for (int ranks : {2, 3}) {
        const Mesh mesh = *Mesh::Create({{"a", ranks}});
        SCOPED_TRACE(absl::StrCat(signature.ToString(), " over ", ranks));
        CheckLayouts(prepared, With(AllBroadcast(prepared, mesh), 0, signature), mesh, global);
        if (HasFatalFailure()) return;
      }
    }
  });
}

// The signature of the second axis is one for the padded local types after the first axis.
TEST_P(SignaturesTest, PartsOnTwoAxesMakeTheGlobalValue) {
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 3}});
  const auto check = [&](const PreparedCase& prepared, const std::vector<Array>& global) {
    for (const Signature& outer : prepared.op->Signatures(prepared.types())) {
      const UseLayouts once = With(AllBroadcast(prepared, mesh), 0, outer);
      const LocalPart local = PartOf(prepared, once, mesh, 0);
      const Attributes attributes = local.AttributesOf(prepared);
      for (const Signature& inner :
           prepared.op->Signatures({local.inputs, local.outputs, attributes})) {
        const UseLayouts twice = With(once, 1, inner);
        if (!AreLayouts(prepared, twice, mesh)) continue;
        SCOPED_TRACE(twice.ToString(mesh));
        CheckLayouts(prepared, twice, mesh, global);
        if (HasFatalFailure()) return;
      }
    }
  };
  ForEachCase(kMostElementsOnTwoAxes, check);
}

INSTANTIATE_TEST_SUITE_P(Operators, SignaturesTest,
                         ::testing::ValuesIn(AllOperators().begin(), AllOperators().end()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace tessera::operator_tests

#include "tests/operators/signatures/signature_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/layout/mesh_layout.h"
#include "core/status/check.h"
#include "core/tensor/random.h"

namespace tessera::operator_tests {
namespace {

constexpr double kTolerance = 1e-11;
constexpr int kBroadcast = 0;  // the index of B among the layouts of an output

MeshLayout OnOneAxis(const AxisLayout& layout) { return MeshLayout(1).With(0, layout); }

// Returns the row-major index in the global tensor of each element of a shard.
std::vector<int64_t> IndicesOf(const Shard& shard) {
  const Shape& shape = shard.type.shape;
  const Strides strides = RowMajorStrides(shard.region.global), own = RowMajorStrides(shape);
  std::vector<int64_t> indices(NumElements(shape), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t at = static_cast<int64_t>(i) / own[d] % shape[d];
      indices[i] += (shard.region.start[d] + at) * strides[d];
    }
  }
  return indices;
}

double RootMeanSquare(const std::vector<double>& values) {
  double squares = 0;
  for (double value : values) squares += std::isfinite(value) ? value * value : 0;
  return std::sqrt(squares / static_cast<double>(std::max<size_t>(1, values.size())));
}

}  // namespace

SignatureTrial::SignatureTrial(Backend* reference, const PreparedCase* prepared,
                               absl::Span<const Array> global, Layouts layouts, int ranks, int draw)
    : reference_(reference),
      prepared_(prepared),
      layouts_(std::move(layouts)),
      mesh_(*Mesh::Create({{"a", ranks}})) {
  for (const Array& output : global) {
    global_.push_back(Values(output));
    magnitudes_.push_back(RootMeanSquare(global_.back()));
  }
  for (size_t i = 0; i < layouts_.inputs.size(); ++i) {
    std::vector<Held>& held = inputs_.emplace_back();
    for (const AxisLayout& layout : layouts_.inputs[i]) {
      held.push_back(HoldInput(static_cast<int>(i), layout, draw));
    }
  }
  for (size_t i = 0; i < layouts_.outputs.size(); ++i) {
    TESSERA_CHECK(layouts_.outputs[i][kBroadcast].broadcast());
    std::vector<Held>& held = outputs_.emplace_back();
    for (const AxisLayout& layout : layouts_.outputs[i]) {
      held.push_back(HoldOutput(static_cast<int>(i), layout));
    }
  }
}

SignatureTrial::Held SignatureTrial::HoldInput(int input, const AxisLayout& layout,
                                               int draw) const {
  const MeshLayout on_mesh = OnOneAxis(layout);
  const RandomStream stream = MakeStream(4, absl::StrCat("share of ", input, " draw ", draw));
  const auto values = Distribute(*prepared_, input, on_mesh, mesh_, stream);
  Held held;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    held.shards.push_back(ShardOf(prepared_->inputs[input], on_mesh, mesh_, rank));
    const TensorType& type = held.shards.back().type;
    held.arrays.push_back(MakeArray({reference_->Realize(type.dtype), type.shape}, values[rank]));
  }
  return held;
}

SignatureTrial::Held SignatureTrial::HoldOutput(int output, const AxisLayout& layout) const {
  Held held;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    held.shards.push_back(ShardOf(prepared_->outputs[output], OnOneAxis(layout), mesh_, rank));
    held.indices.push_back(IndicesOf(held.shards.back()));
  }
  return held;
}

LocalPart SignatureTrial::PartOf(const LayoutIndices& inputs, const LayoutIndices& computed,
                                 int rank) const {
  LocalPart part;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shard& shard = inputs_[i][inputs[i]].shards[rank];
    part.inputs.push_back(shard.type);
    part.input_regions.push_back(shard.region);
  }
  for (size_t i = 0; i < computed.size(); ++i) {
    const Shard& shard = outputs_[i][computed[i]].shards[rank];
    part.outputs.push_back(shard.type);
    part.output_regions.push_back(shard.region);
  }
  return part;
}

std::vector<Outcome> SignatureTrial::Possible(const LayoutIndices& inputs) const {
  const size_t count = outputs_.size();
  std::vector<LayoutIndices> computed;
  Attributes last;
  absl::StatusOr<std::vector<TensorType>> types = absl::UnknownError("");
  LocalPart part = PartOf(inputs, LayoutIndices(count, kBroadcast), 0);
  for (size_t first = 0; first < outputs_[0].size(); ++first) {
    if (layouts_.outputs[0][first].partial()) continue;
    const Shard& shard = outputs_[0][first].shards[0];
    part.outputs[0] = shard.type;
    part.output_regions[0] = shard.region;
    Attributes attributes = part.AttributesOf(*prepared_);
    if (first == 0 || !(attributes == last)) {
      types = prepared_->op->InferTypes(part.inputs, attributes);
      last = std::move(attributes);
    }
    if (!types.ok() || (*types)[0] != shard.type) continue;
    std::vector<LayoutIndices> with_first = {{static_cast<int>(first)}};
    for (size_t i = 1; i < count; ++i) {
      std::vector<LayoutIndices> longer;
      for (const LayoutIndices& start : with_first) {
        for (size_t l = 0; l < outputs_[i].size(); ++l) {
          if (layouts_.outputs[i][l].partial()) continue;
          if (outputs_[i][l].shards[0].type != (*types)[i]) continue;
          longer.push_back(start);
          longer.back().push_back(static_cast<int>(l));
        }
      }
      with_first = std::move(longer);
    }
    computed.insert(computed.end(), with_first.begin(), with_first.end());
  }
  std::vector<Outcome> outcomes;
  for (LayoutIndices& indices : computed) {
    Outcome& outcome = outcomes.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      LayoutIndices& right = outcome.right.emplace_back();
      right.push_back(indices[i]);
      for (size_t l = 0; indices[i] == kBroadcast && l < outputs_[i].size(); ++l) {
        if (layouts_.outputs[i][l].partial()) right.push_back(static_cast<int>(l));
      }
    }
    outcome.computed = std::move(indices);
  }
  return outcomes;
}

bool SignatureTrial::Run(const LayoutIndices& inputs, const LayoutIndices& computed,
                         std::vector<RankOutputs>& outputs) const {
  const LocalPart first = PartOf(inputs, computed, 0);
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    const LocalPart part = PartOf(inputs, computed, rank);
    RankOutputs& results = outputs.emplace_back();
    const RankWork work = WorkOf(*prepared_->op, part, first);
    if (work == RankWork::kNothing) results.resize(computed.size());
    if (work != RankWork::kKernel) continue;
    std::vector<Array> arrays;
    for (size_t i = 0; i < inputs.size(); ++i) {
      arrays.push_back(inputs_[i][inputs[i]].arrays[rank]);
    }
    const auto arrays_out = RunPart(*reference_, *prepared_, part, arrays);
    if (!arrays_out.ok()) return false;
    for (const Array& array : *arrays_out) results.push_back(Values(array));
  }
  return true;
}

bool SignatureTrial::IsClose(int output, int64_t index, double value) const {
  const double wanted = global_[output][index];
  if (value == wanted || (std::isnan(value) && std::isnan(wanted))) return true;
  const double allowed = kTolerance * (std::abs(wanted) + magnitudes_[output]);
  return std::isfinite(wanted) && std::abs(value - wanted) <= allowed;
}

bool SignatureTrial::IsRight(int output, int layout,
                             const std::vector<RankOutputs>& outputs) const {
  const AxisLayout& axis = layouts_.outputs[output][layout];
  const Held& held = outputs_[output][layout];
  if (!axis.partial()) {
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      const std::vector<int64_t>& indices = held.indices[rank];
      if (outputs[rank].empty() && !indices.empty()) return false;
      for (size_t j = 0; j < indices.size(); ++j) {
        if (!IsClose(output, indices[j], outputs[rank][output][j])) return false;
      }
    }
    return true;
  }
  const double identity = IdentityOf(axis.reduction, prepared_->outputs[output].dtype);
  std::vector<double> shares(mesh_.size());
  for (size_t j = 0; j < global_[output].size(); ++j) {
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      shares[rank] = outputs[rank].empty() ? identity : outputs[rank][output][j];
    }
    if (!IsClose(output, static_cast<int64_t>(j), Reduced(axis.reduction, shares))) return false;
  }
  return true;
}

bool SignatureTrial::LeavesNothing(const LayoutIndices& inputs, Outcome& outcome) const {
  std::vector<RankOutputs> outputs;
  if (!Run(inputs, outcome.computed, outputs)) return true;
  for (size_t i = 0; i < outcome.right.size(); ++i) {
    LayoutIndices& right = outcome.right[i];
    right.erase(
        std::remove_if(right.begin(), right.end(),
                       [&](int layout) { return !IsRight(static_cast<int>(i), layout, outputs); }),
        right.end());
    if (right.empty()) return true;
  }
  return false;
}

}  // namespace tessera::operator_tests

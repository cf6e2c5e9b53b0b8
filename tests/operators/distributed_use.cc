#include "tests/operators/distributed_use.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/testing/rank_arrays.h"
#include "core/status/status_macros.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

using Reduction = AxisLayout::Reduction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-11;

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

// Draws the partial values of one element.
class ShareDraw {
 public:
  // `values` are those of the global tensor.
  ShareDraw(DType dtype, absl::Span<const double> values, RandomStream stream, int64_t element)
      : dtype_(dtype),
        integer_(!IsFloating(dtype)),
        values_(values),
        stream_(stream),
        element_(element) {}

  std::vector<double> Shares(Reduction reduction, int members) const {
    switch (reduction) {
      case Reduction::kSum:
        return Terms(members);
      case Reduction::kMax:
      case Reduction::kMin:
        return Beyond(reduction, members);
      case Reduction::kLogSumExp:
        return LogShares(members);
    }
    return {};
  }

 private:
  double global() const { return values_[element_]; }
  double Uniform(int draw) const { return RandomUniform(stream_, draw, element_); }
  int Owner(int members) const { return static_cast<int>(Uniform(100) * members); }

  std::vector<double> Terms(int members) const {
    // A sum may be infinite although its terms are not.
    if (std::isinf(global()) && Uniform(101) < 0.5) {
      return std::vector<double>(members,
                                 std::copysign(std::numeric_limits<double>::max(), global()));
    }
    std::vector<double> shares(members);
    double rest = global();
    for (int m = 0; m + 1 < members; ++m) {
      shares[m] = 4 * Uniform(m) - 2;
      if (integer_) shares[m] = std::round(10 * shares[m]);
      if (dtype_ == DType::kU8) shares[m] = std::floor(Uniform(m) * (rest + 1));
      if (Uniform(200 + m) < 0.15) shares[m] = 0;
      rest -= shares[m];
    }
    shares.back() = rest;
    return shares;
  }

  // Returns shares of which one is the true value, and the others are not above it, or not below.
  std::vector<double> Beyond(Reduction reduction, int members) const {
    const double sign = reduction == Reduction::kMax ? -1 : 1;
    const int owner = Owner(members);
    std::vector<double> shares(members, global());
    for (int m = 0; m < members; ++m) {
      if (m == owner) continue;
      const double kind = Uniform(200 + m);
      const auto other =
          static_cast<size_t>(Uniform(300 + m) * static_cast<double>(values_.size()));
      if (kind < 0.2) {
        shares[m] = IdentityOf(reduction, dtype_);
      } else if (kind < 0.5 && sign * values_[other] > sign * global()) {
        shares[m] = values_[other];
      } else if (kind < 0.85) {
        shares[m] += sign * (integer_ ? std::floor(1 + 3 * Uniform(m)) : 2 * Uniform(m));
      }
      if (dtype_ == DType::kU8) shares[m] = std::clamp(shares[m], 0.0, 255.0);
    }
    return shares;
  }

  std::vector<double> LogShares(int members) const {
    std::vector<double> weights(members);
    double sum = 0;
    for (int m = 0; m < members; ++m) {
      weights[m] = m != Owner(members) && Uniform(200 + m) < 0.2 ? 0 : 0.1 + Uniform(m);
      sum += weights[m];
    }
    for (double& weight : weights) {
      weight = weight == 0 ? -kInfinity : global() + std::log(weight / sum);
    }
    return weights;
  }

  const DType dtype_;
  const bool integer_;
  const absl::Span<const double> values_;
  const RandomStream stream_;
  const int64_t element_;
};

void AddPart(const TensorType& global, const MeshLayout& layout, const Mesh& mesh, int rank,
             std::vector<TensorType>& types, std::vector<Region>& regions) {
  Shard shard = ShardOf(global, layout, mesh, rank);
  types.push_back(std::move(shard.type));
  regions.push_back(std::move(shard.region));
}

bool AreLayouts(absl::Span<const MeshLayout> layouts, absl::Span<const TensorType> types,
                const Mesh& mesh) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!CheckLayout(layouts[i], types[i].shape, mesh).ok()) return false;
  }
  return true;
}

bool IsEmpty(const TensorType& type) { return NumElements(type.shape) == 0; }

// Returns the outputs of a rank that lacks an input; an error if one that it has is not partial.
absl::StatusOr<std::vector<Array>> Identities(const Backend& reference, const LocalPart& part,
                                              const UseLayouts& layouts) {
  std::vector<Array> outputs;
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    const TensorType& type = part.outputs[i];
    const std::vector<int> partial = PartialAxes(layouts.outputs[i]);
    if (partial.empty() && !IsEmpty(type)) {
      return absl::InternalError(absl::StrCat("it lacks an input of output ", i));
    }
    const double value =
        partial.empty() ? 0 : IdentityOf(layouts.outputs[i].axis(partial[0]).reduction, type.dtype);
    outputs.push_back(MakeArray({reference.Realize(type.dtype), type.shape},
                                std::vector<double>(NumElements(type.shape), value)));
  }
  return outputs;
}

// Compares the ranks' shards of output i with the global output.
std::string Compare(int i, const MeshLayout& layout, const Mesh& mesh,
                    absl::Span<const std::vector<Array>> outputs, const Array& global) {
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
          partial.empty() ? shares[0] : Reduced(layout.axis(partial[0]).reduction, shares);
      if (known[indices[j]] && combined[indices[j]] != value) return "ranks differ";
      combined[indices[j]] = value;
      known[indices[j]] = true;
    }
  }
  if (std::find(known.begin(), known.end(), false) != known.end()) return "elements are missing";
  return Difference(global, combined, kTolerance);
}

}  // namespace

std::string UseLayouts::ToString(const Mesh& mesh) const {
  const auto print = [&](std::string* out, const MeshLayout& layout) {
    absl::StrAppend(out, "'", layout.ToString(mesh), "'");
  };
  return absl::StrCat(absl::StrJoin(inputs, ", ", print), " -> ",
                      absl::StrJoin(outputs, ", ", print));
}

std::vector<Signature> WithoutCommunication(const Operator& op, const OpTypes& types) {
  std::vector<Signature> signatures = op.AllSignatures(types);
  signatures.erase(std::remove_if(signatures.begin(), signatures.end(),
                                  [](const Signature& signature) { return signature.in_parts; }),
                   signatures.end());
  return signatures;
}

UseLayouts AllBroadcast(const PreparedCase& prepared, const Mesh& mesh) {
  const MeshLayout broadcast(mesh.num_axes());
  return {std::vector<MeshLayout>(prepared.inputs.size(), broadcast),
          std::vector<MeshLayout>(prepared.outputs.size(), broadcast)};
}

UseLayouts With(UseLayouts layouts, int axis, const Signature& signature) {
  for (size_t i = 0; i < layouts.inputs.size(); ++i) {
    layouts.inputs[i] = layouts.inputs[i].With(axis, signature.inputs[i]);
  }
  for (size_t i = 0; i < layouts.outputs.size(); ++i) {
    layouts.outputs[i] = layouts.outputs[i].With(axis, signature.outputs[i]);
  }
  return layouts;
}

std::vector<UseLayouts> LayoutsOnTwoAxes(const PreparedCase& prepared, const Mesh& mesh) {
  std::vector<UseLayouts> pairs;
  for (const Signature& outer : WithoutCommunication(*prepared.op, prepared.types())) {
    const UseLayouts once = With(AllBroadcast(prepared, mesh), 0, outer);
    const LocalPart local = PartOf(prepared, once, mesh, 0);
    const Attributes attributes = local.AttributesOf(prepared);
    for (const Signature& inner :
         WithoutCommunication(*prepared.op, {local.inputs, local.outputs, attributes})) {
      UseLayouts twice = With(once, 1, inner);
      if (!AreLayouts(twice.inputs, prepared.inputs, mesh)) continue;
      if (!AreLayouts(twice.outputs, prepared.outputs, mesh)) continue;
      pairs.push_back(std::move(twice));
    }
  }
  return pairs;
}

Shard ShardOf(const TensorType& global, const MeshLayout& layout, const Mesh& mesh, int rank) {
  const Box box = BoxOf(layout, global.shape, mesh, mesh.CoordinatesOf(rank));
  Shard shard;
  shard.type = {global.dtype, box.extent};
  shard.region.start = box.start;
  shard.region.global = global.shape;
  return shard;
}

LocalPart PartOf(const PreparedCase& prepared, const UseLayouts& layouts, const Mesh& mesh,
                 int rank) {
  LocalPart part;
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    AddPart(prepared.inputs[i], layouts.inputs[i], mesh, rank, part.inputs, part.input_regions);
  }
  for (size_t i = 0; i < prepared.outputs.size(); ++i) {
    AddPart(prepared.outputs[i], layouts.outputs[i], mesh, rank, part.outputs, part.output_regions);
  }
  return part;
}

std::vector<std::vector<double>> Distribute(const PreparedCase& prepared, int i,
                                            const MeshLayout& layout, const Mesh& mesh,
                                            RandomStream stream) {
  const std::vector<double>& global = prepared.values[i];
  const TensorType& type = prepared.inputs[i];
  const std::vector<int> partial = PartialAxes(layout);
  std::vector<std::vector<double>> held(mesh.size());
  for (const std::vector<int>& group : mesh.GroupsAlong(partial)) {
    const Box box = BoxOf(layout, type.shape, mesh, mesh.CoordinatesOf(group[0]));
    for (const int64_t j : IndicesOf(box, type.shape)) {
      std::vector<double> shares = {global[j]};
      if (!partial.empty()) {
        shares = ShareDraw(type.dtype, global, stream, j)
                     .Shares(layout.axis(partial[0]).reduction, static_cast<int>(group.size()));
      }
      for (size_t m = 0; m < group.size(); ++m) held[group[m]].push_back(shares[m]);
    }
  }
  return held;
}

double Reduced(Reduction reduction, absl::Span<const double> shares) {
  for (double share : shares) {
    if (std::isnan(share)) return share;
  }
  return Combine(reduction, shares);
}

double IdentityOf(Reduction reduction, DType dtype) {
  if (reduction == Reduction::kSum) return 0;
  const bool min = reduction == Reduction::kMin;
  switch (dtype) {
    case DType::kU8:
      return min ? 255 : 0;
    case DType::kI32:
      return min ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int32_t>::min();
    case DType::kI64:
      return min ? 0x1p62 : -0x1p62;  // a double holds neither bound and numbers next to it
    default:
      return min ? kInfinity : -kInfinity;
  }
}

RankWork WorkOf(const Operator& op, const LocalPart& part, const LocalPart& first) {
  if (std::all_of(part.outputs.begin(), part.outputs.end(), IsEmpty) &&
      !std::all_of(first.outputs.begin(), first.outputs.end(), IsEmpty)) {
    return RankWork::kNothing;
  }
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    const bool lacks = IsEmpty(part.inputs[i]) && !IsEmpty(first.inputs[i]);
    if (lacks && !op.TakesEmptyInputs()) return RankWork::kIdentity;
  }
  return RankWork::kKernel;
}

absl::StatusOr<std::vector<Array>> RunPart(Backend& reference, const PreparedCase& prepared,
                                           const LocalPart& part, absl::Span<const Array> inputs) {
  const Attributes attributes = part.AttributesOf(prepared);
  const auto inferred = prepared.op->InferTypes(part.inputs, attributes);
  if (!inferred.ok()) return inferred.status();
  if (*inferred != part.outputs) {
    return absl::InternalError("the layouts of the outputs are not what the shape rule says");
  }
  return RunOperator(reference, *prepared.op, attributes, inputs, part.outputs,
                     {part.input_regions, part.output_regions});
}

std::string CheckDistributed(Backend& reference, const PreparedCase& prepared,
                             const UseLayouts& layouts, const Mesh& mesh,
                             absl::Span<const Array> global, int draw) {
  if (layouts.inputs.size() != prepared.inputs.size() ||
      layouts.outputs.size() != prepared.outputs.size()) {
    return "the signature has another number of operands";
  }
  std::vector<std::vector<std::vector<double>>> held;  // by input and rank
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    const RandomStream stream = MakeStream(4, absl::StrCat("share of ", i, " draw ", draw));
    held.push_back(Distribute(prepared, static_cast<int>(i), layouts.inputs[i], mesh, stream));
  }
  const LocalPart first = PartOf(prepared, layouts, mesh, 0);
  std::vector<std::vector<Array>> outputs;  // by rank and output
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const LocalPart part = PartOf(prepared, layouts, mesh, rank);
    absl::StatusOr<std::vector<Array>> results;
    if (WorkOf(*prepared.op, part, first) == RankWork::kKernel) {
      std::vector<Array> inputs;
      for (size_t i = 0; i < part.inputs.size(); ++i) {
        const TensorType& type = part.inputs[i];
        inputs.push_back(MakeArray({reference.Realize(type.dtype), type.shape}, held[i][rank]));
      }
      results = RunPart(reference, prepared, part, inputs);
    } else {
      results = Identities(reference, part, layouts);
    }
    if (!results.ok()) return absl::StrCat("rank ", rank, ": ", results.status().ToString());
    outputs.push_back(*std::move(results));
  }
  for (size_t i = 0; i < global.size(); ++i) {
    const std::string difference =
        Compare(static_cast<int>(i), layouts.outputs[i], mesh, outputs, global[i]);
    if (!difference.empty()) return absl::StrCat("output ", i, ": ", difference);
  }
  return "";
}

}  // namespace tessera::operator_tests

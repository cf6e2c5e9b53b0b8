#include "strategies/api/split_regions.h"

#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"

namespace tessera::strategy {
namespace {

constexpr int kSequence = 1, kHiddenRank = 3;  // of [batch, sequence, hidden]

bool AllPartial(const Signature& signature) {
  return !signature.outputs.empty() && absl::c_all_of(signature.outputs, IsPartial);
}

bool AllSplit(const Signature& signature) {
  return !signature.outputs.empty() &&
         absl::c_all_of(signature.outputs,
                        [](const std::string& layout) { return SplitDimension(layout) >= 0; });
}

}  // namespace

SplitRegions::SplitRegions(const GraphProto& graph, const OperatorDescriptions& operators)
    : graph_(graph) {
  for (const GraphProto::State& state : graph.states()) {
    if (state.role() != GraphProto::PARAMETER || state.input() < 0) continue;
    parameters_[state.input()] = state.path();
    weights_[state.input()] = -1;
  }
  for (int i = 0; i < graph.ops_size() && i < operators.operators_size(); ++i) {
    const GraphProto::Op& op = graph.ops(i);
    if (op.phase() != GraphProto::FORWARD) continue;
    const bool of_weights =
        !op.inputs().empty() && absl::c_all_of(op.inputs(), [&](int v) { return IsWeight(v); });
    if (of_weights) {
      for (const int value : op.outputs()) weights_[value] = static_cast<int>(ops_.size());
    }
    Op& added = ops_.emplace_back();
    added.op = &op;
    for (const std::string& text : operators.operators(i).signatures()) {
      Signature signature = ParseSignature(text);
      // Below, signatures have a layout of each input and output.
      const bool is_of_op = signature.inputs.size() == static_cast<size_t>(op.inputs_size()) &&
                            signature.outputs.size() == static_cast<size_t>(op.outputs_size());
      if (is_of_op) added.signatures.push_back(std::move(signature));
    }
  }
  for (size_t i = 0; i < ops_.size(); ++i) {
    Op& op = ops_[i];
    for (const Signature& signature : op.signatures) {
      if (op.chosen != nullptr) break;
      if (!Fits(op, signature, {}) || !SplitsWeight(op, signature)) continue;
      if (AllSplit(signature) && IsProduct(op)) FindRegion(i, signature);
      if (!AllPartial(signature)) continue;
      SplitParameters(op, signature);
      op.chosen = &signature;
      op.edge = true;
    }
  }
}

bool SplitRegions::Reads(const Op& op, const Dimensions& split) {
  return absl::c_any_of(op.op->inputs(), [&](int value) { return split.count(value) > 0; });
}

bool SplitRegions::Fits(const Op& op, const Signature& signature, const Dimensions& split) const {
  for (int k = 0; k < op.op->inputs_size(); ++k) {
    const int value = op.op->inputs(k);
    const auto found = split.find(value);
    if (found == split.end() ? !IsWeight(value) && signature.inputs[k] != "B"
                             : SplitDimension(signature.inputs[k]) != found->second) {
      return false;
    }
  }
  return true;
}

bool SplitRegions::SplitsWeight(const Op& op, const Signature& signature) const {
  for (int k = 0; k < op.op->inputs_size(); ++k) {
    if (IsWeight(op.op->inputs(k)) && SplitDimension(signature.inputs[k]) >= 0) return true;
  }
  return false;
}

bool SplitRegions::IsProduct(const Op& op) const {
  return absl::c_any_of(op.signatures, [&](const Signature& signature) {
    return AllPartial(signature) && SplitsWeight(op, signature) && !Fits(op, signature, {});
  });
}

void SplitRegions::FindRegion(size_t first, const Signature& signature) {
  Dimensions split;
  std::map<size_t, const Signature*> chosen;
  bool ends = false;
  const auto choose = [&](size_t i, const Signature& by) {
    chosen[i] = &by;
    for (size_t k = 0; k < by.outputs.size(); ++k) {
      const int dimension = SplitDimension(by.outputs[k]);
      if (dimension >= 0) split[ops_[i].op->outputs(k)] = dimension;
    }
  };
  choose(first, signature);
  for (size_t i = first + 1; i < ops_.size(); ++i) {
    const Op& op = ops_[i];
    if (!Reads(op, split)) continue;
    const auto found = absl::c_find_if(op.signatures, [&](const Signature& by) {
      return Fits(op, by, split) && (AllSplit(by) || (AllPartial(by) && SplitsWeight(op, by)));
    });
    // Without a signature, split values would be gathered here.
    if (op.chosen != nullptr || found == op.signatures.end()) return;
    ends |= AllPartial(*found);
    choose(i, *found);
  }
  if (!ends) return;
  for (const auto& [i, by] : chosen) {
    Op& op = ops_[i];
    op.chosen = by;
    op.edge = i == first || AllPartial(*by);
    SplitParameters(op, *by);
  }
}

void SplitRegions::SplitParameters(const Op& op, const Signature& signature) {
  for (int k = 0; k < op.op->inputs_size(); ++k) {
    const int dimension = SplitDimension(signature.inputs[k]), value = op.op->inputs(k);
    const auto weight = weights_.find(value);
    if (weight == weights_.end() || dimension < 0) continue;
    if (weight->second < 0) {
      uses_.try_emplace(parameters_[value], Use{signature.inputs[k], op.op->path(), k});
      continue;
    }
    const Op& maker = ops_[weight->second];
    const size_t output = absl::c_find(maker.op->outputs(), value) - maker.op->outputs().begin();
    const auto found = absl::c_find_if(maker.signatures, [&](const Signature& by) {
      return SplitDimension(by.outputs[output]) == dimension;
    });
    if (found != maker.signatures.end()) SplitParameters(maker, *found);
  }
}

std::vector<SplitRegions::Choice> SplitRegions::Edges() const {
  std::vector<Choice> edges;
  for (const Op& op : ops_) {
    if (op.edge) edges.push_back({op.op->path(), op.chosen->text});
  }
  return edges;
}

std::vector<SplitRegions::Choice> SplitRegions::OnSequence() const {
  std::vector<Choice> on_sequence;
  Dimensions split;
  for (const Op& op : ops_) {
    if (op.chosen != nullptr) {
      for (size_t k = 0; k < op.chosen->outputs.size(); ++k) {
        const int value = op.op->outputs(k);
        if (!IsPartial(op.chosen->outputs[k])) continue;
        if (graph_.values(value).type().shape_size() == kHiddenRank) split[value] = kSequence;
      }
      continue;
    }
    if (!Reads(op, split)) continue;
    const auto found = absl::c_find_if(op.signatures, [&](const Signature& by) {
      return Fits(op, by, split) && SplitDimension(by.outputs.front()) == kSequence;
    });
    if (found == op.signatures.end()) continue;
    on_sequence.push_back({op.op->path(), found->text});
    for (size_t k = 0; k < found->outputs.size(); ++k) {
      const int dimension = SplitDimension(found->outputs[k]);
      if (dimension >= 0) split[op.op->outputs(k)] = dimension;
    }
  }
  return on_sequence;
}

}  // namespace tessera::strategy

#include "tests/operators/signatures/signature_space.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/mesh.h"
#include "core/ops/operator_list.h"
#include "core/status/check.h"
#include "tests/operators/distributed_use.h"
#include "tests/operators/run_kernel.h"
#include "tests/operators/signatures/signature_trial.h"

namespace tessera::operator_tests {
namespace {

constexpr int kDraws = 2;

// If inputs have more combinations of layouts than this, at most two kinds of layouts besides B are
// tried together: splits along dimensions of one letter in one unit are one kind, and so are
// partial values of one reduction.
constexpr double kMostCombinations = 12000;

using Candidates = std::vector<NamedLayout>;  // of one operand

Candidates PartialsOf(DType dtype) {
  using Reduction = AxisLayout::Reduction;
  Candidates partials;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    partials.push_back({AxisLayout::Partial(reduction)});
  }
  if (IsFloating(dtype)) partials.push_back({AxisLayout::Partial(Reduction::kLogSumExp)});
  return partials;
}

// A family, prepared at each of its sizes.
class FamilySpace {
 public:
  FamilySpace(const CaseFamily& family, Backend& reference)
      : family_(family), reference_(reference) {
    for (const SizedCase& size : family.cases) {
      auto prepared = Prepare(size.use, reference);
      TESSERA_CHECK(prepared.ok()) << size.use.name << ": " << prepared.status();
      prepared_.push_back(*std::move(prepared));
      const PreparedCase& use = prepared_.back();
      auto global =
          RunOperator(reference, *use.op, use.attributes, InputArrays(use, reference), use.outputs);
      TESSERA_CHECK(global.ok()) << size.use.name << ": " << global.status();
      global_.push_back(*std::move(global));
    }
    for (size_t i = 0; i < prepared_[0].inputs.size(); ++i) {
      inputs_.push_back(Splits(&PreparedCase::inputs, i));
      if (!IsRead(i)) continue;
      const Candidates partials = PartialsOf(prepared_[0].inputs[i].dtype);
      inputs_[i].insert(inputs_[i].end(), partials.begin(), partials.end());
    }
    for (size_t i = 0; i < prepared_[0].outputs.size(); ++i) {
      outputs_.push_back(Splits(&PreparedCase::outputs, i));
      const Candidates partials = PartialsOf(prepared_[0].outputs[i].dtype);
      outputs_[i].insert(outputs_[i].end(), partials.begin(), partials.end());
    }
  }

  // Sets the signatures that are declared at every size, and appends what is wrong with others.
  void CheckDeclared(const Declared& declared, DecidedSignatures& decided) {
    std::vector<std::vector<Signature>> at_sizes;
    for (const PreparedCase& use : prepared_) at_sizes.push_back(declared(use.types()));
    for (size_t s = 0; s < at_sizes.size(); ++s) {
      for (const Signature& signature : at_sizes[s]) {
        CheckOne(s, signature, decided.wrong);
        const std::optional<NamedSignature> named = NameOf(s, signature, at_sizes);
        if (!named.has_value()) {
          decided.wrong.push_back(absl::StrCat(signature.ToString(), " at ", family_.cases[s].sizes,
                                               " is not declared at every size"));
        } else if (s == 0) {
          decided.declared.push_back(*named);
        }
      }
    }
  }

  // Names the signatures in parts.
  void NameInParts(const Operator& op, DecidedSignatures& decided) {
    std::vector<std::vector<Signature>> at_sizes;
    for (const PreparedCase& use : prepared_) {
      at_sizes.emplace_back();
      for (const Signature& signature : op.StatedSignatures(use.types())) {
        if (signature.in_parts) at_sizes.back().push_back(signature);
      }
    }
    for (const Signature& signature : at_sizes[0]) {
      const std::optional<NamedSignature> named = NameOf(0, signature, at_sizes);
      if (named.has_value()) {
        decided.in_parts.push_back(*named);
      } else {
        decided.wrong.push_back(
            absl::StrCat(signature.ToString(), " (in parts) is not declared at every size"));
      }
    }
  }

  // Returns the right signatures with the input layouts of a text like "S(1), B".
  std::vector<NamedSignature> RightWith(absl::string_view text) {
    const std::vector<std::string> wanted = LayoutTexts(text);
    TESSERA_CHECK(wanted.size() == inputs_.size()) << family_.op << ": " << text;
    LayoutIndices inputs;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto found = std::find_if(
          inputs_[i].begin(), inputs_[i].end(),
          [&](const NamedLayout& layout) { return layout.ToString(family_) == wanted[i]; });
      TESSERA_CHECK(found != inputs_[i].end()) << family_.op << ": " << text;
      inputs.push_back(static_cast<int>(found - inputs_[i].begin()));
    }
    MakeTrials();
    std::vector<NamedSignature> right;
    Decide(inputs, trials_[0]->Possible(inputs), right);
    return right;
  }

  // Sets the right signatures that the declared ones do not imply.
  void FindMissing(DecidedSignatures& decided) {
    MakeTrials();
    std::vector<NamedSignature> right;
    LayoutIndices inputs(inputs_.size(), 0);
    TrySplits(0, inputs, decided.combinations, right);
    std::vector<NamedSignature> known = decided.declared;
    NamedSignature& broadcast = known.emplace_back();
    broadcast.inputs.resize(inputs_.size());
    broadcast.outputs.resize(outputs_.size());
    right.erase(std::remove_if(right.begin(), right.end(),
                               [&](const NamedSignature& signature) {
                                 return ImpliedByOneOf(known, signature);
                               }),
                right.end());
    for (const NamedSignature& signature : right) {
      if (!ImpliedByOneOf(right, signature)) decided.missing.push_back(signature);
    }
  }

 private:
  // Returns B, and all splits of an operand that have more than one part at some size.
  Candidates Splits(std::vector<TensorType> PreparedCase::*operands, size_t i) const {
    Candidates candidates = {{AxisLayout::Broadcast()}};
    for (int d = 0; d < static_cast<int>((prepared_[0].*operands)[i].shape.size()); ++d) {
      for (int unit = NamedLayout::kUnitOfOne; unit < static_cast<int>(family_.units.size());
           ++unit) {
        const NamedLayout split{AxisLayout::Split(d), unit};
        bool has_parts = false;
        for (size_t s = 0; s < prepared_.size(); ++s) {
          const int64_t extent = (prepared_[s].*operands)[i].shape[d];
          has_parts = has_parts || extent > split.At(family_.cases[s]).unit;
        }
        if (has_parts) candidates.push_back(split);
      }
    }
    return candidates;
  }

  // Returns whether an input's values matter. Partial values of one that is not read, such as the
  // counts that only the gradient of batch_norm needs, are not tried.
  bool IsRead(size_t input) const {
    for (size_t s = 0; s < prepared_.size(); ++s) {
      PreparedCase other = prepared_[s];
      for (double& value : other.values[input]) value = 2 * value + 1;
      const auto outputs = RunOperator(reference_, *other.op, other.attributes,
                                       InputArrays(other, reference_), other.outputs);
      if (!outputs.ok()) return true;
      for (size_t i = 0; i < outputs->size(); ++i) {
        if (Bits((*outputs)[i]) != Bits(global_[s][i])) return true;
      }
    }
    return false;
  }

  // Appends what is wrong with a signature that is declared at size `s`.
  void CheckOne(size_t s, const Signature& signature, std::vector<std::string>& wrong) {
    const PreparedCase& use = prepared_[s];
    for (const int ranks : {2, 3}) {
      const Mesh mesh = *Mesh::Create({{"a", ranks}});
      for (int draw = 0; draw < kDraws; ++draw) {
        const UseLayouts layouts = With(AllBroadcast(use, mesh), 0, signature);
        const std::string difference =
            CheckDistributed(reference_, use, layouts, mesh, global_[s], draw);
        if (difference.empty()) continue;
        wrong.push_back(absl::StrCat(signature.ToString(), " at ", family_.cases[s].sizes, " on ",
                                     ranks, " ranks: ", difference));
        return;
      }
    }
  }

  // Returns the signature that is `signature` at size `s`, and is declared at all others.
  std::optional<NamedSignature> NameOf(size_t s, const Signature& signature,
                                       const std::vector<std::vector<Signature>>& at_sizes) const {
    std::vector<NamedSignature> names = {{}};
    const auto extend = [&](const AxisLayout& layout, auto member) {
      std::vector<NamedSignature> longer;
      for (const NamedSignature& name : names) {
        AxisLayout in_ones = layout;
        in_ones.unit = 1;
        for (int unit = NamedLayout::kUnitOfOne; unit < static_cast<int>(family_.units.size());
             ++unit) {
          const NamedLayout named{in_ones, layout.split() ? unit : NamedLayout::kUnitOfOne};
          if (!(named.At(family_.cases[s]) == layout)) continue;
          (longer.emplace_back(name).*member).push_back(named);
          if (!layout.split()) break;
        }
      }
      names = std::move(longer);
    };
    for (const AxisLayout& layout : signature.inputs) extend(layout, &NamedSignature::inputs);
    for (const AxisLayout& layout : signature.outputs) extend(layout, &NamedSignature::outputs);
    for (const NamedSignature& name : names) {
      bool everywhere = true;
      for (size_t other = 0; everywhere && other < at_sizes.size(); ++other) {
        const Signature wanted = name.At(family_.cases[other]);
        everywhere = std::any_of(
            at_sizes[other].begin(), at_sizes[other].end(), [&](const Signature& declared) {
              return declared.inputs == wanted.inputs && declared.outputs == wanted.outputs;
            });
      }
      if (everywhere) return name;
    }
    return std::nullopt;
  }

  void MakeTrials() {
    for (int draw = 0; draw < kDraws; ++draw) {
      for (const int ranks : {2, 3}) {
        for (size_t s = 0; s < prepared_.size(); ++s) {
          SignatureTrial::Layouts layouts;
          for (const Candidates& of : inputs_) layouts.inputs.push_back(AtSize(of, s));
          for (const Candidates& of : outputs_) layouts.outputs.push_back(AtSize(of, s));
          trials_.push_back(std::make_unique<SignatureTrial>(&reference_, &prepared_[s], global_[s],
                                                             std::move(layouts), ranks, draw));
        }
      }
    }
  }

  std::vector<AxisLayout> AtSize(const Candidates& candidates, size_t s) const {
    std::vector<AxisLayout> layouts;
    for (const NamedLayout& candidate : candidates) {
      layouts.push_back(candidate.At(family_.cases[s]));
    }
    return layouts;
  }

  // Returns a text that is equal for layouts of one kind.
  std::string KindOf(size_t input, int layout) const {
    const NamedLayout& named = inputs_[input][layout];
    if (!named.layout.split()) return named.layout.ToString();
    return absl::StrCat(std::string(1, family_.dims[input][named.layout.dim]), named.unit);
  }

  // Returns whether inputs have at most two kinds of layouts besides B.
  bool HaveFewKinds(const LayoutIndices& inputs) const {
    std::set<std::string> kinds;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != 0) kinds.insert(KindOf(i, inputs[i]));
    }
    return kinds.size() <= 2;
  }

  bool MayBeTried(const LayoutIndices& inputs) const {
    double all = 1;
    for (const Candidates& of : inputs_) all *= static_cast<double>(of.size());
    return all <= kMostCombinations || HaveFewKinds(inputs);
  }

  // Tries all combinations of layouts: inputs from `next` on are split, or stay B. A partial value
  // has the shape of a B, so if the shape rule takes none, partial values are not tried either.
  void TrySplits(size_t next, LayoutIndices& inputs, int64_t& combinations,
                 std::vector<NamedSignature>& right) const {
    if (!MayBeTried(inputs)) return;
    if (next == inputs.size()) {
      const std::vector<Outcome> possible = trials_[0]->Possible(inputs);
      if (!possible.empty()) TryPartials(0, inputs, possible, combinations, right);
      return;
    }
    for (size_t l = 0; l < inputs_[next].size(); ++l) {
      if (inputs_[next][l].layout.partial()) continue;
      inputs[next] = static_cast<int>(l);
      TrySplits(next + 1, inputs, combinations, right);
    }
    inputs[next] = 0;
  }

  // Tries the same where inputs from `next` on that are B become partial, or stay B.
  void TryPartials(size_t next, LayoutIndices& inputs, const std::vector<Outcome>& possible,
                   int64_t& combinations, std::vector<NamedSignature>& right) const {
    if (!MayBeTried(inputs)) return;
    if (next == inputs.size()) {
      ++combinations;
      Decide(inputs, possible, right);
      return;
    }
    TryPartials(next + 1, inputs, possible, combinations, right);
    if (inputs[next] != 0) return;
    for (size_t l = 0; l < inputs_[next].size(); ++l) {
      if (!inputs_[next][l].layout.partial()) continue;
      inputs[next] = static_cast<int>(l);
      TryPartials(next + 1, inputs, possible, combinations, right);
    }
    inputs[next] = 0;
  }

  // Appends the signatures with these inputs that are right in all trials.
  void Decide(const LayoutIndices& inputs, std::vector<Outcome> outcomes,
              std::vector<NamedSignature>& right) const {
    bool partial = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      partial = partial || inputs_[i][inputs[i]].layout.partial();
    }
    // Draws differ in partial values only.
    const size_t count = partial ? trials_.size() : trials_.size() / kDraws;
    for (size_t t = 0; t < count && !outcomes.empty(); ++t) {
      outcomes.erase(std::remove_if(outcomes.begin(), outcomes.end(),
                                    [&](Outcome& outcome) {
                                      return trials_[t]->LeavesNothing(inputs, outcome);
                                    }),
                     outcomes.end());
    }
    NamedSignature signature;
    for (size_t i = 0; i < inputs.size(); ++i) {
      signature.inputs.push_back(inputs_[i][inputs[i]]);
    }
    for (const Outcome& outcome : outcomes) AppendEach(outcome, signature, right);
  }

  // Appends `signature` with each combination of the right layouts of the outputs.
  void AppendEach(const Outcome& outcome, const NamedSignature& signature,
                  std::vector<NamedSignature>& right) const {
    std::vector<NamedSignature> all = {signature};
    for (size_t i = 0; i < outcome.right.size(); ++i) {
      std::vector<NamedSignature> longer;
      for (const NamedSignature& start : all) {
        for (const int layout : outcome.right[i]) {
          longer.emplace_back(start).outputs.push_back(outputs_[i][layout]);
          if (layout == 0) break;  // B becomes partial without communication
        }
      }
      all = std::move(longer);
    }
    right.insert(right.end(), all.begin(), all.end());
  }

  bool ImpliedByOneOf(const std::vector<NamedSignature>& signatures,
                      const NamedSignature& wanted) const {
    return std::any_of(signatures.begin(), signatures.end(), [&](const NamedSignature& signature) {
      if (&signature == &wanted) return false;
      return std::all_of(family_.cases.begin(), family_.cases.end(), [&](const SizedCase& size) {
        return Implies(signature.At(size), wanted.At(size));
      });
    });
  }

  const CaseFamily& family_;
  Backend& reference_;
  std::vector<PreparedCase> prepared_;        // by size
  std::vector<std::vector<Array>> global_;    // outputs, by size
  std::vector<Candidates> inputs_, outputs_;  // by operand
  std::vector<std::unique_ptr<SignatureTrial>> trials_;
};

}  // namespace

std::vector<NamedSignature> RightSignaturesWith(const CaseFamily& family, Backend& reference,
                                                absl::string_view inputs) {
  return FamilySpace(family, reference).RightWith(inputs);
}

DecidedSignatures DecideSignatures(const CaseFamily& family, Backend& reference) {
  const Operator* op = FindOperator(family.op);
  TESSERA_CHECK(op != nullptr) << family.op;
  DecidedSignatures decided = DecideSignatures(
      family, reference, [op](const OpTypes& types) { return WithoutCommunication(*op, types); });
  FamilySpace(family, reference).NameInParts(*op, decided);
  return decided;
}

DecidedSignatures DecideSignatures(const CaseFamily& family, Backend& reference,
                                   const Declared& declared) {
  DecidedSignatures decided;
  FamilySpace space(family, reference);
  space.CheckDeclared(declared, decided);
  space.FindMissing(decided);
  return decided;
}

}  // namespace tessera::operator_tests

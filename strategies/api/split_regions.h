// Which operators of a Graph can share hidden units, as Megatron-LM's do (Shoeybi et al. 2019,
// section 3; with a split sequence: Korthikanti et al. 2022, section 4.2.2). They are found from
// signatures, so that this holds for any model: heads, MLPs, pairs of convolutions, vocabularies.
#ifndef TESSERA_STRATEGIES_API_SPLIT_REGIONS_H_
#define TESSERA_STRATEGIES_API_SPLIT_REGIONS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "strategies/api/messages/strategy.pb.h"
#include "strategies/api/signature.h"

namespace tessera::strategy {

// The regions of a Graph's forward pass, along one axis of a mesh. A region begins at a product
// whose outputs are split because its weight is ("B, S(0) -> S(2)"), and ends at products that add
// up over what is split ("S(2), S(1) -> P"). An operator that looks up split rows of a weight
// ("S(0), B -> P") is a region of its own. Outside of regions, all ranks compute the same.
//
// Layouts are without units: completing a Plan adds those of the values. Thread-compatible.
class SplitRegions {
 public:
  struct Choice {
    std::string path, signature;
  };
  // A parameter's layout, and the input of the operator that reads it.
  struct Use {
    std::string layout, op;
    int input = 0;
  };

  // `operators` describe those of the Graph, in its order. The Graph outlives this.
  SplitRegions(const GraphProto& graph, const OperatorDescriptions& operators);

  // Returns the operators at the edges of regions; those between follow them.
  std::vector<Choice> Edges() const;
  // The parameters that are split, by their paths.
  const std::map<std::string, Use>& uses() const { return uses_; }
  // Returns the operators outside of regions that can compute on a part of the sequence, the
  // dimension 1 of [batch, sequence, hidden], from a region's partial output on: that is then
  // reduce-scattered, and what a region reads is gathered.
  std::vector<Choice> OnSequence() const;

 private:
  struct Op {
    const GraphProto::Op* op = nullptr;
    std::vector<Signature> signatures;
    const Signature* chosen = nullptr;
    bool edge = false;
  };
  using Dimensions = std::map<int, int>;  // of values that are split

  bool IsWeight(int value) const { return weights_.count(value) > 0; }
  static bool Reads(const Op& op, const Dimensions& split);
  // Returns whether inputs that are no weights are as `split` says, and otherwise B.
  bool Fits(const Op& op, const Signature& signature, const Dimensions& split) const;
  bool SplitsWeight(const Op& op, const Signature& signature) const;
  // Returns whether the operator adds up over hidden units, by a weight that is split.
  bool IsProduct(const Op& op) const;
  void FindRegion(size_t first, const Signature& signature);
  // Splits the parameters that the operator reads, or of which its inputs are made, as it does.
  void SplitParameters(const Op& op, const Signature& signature);

  const GraphProto& graph_;
  std::vector<Op> ops_;
  std::map<int, std::string> parameters_;  // paths, by value
  std::map<int, int> weights_;  // values that only parameters make, and the op that does, or -1
  std::map<std::string, Use> uses_;
};

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_SPLIT_REGIONS_H_

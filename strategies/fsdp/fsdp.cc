// Fully sharded data parallel: parameters, gradients and optimizer state are split over the ranks,
// and a unit of parameters is gathered before it is used. With shard=optimizer, parameters are not
// split, and a unit is gathered after its update.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

// The axes of the mesh. The replica axis exists if there are several replicas, and the node axis if
// units are resharded to the ranks of a node after forward.
constexpr char kReplica[] = "replica", kShard[] = "shard", kNode[] = "node";

// Returns the units: the groups of parameters that are gathered, used and freed together.
absl::StatusOr<std::vector<FlatGroup>> UnitsOf(const Request& request, const ModelInfo& model) {
  const std::string &units = request.Text("units"), &pattern = request.Text("pattern");
  const int64_t max_bytes = request.Int("unit");
  if ((units == "pattern") == pattern.empty()) {
    return absl::InvalidArgumentError(
        "units=pattern and pattern=... belong together, such as "
        "units=pattern,pattern=blocks.*.mlp|blocks.*.attn");
  }
  if ((units == "size") != (max_bytes > 0)) {
    return absl::InvalidArgumentError(
        "units=size and unit=... belong together, such as units=size,unit=100MiB");
  }
  std::vector<FlatGroup> groups = DivideIntoGroups(model, pattern, max_bytes);
  if (pattern.empty() || (!groups.empty() && !groups.front().root)) return groups;
  return absl::InvalidArgumentError(
      absl::StrCat("pattern '", pattern, "' matches no scope of the model's parameters, such as '",
                   model.parameters.empty() ? "" : model.parameters.front().path, "'"));
}

// How a gathered unit is kept after forward.
struct Reshard {
  bool keeps = false;
  int64_t ranks = 0;  // above 0: each group of so many ranks keeps one copy
};

// Returns what the options say about units after forward; InvalidArgument if `reshard` is none of
// yes, no and a number of ranks that divides those of a replica.
absl::StatusOr<Reshard> ReshardOf(const Request& request) {
  Reshard reshard;
  const std::string& text = request.Text("reshard");
  const int64_t shards = request.ranks() / request.Int("replicas");
  const std::string& shard = request.Text("shard");
  reshard.keeps = text == "no" || shard == "gradients" || shard == "optimizer";
  if (text == "no" || text == "yes") return reshard;
  if (!absl::SimpleAtoi(text, &reshard.ranks) || reshard.ranks < 2 || reshard.ranks >= shards ||
      shards % reshard.ranks != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reshard is '", text, "': it must be yes, no, or a number of ranks, at least 2, that ",
        "divides the ", shards, " ranks of a replica and is less than that"));
  }
  if (reshard.keeps) reshard.ranks = 0;
  return reshard;
}

// Adds a unit to the Plan as a flat group over the shard axis (and the node axis).
absl::Status AddGroup(const Request& request, const Reshard& reshard, const FlatGroup& unit,
                      PlanBuilder& plan) {
  // The ranks of a node hold the result of a gather over the shards, so the node is the outer
  // split.
  std::vector<std::string> axes = {kShard};
  if (reshard.ranks > 0) axes.insert(axes.begin(), kNode);
  GroupChoice& group = plan.Group(unit.parameters, axes);
  const bool keeps = reshard.keeps || (unit.root && !request.Bool("reshard_root"));
  group.set_gather(request.Text("shard") == "optimizer" ? GroupChoice::AFTER_UPDATE
                   : keeps                              ? GroupChoice::ONCE
                                                        : GroupChoice::EACH_PHASE);
  if (!keeps && reshard.ranks > 0) group.set_again_over(kNode);
  const bool full = request.Text("accumulate") == "full";
  group.set_reduce(full ? GroupChoice::AFTER_LAST : GroupChoice::EACH_MICRO_BATCH);
  const std::string& block = request.Text("block");
  int64_t elements = 0;
  if (block == "row") {
    group.set_split_at_rows(true);
  } else if (absl::SimpleAtoi(block, &elements)) {
    group.set_split_at_multiples_of(elements);
  } else if (!block.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("block is '", block, "': it must be row, or a number of elements"));
  }
  return absl::OkStatus();
}

// Adds the passes of groups that are gathered.
void AddGatherPasses(const Request& request, Stage& stage) {
  if (const int prefetch = static_cast<int>(request.Int("prefetch")); prefetch > 0) {
    stage.add_pass()->mutable_prefetch_gathers()->set_distance(prefetch);
  }
  if (const int in_flight = static_cast<int>(request.Int("in_flight")); in_flight > 0) {
    stage.add_pass()->mutable_limit_gathers()->set_in_flight(in_flight);
  }
}

class Fsdp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    ASSIGN_OR_RETURN(const std::vector<FlatGroup> units, UnitsOf(request, model));
    const int64_t replicas = request.Int("replicas");
    if (request.ranks() % replicas != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "replicas is ", replicas, ": it must divide the ", request.ranks(), " ranks of the run"));
    }
    ASSIGN_OR_RETURN(const Reshard reshard, ReshardOf(request));

    PlanBuilder plan;
    if (replicas > 1) plan.Axis(kReplica, replicas);
    plan.Axis(kShard);
    if (reshard.ranks > 0) plan.Axis(kNode, reshard.ranks);
    plan.SplitBatch(model);
    plan.Precision(request.DType("dtype"), request.DType("reduce"));
    if (request.Text("shard") == "none") {
      plan.stage().add_pass()->mutable_bucket_gradients();
    } else {
      for (const FlatGroup& unit : units) RETURN_IF_ERROR(AddGroup(request, reshard, unit, plan));
      AddGatherPasses(request, plan.stage());
    }
    if (const std::string& offload = request.Text("offload"); offload != "none") {
      auto& pass = *plan.stage().add_pass()->mutable_offload();
      if (offload == "optimizer") pass.add_tensors(PassChoice::Offload::OPTIMIZER_STATE);
      if (offload == "parameters") pass.add_tensors(PassChoice::Offload::PARAMETERS);
    }
    return plan.Build();
  }
};

}  // namespace

TESSERA_STRATEGY(
    Fsdp,
    {
        .name = "fsdp",
        .version = "1.0",
        .summary =
            "fully sharded: parameters, gradients and optimizer state are split over the ranks",
        .options =
            {
                {"shard", "full|gradients|optimizer|none", "full",
                 "what is split; gradients: parameters stay gathered from forward to backward; "
                 "optimizer: "
                 "parameters stay full, only optimizer state is split (ZeRO-1)"},
                {"reshard", "text", "yes",
                 "whether a unit is freed after forward and gathered again for backward; a number: "
                 "so many "
                 "ranks keep it among them"},
                {"reshard_root", "bool", "no", "the same for the parameters that lie in no block"},
                {"dtype", "f32|bf16", "f32",
                 "in which parameters are gathered and used; what is stored stays f32"},
                {"reduce", "f32|bf16|f16", "f32", "the dtype in which gradients are reduced"},
                {"accumulate", "shards|full", "shards",
                 "micro-batches: gradients are reduced after each and added up in shards, or added "
                 "up in "
                 "full and reduced once"},
                {"block", "text", "",
                 "where a rank's part of a parameter may end: row, or a multiple of so many "
                 "elements"},
                {"replicas", "int 1..2147483647", "1",
                 "hybrid sharding: so many replicas, each split over the ranks of its own"},
                {"units", "block|size|pattern", "block", "what is gathered at a time"},
                {"unit", "bytes", "0",
                 "with units=size: blocks are joined while a unit has at most so many bytes; a "
                 "larger block "
                 "is a unit by itself"},
                {"pattern", "text", "", "with units=pattern: scopes, each a unit: blocks.*.mlp"},
                {"prefetch", "int 0..2147483647", "1",
                 "how many units before its use a unit is gathered; 0: none"},
                {"in_flight", "int 0..2147483647", "2",
                 "how many gathered units are in memory at most; 0: no bound"},
                {"offload", "none|optimizer|parameters|all", "none",
                 "what waits in host memory while it is not used; all: gradients too"},
            },
    });

}  // namespace tessera::strategy

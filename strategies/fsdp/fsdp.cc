// Fully sharded data parallel: parameters, gradients and optimizer state are split over the ranks,
// and a unit of parameters is gathered before it is used. With shard=optimizer, parameters are not
// split, and a unit is gathered after its update.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "strategies/api/kit.h"
#include "strategies/fsdp/units.h"

namespace tessera::strategy {
namespace {

// The axes of the mesh. The node axis exists if units are resharded to the ranks of a node after
// forward.
constexpr char kReplica[] = "replica", kShard[] = "shard", kNode[] = "node";

// The largest count in a Plan, and about a pebibyte, which no model has.
constexpr char kMostUnits[] = "2147483647", kMostMebibytes[] = "1000000000";

absl::StatusOr<UnitPolicy> PolicyOf(const Request& request) {
  UnitPolicy policy;
  policy.pattern = request.Text("pattern");
  policy.max_bytes = static_cast<int64_t>(std::ceil(request.Number("unit_mb") * (1 << 20)));
  const std::string& units = request.Text("units");
  if (units == "size") policy.kind = UnitPolicy::Kind::kSize;
  if (units == "pattern") policy.kind = UnitPolicy::Kind::kPattern;
  if ((units == "pattern") == policy.pattern.empty()) {
    return absl::InvalidArgumentError(
        "units=pattern and pattern=... belong together, such as "
        "units=pattern,pattern=blocks.*.mlp|blocks.*.attn");
  }
  if ((units == "size") != (policy.max_bytes > 0)) {
    return absl::InvalidArgumentError(
        "units=size and unit_mb=... belong together, such as units=size,unit_mb=100");
  }
  return policy;
}

// How a gathered unit is kept after forward.
struct Reshard {
  bool keeps = false;
  int64_t ranks = 0;  // above 0: each group of so many ranks keeps one copy
};

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

void AddAxis(const char* name, int64_t size, Stage& stage) {
  MeshAxis& axis = *stage.add_mesh();
  axis.set_name(name);
  axis.set_size(size);
}

// Adds the mesh: an axis of replicas if there are several, and an axis of shards, which may be
// divided into nodes. Returns the axes over which the batch is split.
absl::StatusOr<std::vector<std::string>> AddMesh(const Request& request, const Reshard& reshard,
                                                 Stage& stage) {
  std::vector<std::string> axes;
  if (const int64_t replicas = request.Int("replicas"); replicas > 1) {
    AddAxis(kReplica, replicas, stage);
    axes.push_back(kReplica);
  }
  AddAxis(kShard, 0, stage);
  axes.push_back(kShard);
  if (reshard.ranks > 0) {
    AddAxis(kNode, reshard.ranks, stage);
    axes.push_back(kNode);
  }
  return axes;
}

class Fsdp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    absl::StatusOr<UnitPolicy> policy = PolicyOf(request);
    if (!policy.ok()) return policy.status();
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!graphs.ok()) return graphs.status();
    const ModelInfo model = DescribeModel(*graphs);
    absl::StatusOr<std::vector<Unit>> units = DivideIntoUnits(model, *policy);
    if (!units.ok()) return units.status();

    if (request.ranks() % request.Int("replicas") != 0) {
      return absl::InvalidArgumentError(absl::StrCat("replicas is ", request.Int("replicas"),
                                                     ": it must divide the ", request.ranks(),
                                                     " ranks of the run"));
    }
    absl::StatusOr<Reshard> reshard = ReshardOf(request);
    if (!reshard.ok()) return reshard.status();

    Plan plan;
    Stage& stage = *plan.add_stages();
    absl::StatusOr<std::vector<std::string>> axes = AddMesh(request, *reshard, stage);
    if (!axes.ok()) return axes.status();
    SplitBatch(model, *axes, stage);
    SetPrecision(request, stage);
    const bool shards = request.Text("shard") != "none";
    for (size_t i = 0; shards && i < units->size(); ++i) {
      const absl::Status added = AddGroup(request, *reshard, (*units)[i], stage);
      if (!added.ok()) return added;
    }
    AddPasses(request, shards, stage);
    if (const std::string& offload = request.Text("offload"); offload != "none") {
      auto& pass = *stage.add_pass()->mutable_offload();
      if (offload == "optimizer") pass.add_tensors(PassChoice::Offload::OPTIMIZER_STATE);
      if (offload == "parameters") pass.add_tensors(PassChoice::Offload::PARAMETERS);
    }
    return plan;
  }

 private:
  static void SetPrecision(const Request& request, Stage& stage) {
    const TypeProto::DType dtype = request.DType("dtype"), reduce = request.DType("reduce");
    if (dtype != TypeProto::F32) stage.mutable_precision()->set_parameters(dtype);
    if (reduce != TypeProto::F32) stage.mutable_precision()->set_reduction(reduce);
  }

  static absl::Status AddGroup(const Request& request, const Reshard& reshard, const Unit& unit,
                               Stage& stage) {
    GroupChoice& group = *stage.add_group();
    group.set_path(absl::StrJoin(unit.parameters, "|"));
    // The ranks of a node hold the result of a gather over the shards, so the node is the outer
    // split.
    if (reshard.ranks > 0) group.add_over(kNode);
    group.add_over(kShard);
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

  static void AddPasses(const Request& request, bool shards, Stage& stage) {
    const int64_t prefetch = request.Int("prefetch"), in_flight = request.Int("in_flight");
    if (!shards) {
      stage.add_pass()->mutable_bucket_gradients();
      return;
    }
    if (prefetch > 0) {
      stage.add_pass()->mutable_prefetch_gathers()->set_distance(static_cast<int32_t>(prefetch));
    }
    if (in_flight > 0) {
      stage.add_pass()->mutable_limit_gathers()->set_in_flight(static_cast<int32_t>(in_flight));
    }
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
                 "optimizer: parameters stay full, only optimizer state is split (ZeRO-1)"},
                {"reshard", "text", "yes",
                 "whether a unit is freed after forward and gathered again for backward; a number: "
                 "so many ranks keep it among them"},
                {"reshard_root", "bool", "no", "the same for the parameters that lie in no block"},
                {"dtype", "f32|bf16", "f32",
                 "in which parameters are gathered and used; what is stored stays f32"},
                {"reduce", "f32|bf16|f16", "f32", "the dtype in which gradients are reduced"},
                {"accumulate", "shards|full", "shards",
                 "micro-batches: gradients are reduced after each and added up in shards, or added "
                 "up in full and reduced once"},
                {"block", "text", "",
                 "where a rank's part of a parameter may end: row, or a multiple of so many "
                 "elements"},
                {"replicas", "int", "1",
                 "hybrid sharding: so many replicas, each split over the ranks of its own", "1",
                 kMostUnits},
                {"units", "block|size|pattern", "block", "what is gathered at a time"},
                {"unit_mb", "number", "0",
                 "with units=size: blocks are joined while a unit has at most so many MiB; a "
                 "larger "
                 "block is a unit by itself",
                 "0", kMostMebibytes},
                {"pattern", "text", "", "with units=pattern: scopes, each a unit: blocks.*.mlp"},
                {"prefetch", "int", "1",
                 "how many units before its use a unit is gathered; 0: none", "0", kMostUnits},
                {"in_flight", "int", "2",
                 "how many gathered units are in memory at most; 0: no bound", "0", kMostUnits},
                {"offload", "none|optimizer|parameters|all", "none",
                 "what waits in host memory while it is not used; all: gradients too"},
            },
    });

}  // namespace tessera::strategy

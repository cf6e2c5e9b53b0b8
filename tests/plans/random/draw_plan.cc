#include "tests/plans/random/draw_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/graph/graph.h"
#include "core/status/check.h"
#include "core/text/path_pattern.h"
#include "tests/plans/random/draw_layouts.h"

namespace tessera {
namespace {

// Returns a pattern that names the inputs of a batch.
std::string AllInputs(const Subjects& subjects) {
  return absl::StrJoin(
      subjects.batch_inputs, "|",
      [](std::string* out, const Subjects::Input& input) { absl::StrAppend(out, input.path); });
}

// Draws the choices of a stage one after the other. Each keeps to what the earlier ones leave free,
// so that few Plans are refused.
class StageDrawer {
 public:
  StageDrawer(const TrainedModel& model, Random& random, PlanCase& drawn)
      : subjects_(model.subjects), random_(random), drawn_(drawn), stage_(drawn.stage()) {}

  // Draws all of a Plan.
  void Draw() {
    drawn_.ranks = DrawMesh(random_, stage_);
    for (const MeshAxis& axis : stage_.mesh()) axes_.push_back(axis.name());
    if (random_.Percent(65)) DrawInputs();
    if (random_.Percent(10)) DrawSlice();
    if (random_.Percent(55)) {
      for (int64_t left = 1 + random_.Below(3); left > 0; --left) DrawGroup();
    }
    if (random_.Percent(45)) DrawStores();
    if (random_.Percent(55)) DrawOperators();
    if (random_.Percent(30)) DrawUpdates();
    if (random_.Percent(15)) DrawPrecision();
    if (random_.Percent(35)) DrawStagePasses();
    if (random_.Percent(35)) DrawPart();
  }

  // Changes one thing in a Plan that a strategy has made.
  void Change() {
    for (const MeshAxis& axis : stage_.mesh()) axes_.push_back(axis.name());
    for (const GroupChoice& group : stage_.group()) {
      const Axes flat(group.over().begin(), group.over().end());
      for (const Parameter* member : Members(group.path())) {
        flat_axes_[member->path] = flat;
        taken_.insert(member->path);
      }
    }
    for (const ComputeChoice& choice : stage_.compute()) chosen_.insert(choice.path());
    for (const PlanPart& part : stage_.parts()) {
      for (const ComputeChoice& choice : part.compute()) chosen_.insert(choice.path());
    }
    switch (random_.Below(8)) {
      case 0:
        return DrawStores();
      case 1:
        return DrawOperators();
      case 2:
        return DrawUpdates();
      case 3:
        return DrawPart();
      case 4:
        return stage_.pass_size() > 0 ? stage_.mutable_pass()->RemoveLast() : DrawStagePasses();
      case 5:
        return DrawSlice();
      case 6:
        return stage_.has_precision() ? stage_.clear_precision() : DrawPrecision();
      default:
        if (stage_.group_size() == 0) return DrawGroup();
        GroupChoice& group =
            *stage_.mutable_group(static_cast<int>(random_.Below(stage_.group_size())));
        DrawGroupOptions(flat_axes_[Members(group.path())[0]->path], group);
    }
  }

 private:
  using Parameter = Subjects::Parameter;

  void Store(const std::string& path, const std::string& layout) {
    StoreChoice& choice = *stage_.add_store();
    choice.set_path(path);
    choice.set_layout(layout);
  }

  // The batch of inputs is split over some axes; rarely otherwise.
  void DrawInputs() {
    if (random_.Percent(15)) {
      for (const Subjects::Input& input : subjects_.batch_inputs) {
        if (random_.Percent(70)) Store(input.path, DrawLayout(input.shape, axes_, random_));
      }
      return;
    }
    const std::string layout = absl::StrJoin(
        SomeOf(axes_, random_), ", ",
        [](std::string* out, const std::string& axis) { absl::StrAppend(out, axis, ": S(0)"); });
    Store(AllInputs(subjects_), layout);
  }

  void DrawSlice() {
    const Parameter& parameter = random_.Of(subjects_.parameters);
    const int64_t dimension = random_.Below(static_cast<int64_t>(parameter.shape.size()));
    const int64_t size = parameter.shape[dimension];
    // Few operators take a slice of a vector.
    if (size < 2 || (parameter.shape.size() < 2 && !random_.Percent(10))) return;
    SliceChoice& slice = *stage_.add_slice();
    slice.set_path(parameter.path);
    slice.set_dimension(static_cast<int32_t>(dimension));
    // Rarely a count for which some slices would be empty.
    const int64_t count = 2 + random_.Below(std::min<int64_t>(size - 1, 3));
    const int64_t each = (size + count - 1) / count;
    slice.set_count(random_.Percent(5) ? count : (size + each - 1) / each);
    sliced_ = parameter.path;
    if (taken_.contains(parameter.path) || !random_.Percent(50)) return;
    Shape shape = parameter.shape;
    shape[dimension] = (size + slice.count() - 1) / slice.count();
    Store(absl::StrCat(parameter.path, "[0:", shape[dimension], "]"),
          DrawLayout(shape, axes_, random_));
    taken_.insert(parameter.path);
  }

  std::vector<const Parameter*> Members(const std::string& path) const {
    const auto pattern = PathPattern::Parse(path);
    TESSERA_CHECK(pattern.ok()) << pattern.status();
    std::vector<const Parameter*> members;
    for (const Parameter& parameter : subjects_.parameters) {
      if (pattern->MatchingScope(parameter.path) > 0) members.push_back(&parameter);
    }
    return members;
  }

  // A group over the members that are in no other group yet.
  void DrawGroup() {
    std::string path = random_.Of(subjects_.scopes);
    for (int more = static_cast<int>(random_.Below(4)); more > 1; --more) {
      absl::StrAppend(&path, "|", random_.Of(subjects_.scopes));
    }
    const std::vector<const Parameter*> members = Members(path);
    const auto is_taken = [&](const Parameter* member) { return taken_.contains(member->path); };
    if (absl::c_any_of(members, is_taken)) return;
    Axes flat = axes_;
    random_.Shuffle(flat);
    const bool two = flat.size() > 1 && random_.Percent(70);
    flat.resize(two ? 2 + (flat.size() > 2 && random_.Percent(10)) : 1);
    GroupChoice& group = *stage_.add_group();
    group.set_path(path);
    group.set_each(random_.Percent(40));
    for (const std::string& axis : flat) group.add_over(axis);
    DrawGroupOptions(flat, group);
    const Axes others = Without(flat);
    const bool split = !others.empty() && random_.Percent(25);
    // The members of a group agree on the axes that split them.
    for (const Parameter* member : members) {
      flat_axes_[member->path] = flat;
      taken_.insert(member->path);
      if (split && member->path != sliced_ && random_.Percent(60)) {
        Store(member->path, DrawLayout(member->shape, others, random_));
      }
    }
  }

  void DrawGroupOptions(const Axes& flat, GroupChoice& group) {
    if (random_.Percent(50)) {
      // The last one is drawn for two axes alone.
      const int64_t gather = random_.Below(flat.size() == 2 ? 5 : 4);
      const bool again = gather == 4;
      group.set_gather(again ? GroupChoice::EACH_PHASE : static_cast<GroupChoice::Gather>(gather));
      group.set_again_over(again ? flat[0] : "");
    }
    if (random_.Percent(40)) {
      group.set_reduce(random_.Percent(80) ? GroupChoice::EACH_MICRO_BATCH
                                           : GroupChoice::AFTER_LAST);
    }
    if (!random_.Percent(25)) return;
    const int64_t multiple = 1 + random_.Below(3);
    if (multiple == 1) {
      group.set_split_at_rows(true);
    } else {
      group.set_split_at_multiples_of(multiple);
    }
  }

  Axes Without(const Axes& axes) const {
    Axes rest;
    for (const std::string& axis : axes_) {
      if (!absl::c_linear_search(axes, axis)) rest.push_back(axis);
    }
    return rest;
  }

  void DrawStores() {
    if (!subjects_.statistics.empty() && random_.Percent(30)) {
      const Parameter& statistic = random_.Of(subjects_.statistics);
      if (taken_.insert(statistic.path).second) {
        Store(statistic.path, DrawLayout(statistic.shape, axes_, random_));
      }
    }
    for (int64_t left = 1 + random_.Below(4); left > 0; --left) {
      const Parameter& parameter = random_.Of(subjects_.parameters);
      if (!taken_.insert(parameter.path).second) continue;
      if (random_.Percent(75)) {
        Store(parameter.path, DrawLayout(parameter.shape, axes_, random_));
      }
      if (parameter.path == sliced_) continue;
      for (const std::string& state : parameter.states) {
        if (random_.Percent(25)) Store(state, DrawLayout(parameter.shape, axes_, random_));
      }
    }
  }

  void Choose(const Subjects::Operator& op, const Axes& flat_axes) {
    if (!chosen_.insert(op.path).second) return;
    ComputeChoice& choice =
        random_.Percent(85) ? *stage_.add_compute() : *TrainingPart().add_compute();
    choice.set_path(random_.Percent(15) ? InAllBlocks(op.path) : op.path);
    choice.set_signature(random_.Percent(kInvalidPercent) && !op.signatures.empty()
                             ? DrawInvalidSignature(op, axes_, random_)
                             : DrawSignature(op, axes_, flat_axes, random_));
  }

  // Returns the path with "*" for the number of a block. The operators that it names count as
  // chosen; if one is chosen already, the path is returned as it is.
  std::string InAllBlocks(const std::string& path) {
    std::string pattern = path;
    for (const std::string& block : subjects_.blocks) {
      if (!InScope(path, block)) continue;
      pattern = absl::StrCat(block.substr(0, block.rfind('.')), ".*", path.substr(block.size()));
    }
    const auto parsed = PathPattern::Parse(pattern);
    TESSERA_CHECK(parsed.ok()) << parsed.status();
    std::vector<std::string> named;
    for (const Subjects::Operator& op : subjects_.operators) {
      if (op.path != path && parsed->Matches(op.path)) named.push_back(op.path);
    }
    for (const std::string& other : named) {
      if (chosen_.contains(other)) return path;
    }
    chosen_.insert(named.begin(), named.end());
    return pattern;
  }

  void DrawOperators() {
    for (int64_t left = 1 + random_.Below(4); left > 0; --left) {
      const Subjects::Operator& op = random_.Of(subjects_.operators);
      if (!op.update) Choose(op, {});
    }
  }

  // Updates and clipping, some of which concern members of groups.
  void DrawUpdates() {
    std::vector<const Subjects::Operator*> updates;
    for (const Subjects::Operator& op : subjects_.operators) {
      if (op.update) updates.push_back(&op);
    }
    for (int64_t left = 1 + random_.Below(3); left > 0; --left) {
      const Subjects::Operator& op = *random_.Of(updates);
      Axes flat_axes;
      for (const auto& [path, axes] : flat_axes_) {
        if (absl::StartsWith(op.path, path)) flat_axes = axes;
      }
      Choose(op, flat_axes);
    }
  }

  void DrawPrecision() {
    PrecisionChoice& precision = *stage_.mutable_precision();
    if (random_.Percent(80)) precision.set_parameters(TypeProto::BF16);
    if (random_.Percent(50)) {
      precision.set_reduction(random_.Percent(70) ? TypeProto::BF16 : TypeProto::F16);
    }
    if (random_.Percent(30)) precision.set_outputs(precision.parameters());
    if (random_.Percent(30)) precision.set_in_f32(random_.Of(subjects_.operators).path);
    if (!precision.has_parameters() || !random_.Percent(40)) return;
    // A choice for the cast of a parameter.
    const Parameter& parameter = random_.Of(subjects_.parameters);
    Subjects::Operator cast;
    cast.path = absl::StrCat(parameter.path, ".bf16");
    for (size_t d = 0; d < parameter.shape.size(); ++d) {
      cast.signatures.push_back(absl::StrCat("S(", d, ") -> S(", d, ")"));
    }
    Choose(cast, {});
  }

  void DrawStagePasses() {
    constexpr double kByte = 0x1p-20;
    const std::vector<double> sizes = {kByte, 64 * kByte, 200 * kByte, 1024 * kByte, 4};
    if (random_.Percent(40)) {
      auto& pass = *stage_.add_pass()->mutable_bucket_gradients();
      if (random_.Percent(70)) pass.set_cap_mib(random_.Of(sizes));
      if (random_.Percent(50)) pass.set_first_mib(random_.Of(sizes));
    }
    if (random_.Percent(40)) {
      stage_.add_pass()->mutable_prefetch_gathers()->set_distance(DrawCount(4));
    }
    if (random_.Percent(40)) {
      stage_.add_pass()->mutable_limit_gathers()->set_in_flight(DrawCount(4));
    }
    if (random_.Percent(30)) {
      PassChoice::Offload& pass = *stage_.add_pass()->mutable_offload();
      using Tensors = std::vector<PassChoice::Offload::Tensors>;
      constexpr auto kParameters = PassChoice::Offload::PARAMETERS;
      constexpr auto kGradients = PassChoice::Offload::GRADIENTS;
      constexpr auto kOptimizerState = PassChoice::Offload::OPTIMIZER_STATE;
      const std::vector<Tensors> drawn = {
          {}, {kParameters}, {kGradients}, {kOptimizerState}, {kParameters, kOptimizerState}};
      for (const auto tensors : random_.Of(drawn)) pass.add_tensors(tensors);
      pass.set_distance(DrawCount(3));
    }
  }

  // Returns a number below `end`; 0 is the default of an option.
  int32_t DrawCount(int64_t end) { return static_cast<int32_t>(random_.Below(end)); }

  PlanPart& TrainingPart() {
    for (PlanPart& part : *stage_.mutable_parts()) {
      if (part.graph() == "train") return part;
    }
    stage_.add_parts()->set_graph("train");
    return *stage_.mutable_parts()->rbegin();
  }

  void DrawPart() {
    PlanPart& part = TrainingPart();
    part.clear_recompute();
    if (random_.Percent(60)) part.set_micro_batches(DrawMicroBatches());
    for (const std::string& block : subjects_.blocks) {
      if (random_.Percent(35)) part.add_recompute(block);
    }
    while (random_.Percent(40)) part.add_recompute(random_.Of(subjects_.forward_scopes));
    if (random_.Percent(subjects_.may_keep_logits ? 40 : 1)) part.set_logits(PlanPart::KEPT);
    if (random_.Percent(70)) return;
    const std::vector<std::vector<std::string>> passes = {
        {"none"}, {"fuse"}, {"order"}, {"fuse", "order"}, {"order", "fuse"}};
    for (const std::string& pass : random_.Of(passes)) part.add_passes(pass);
  }

  // Most often a number that divides the batch, as it must.
  int64_t DrawMicroBatches() {
    std::vector<int64_t> counts;
    for (int64_t count = 2; count <= subjects_.batch; ++count) {
      if (subjects_.batch % count == 0) counts.push_back(count);
    }
    return random_.Percent(1) ? 5 : random_.Of(counts);
  }

  static constexpr int kInvalidPercent = 1;

  const Subjects& subjects_;
  Random& random_;
  PlanCase& drawn_;
  Stage& stage_;
  Axes axes_;
  std::map<std::string, Axes> flat_axes_;  // by member of a group
  std::set<std::string> taken_;            // states with a group or a store
  std::set<std::string> chosen_;           // operators
  std::string sliced_;                     // the parameter that is sliced
};

}  // namespace

PlanCase DrawPlan(const std::vector<TrainedModel>& models, uint64_t seed, uint64_t number) {
  Random random(seed, number);
  const TrainedModel& model = random.Of(models);
  PlanCase drawn;
  if (!model.of_strategies.empty() && random.Percent(40)) {
    drawn = random.Of(model.of_strategies);
    StageDrawer(model, random, drawn).Change();
    return drawn;
  }
  drawn.model = model.name;
  drawn.plan.add_stages();
  StageDrawer(model, random, drawn).Draw();
  return drawn;
}

Traits TraitsOf(const TrainedModel& model, const PlanCase& drawn) {
  Traits traits;
  const Stage& stage = drawn.stage();
  traits.groups = stage.group_size() > 0;
  for (const GroupChoice& group : stage.group()) {
    traits.two_flat_axes |= group.over_size() > 1;
  }
  for (const StoreChoice& store : stage.store()) {
    const auto is_input = [&store](const Subjects::Input& input) {
      return input.path == store.path();
    };
    traits.updates_or_stores |= store.path() != AllInputs(model.subjects) &&
                                !absl::c_any_of(model.subjects.batch_inputs, is_input);
  }
  const auto names_update = [&](const ComputeChoice& choice) {
    return absl::c_any_of(model.subjects.operators, [&](const Subjects::Operator& op) {
      return op.update && op.path == choice.path();
    });
  };
  traits.updates_or_stores |= absl::c_any_of(stage.compute(), names_update);
  for (const PlanPart& part : stage.parts()) {
    traits.updates_or_stores |= absl::c_any_of(part.compute(), names_update);
  }
  return traits;
}

}  // namespace tessera

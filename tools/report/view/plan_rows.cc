#include "tools/report/view/plan_rows.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/ids/table.h"
#include "core/plan/choices/stage_passes.h"
#include "core/plan/graph/optimizer_state.h"
#include "core/tensor/shape.h"
#include "core/text/counted.h"
#include "core/text/path_pattern.h"
#include "tools/figures/unit_labels.h"

namespace tessera {
namespace {

constexpr char kOnAllRanks[] = "B";

// The stored layout of a parameter, or of one of its slices.
struct Stored {
  Storage storage = Storage::kFull;
  std::string text;

  friend bool operator<(const Stored& a, const Stored& b) {
    return std::tie(a.storage, a.text) < std::tie(b.storage, b.text);
  }
};

// The decisions of a stage by the paths of parameters and their slices.
class StageLookup {
 public:
  StageLookup(const Stage& stage, const Graph& recorded) : stage_(stage) {
    for (const StoreChoice& choice : stage.store()) layout_of_[choice.path()] = choice.layout();
    for (int i = 0; i < stage.group_size(); ++i) {
      for (const absl::string_view path : absl::StrSplit(stage.group(i).path(), '|')) {
        group_of_[path] = i;
        ++members_[i];
      }
    }
    for (const auto& [state, parameter] : ParametersOfOptimizerState({&recorded, 1})) {
      if (LayoutOf(state) != LayoutOf(parameter)) optimizer_layout_of_[parameter] = LayoutOf(state);
    }
  }

  // Returns the index of the flat group that a parameter is a member of; -1 if it is in none.
  int GroupOf(const std::string& path) const {
    const auto found = group_of_.find(path);
    return found == group_of_.end() ? -1 : found->second;
  }

  Stored StoredAs(const std::string& path) const {
    const std::string layout = LayoutOf(path);
    const int group = GroupOf(path);
    if (group >= 0) {
      const GroupChoice& choice = stage_.group(group);
      const std::string flat = absl::StrCat("flat over ", absl::StrJoin(choice.over(), ", "));
      if (choice.gather() == GroupChoice::AFTER_UPDATE) {
        return {Storage::kSplitOptimizer, absl::StrCat(layout, "; optimizer state ", flat)};
      }
      return {Storage::kFlat, layout == kOnAllRanks ? flat : absl::StrCat(layout, "; ", flat)};
    }
    const auto optimizer = optimizer_layout_of_.find(path);
    const std::string also = optimizer == optimizer_layout_of_.end()
                                 ? ""
                                 : absl::StrCat("; optimizer state ", optimizer->second);
    if (layout != kOnAllRanks) return {Storage::kSplit, layout + also};
    return {also.empty() ? Storage::kFull : Storage::kSplitOptimizer, layout + also};
  }

  // Returns when a group is gathered, and how much of it belongs to a unit that has `in_unit` of
  // its members.
  std::string GroupText(int group, int64_t in_unit) const {
    const GroupChoice& choice = stage_.group(group);
    const int64_t members = members_.at(group);
    std::string text = Counted(in_unit, "parameter");
    if (members > in_unit) {
      absl::StrAppend(&text, " of a group of ", members);
    } else if (members > 1) {
      absl::StrAppend(&text, " together");
    }
    switch (choice.gather()) {
      case GroupChoice::ONCE:
        absl::StrAppend(&text, ", gathered once");
        break;
      case GroupChoice::AFTER_UPDATE:
        absl::StrAppend(&text, ", updated in parts and gathered after the update");
        break;
      default:
        absl::StrAppend(&text, ", gathered in each phase");
    }
    absl::StrAppend(&text, " over ", absl::StrJoin(choice.over(), ", "));
    if (!choice.again_over().empty()) {
      absl::StrAppend(&text, ", for the backward pass over ", choice.again_over());
    }
    if (choice.reduce() == GroupChoice::EACH_MICRO_BATCH) {
      absl::StrAppend(&text, "; gradients are reduced after each micro-batch");
    }
    return text;
  }

 private:
  std::string LayoutOf(const std::string& path) const {
    const auto found = layout_of_.find(path);
    return found == layout_of_.end() ? kOnAllRanks : found->second;
  }

  const Stage& stage_;
  absl::flat_hash_map<std::string, std::string> layout_of_, optimizer_layout_of_;
  absl::flat_hash_map<std::string, int> group_of_;
  std::map<int, int64_t> members_;
};

// A unit before equal ones are merged.
struct Unit {
  std::string path;
  bool is_block = false;
  PlanRow row;
  std::map<int, int64_t> members;  // parameters and slices by group
};

// Collects the units of a Graph in the order in which its forward pass uses them.
class Units {
 public:
  explicit Units(const Graph& recorded) {
    for (const std::string& block : recorded.blocks()) blocks_[block] = true;
  }

  // Returns the unit of a path: its block, or else the scope that it is in.
  Unit& At(absl::string_view path) {
    std::string scope(path);
    bool is_block = false;
    for (size_t dot = path.find('.'); dot != path.npos && !is_block;
         dot = path.find('.', dot + 1)) {
      is_block = blocks_.contains(path.substr(0, dot));
      if (is_block) scope = std::string(path.substr(0, dot));
    }
    const size_t last = path.rfind('.');
    if (!is_block && last != path.npos) scope = std::string(path.substr(0, last));
    const auto [found, is_new] = index_of_.try_emplace(scope, units_.size());
    if (is_new) units_.push_back({scope, is_block, {}, {}});
    return units_[found->second];
  }

  // Returns the innermost unit whose scope has the path; null if there is none.
  Unit* Find(absl::string_view path) {
    for (size_t dot = path.rfind('.'); dot != path.npos && dot > 0;
         dot = path.rfind('.', dot - 1)) {
      const auto found = index_of_.find(path.substr(0, dot));
      if (found != index_of_.end()) return &units_[found->second];
    }
    return nullptr;
  }

  std::vector<Unit>& units() { return units_; }

 private:
  absl::flat_hash_map<std::string, bool> blocks_;
  absl::flat_hash_map<std::string, size_t> index_of_;
  std::vector<Unit> units_;
};

std::string NameWithin(const std::string& unit, const std::string& path) {
  return path.size() > unit.size() + 1 ? path.substr(unit.size() + 1) : path;
}

// Returns the cell of a parameter that is stored as `slices`, one path each.
ParameterCell CellOf(const std::string& name, const State& parameter,
                     const std::vector<std::string>& slices, const StageLookup& lookup) {
  ParameterCell cell;
  cell.name = name;
  cell.shape = TypeToString(parameter.type);
  cell.bytes = NumBytes(parameter.type);
  cell.slices = static_cast<int64_t>(slices.size());
  std::map<Stored, int64_t> counts;
  for (const std::string& slice : slices) ++counts[lookup.StoredAs(slice)];
  cell.storage = counts.size() > 1 ? Storage::kMixed : counts.begin()->first.storage;
  if (counts.size() == 1) {
    cell.layout = counts.begin()->first.text;
    return cell;
  }
  cell.layout = absl::StrJoin(counts, "; ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, Counted(entry.second, "slice"), " ", entry.first.text);
  });
  return cell;
}

// Adds the parameters and the operators of the forward pass to their units.
class ContentsWriter {
 public:
  ContentsWriter(const Program& program, const PlanPart& part, const StageLookup& lookup,
                 Units* units)
      : lookup_(lookup), units_(*units) {
    for (const ProgramState& state : program.states) slices_of_[state.origin].push_back(state.path);
    for (const ComputeChoice& choice : part.compute()) {
      signature_of_[choice.path()] = choice.signature();
    }
  }

  void Add(const Graph& recorded) {
    absl::flat_hash_map<ValueId, const State*> unread;
    for (const State& state : recorded.states()) {
      if (state.role == Role::kParameter && state.input != kNone) unread[state.input] = &state;
    }
    for (const Op& op : recorded.ops()) {
      if (op.phase != Phase::kForward) continue;
      for (const ValueId input : op.inputs) {
        const auto found = unread.find(input);
        if (found == unread.end()) continue;
        AddParameter(*found->second);
        unread.erase(found);
      }
      AddOperator(op);
    }
    for (const State& state : recorded.states()) {
      if (unread.contains(state.input)) AddParameter(state);
    }
  }

 private:
  void AddParameter(const State& state) {
    Unit& unit = units_.At(state.path);
    std::vector<std::string> slices = slices_of_[state.path];
    if (slices.empty()) slices = {state.path};
    for (const std::string& slice : slices) {
      if (const int group = lookup_.GroupOf(slice); group >= 0) ++unit.members[group];
    }
    unit.row.cells.push_back(CellOf(NameWithin(unit.path, state.path), state, slices, lookup_));
  }

  void AddOperator(const Op& op) {
    Unit& unit = units_.At(op.path);
    const auto signature = signature_of_.find(op.path);
    if (signature == signature_of_.end()) return;  // one rank, or it runs in slices
    unit.row.operators.emplace_back(NameWithin(unit.path, op.path), signature->second);
  }

  const StageLookup& lookup_;
  Units& units_;
  absl::flat_hash_map<absl::string_view, std::vector<std::string>> slices_of_;
  absl::flat_hash_map<absl::string_view, absl::string_view> signature_of_;
};

// Notes the units whose activations are recomputed.
void AddRecomputation(const Program& program, const PlanPart& part, Units* units) {
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.recomputed) continue;
    Unit* const unit = units->Find(instruction.path);
    if (unit != nullptr) unit->row.recomputed = Recomputed::kSome;
  }
  for (const std::string& text : part.recompute()) {
    const absl::StatusOr<PathPattern> pattern = PathPattern::Parse(text);
    if (!pattern.ok()) continue;
    for (Unit& unit : units->units()) {
      if (unit.is_block && pattern->MatchingScope(unit.path) > 0) {
        unit.row.recomputed = Recomputed::kAll;
      }
    }
  }
}

bool ShowTheSame(const PlanRow& a, const PlanRow& b) {
  return a.cells == b.cells && a.groups == b.groups && a.recomputed == b.recomputed &&
         a.operators == b.operators;
}

// Returns the rows of all units; equal blocks share one.
std::vector<PlanRow> Merged(std::vector<Unit> units, size_t blocks) {
  std::vector<PlanRow> rows;
  std::vector<std::vector<std::string>> paths;  // by row; empty: not of blocks
  for (Unit& unit : units) {
    if (unit.row.cells.empty() && unit.row.operators.empty()) continue;
    size_t same = rows.size();
    for (size_t i = 0; unit.is_block && i < rows.size() && same == rows.size(); ++i) {
      const bool fits = !paths[i].empty() && DifferInOneNumber(paths[i].front(), unit.path);
      if (fits && ShowTheSame(rows[i], unit.row)) same = i;
    }
    if (same == rows.size()) {
      unit.row.label = unit.path;
      rows.push_back(std::move(unit.row));
      paths.emplace_back();
    }
    if (unit.is_block) paths[same].push_back(unit.path);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (paths[i].size() < 2) continue;
    rows[i].units = static_cast<int64_t>(paths[i].size());
    rows[i].label = LabelOfUnits(paths[i], paths[i].size() == blocks);
  }
  return rows;
}

std::string PrecisionText(const PrecisionChoice& choice) {
  const auto name = [](TypeProto::DType dtype) {
    return absl::AsciiStrToLower(TypeProto::DType_Name(dtype));
  };
  return absl::StrCat("computed in ", name(choice.parameters()), ", gradients reduced in ",
                      name(choice.reduction()));
}

// Fills in the settings of the stage and of its part for the training step.
void AddSettings(const Stage& stage, const PlanPart& part, PlanRows* rows) {
  rows->micro_batches = std::max<int64_t>(part.micro_batches(), 1);
  rows->logits = part.logits() == PlanPart::KEPT         ? "kept"
                 : part.logits() == PlanPart::RECOMPUTED ? "recomputed"
                                                         : "";
  if (stage.has_precision()) rows->precision = PrecisionText(stage.precision());
  for (const PassChoice& pass : stage.pass()) {
    const absl::string_view name = NameOf(pass);
    rows->passes.emplace_back(name.data(), name.size());
  }
  for (const std::string& pass : part.passes()) rows->passes.push_back(pass);
  rows->recompute.assign(part.recompute().begin(), part.recompute().end());
}

}  // namespace

int64_t PlanRow::bytes() const {
  int64_t sum = 0;
  for (const ParameterCell& cell : cells) sum += cell.bytes;
  return sum;
}

PlanRows PlanRowsOf(const Graph& recorded, const CompiledRun& run) {
  PlanRows rows;
  const Program* const program = run.FindProgram(recorded.name());
  if (program == nullptr || run.plan.stages_size() == 0) return rows;
  const Stage& stage = run.plan.stages(0);
  const auto part = absl::c_find_if(
      stage.parts(), [&](const PlanPart& each) { return each.graph() == recorded.name(); });
  if (part == stage.parts().end()) return rows;
  rows.mesh = program->mesh.ToString();
  rows.blocks = static_cast<int>(recorded.blocks().size());
  AddSettings(stage, *part, &rows);
  const StageLookup lookup(stage, recorded);
  Units units(recorded);
  ContentsWriter(*program, *part, lookup, &units).Add(recorded);
  AddRecomputation(*program, *part, &units);
  for (Unit& unit : units.units()) {
    for (const auto& [group, in_unit] : unit.members) {
      unit.row.groups.push_back(lookup.GroupText(group, in_unit));
    }
  }
  rows.rows = Merged(std::move(units.units()), recorded.blocks().size());
  return rows;
}

}  // namespace tessera

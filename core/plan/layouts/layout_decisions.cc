#include "core/plan/layouts/layout_decisions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/layout/layout_text.h"
#include "core/plan/choices/choice_errors.h"
#include "core/plan/choices/path_index.h"
#include "core/status/status_macros.h"
#include "core/text/path_pattern.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

class DecisionFinder {
 public:
  DecisionFinder(const Stage& stage, absl::Span<const Graph> graphs,
                 std::shared_ptr<const DecisionSubjects> subjects, const Mesh& mesh)
      : stage_(stage),
        graphs_(graphs),
        mesh_(mesh),
        may_match_nothing_(HasOtherGraphs(stage, graphs)),
        subjects_(subjects->all()),
        index_(subjects->index()) {
    result_.subjects = std::move(subjects);
  }

  absl::StatusOr<LayoutDecisions> Find() && {
    for (const StoreChoice& choice : stage_.store()) {
      RETURN_IF_ERROR(InChoice("store", choice.path(), FindStored(choice)));
    }
    for (const GroupChoice& choice : stage_.group()) {
      RETURN_IF_ERROR(InChoice("group", choice.path(), FindGroups(choice)));
    }
    RETURN_IF_ERROR(CompleteLayouts());
    RETURN_IF_ERROR(FindOperators());
    return std::move(result_);
  }

 private:
  // Returns the error of a choice that matches nothing, unless such choices are allowed.
  absl::Status Unmatched(const PathPattern& pattern, absl::string_view kind,
                         const std::vector<std::string>& paths) const {
    if (may_match_nothing_) return absl::OkStatus();
    return UnmatchedPath(pattern, kind, paths, graphs_);
  }

  // Sets the stored layouts of the states and inputs that a choice names.
  absl::Status FindStored(const StoreChoice& choice) {
    ASSIGN_OR_RETURN(const PathPattern pattern, PathPattern::Parse(choice.path()));
    ASSIGN_OR_RETURN(const MeshLayout layout, ParseMeshLayout(choice.layout(), mesh_));
    if (layout.partial()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quote(choice.layout()), " holds partial values; a store is S or B"));
    }
    const std::vector<int> matching = index_.Matching(pattern);
    if (matching.empty()) return Unmatched(pattern, "state or input", index_.paths());
    for (int i : matching) {
      const DecisionSubject& subject = subjects_[i];
      const absl::Status fits = CheckLayout(layout, subject.type.shape, mesh_);
      if (!fits.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("'", subject.path, "': ", fits.message()));
      }
      if (!named_by_.emplace(subject.path, choice.path()).second) {
        return absl::InvalidArgumentError(absl::StrCat("'", subject.path, "' is named by store ",
                                                       Quote(named_by_[subject.path]),
                                                       " too; one of them must go"));
      }
      result_.stored[subject.path] = {layout, {}};
    }
    return absl::OkStatus();
  }

  // Returns the axes that split a group, the outermost split first.
  absl::StatusOr<std::vector<int>> FlatAxes(const GroupChoice& choice) const {
    std::vector<int> axes;
    for (const std::string& name : choice.over()) {
      ASSIGN_OR_RETURN(const int axis, mesh_.FindAxis(name));
      if (absl::c_linear_search(axes, axis)) {
        return absl::InvalidArgumentError(absl::StrCat("over: axis '", name, "' is named twice"));
      }
      axes.push_back(axis);
    }
    if (!axes.empty()) return axes;
    return absl::InvalidArgumentError("it names no axis, such as over: \"data\"");
  }

  // Returns for how many of the axes, counted from the last one, a group stays gathered for both
  // phases.
  absl::StatusOr<int> GathersKept(const GroupChoice& choice, absl::Span<const int> axes) const {
    const int all = static_cast<int>(axes.size());
    if (!GroupChoice::Gather_IsValid(choice.gather())) return Unknown("gather", choice.gather());
    const bool once = choice.gather() == GroupChoice::ONCE;
    const bool after_update = choice.gather() == GroupChoice::AFTER_UPDATE;
    if (choice.again_over().empty()) return once ? all : 0;
    for (int i = 0; !once && !after_update && i + 1 < all; ++i) {
      if (choice.again_over() == mesh_.axis(axes[i]).name) return all - i - 1;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "again_over: ", Quote(choice.again_over()),
        once           ? ": the group is gathered ONCE"
        : after_update ? ": the group is gathered AFTER_UPDATE, and never again; leave it out"
                       : ": the group is not split over that axis with another one after it"));
  }

  static absl::Status Unknown(absl::string_view field, int value) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", value, ", which this version does not know"));
  }

  // A parameter that a group's pattern matches.
  struct Member {
    int subject;          // index in subjects_
    size_t scope_length;  // of the prefix of its path that the pattern matches
  };

  // Returns the parameters whose path, or a scope of it, matches a group's pattern, in the order of
  // the Graphs. If the pattern lists existing paths, as it does in a completed Plan, they are
  // looked up: that is fast, and a path then names no parameters in a scope of the same name.
  std::vector<Member> MembersOf(const PathPattern& pattern) const {
    std::vector<Member> members;
    const bool lists_paths =
        !pattern.has_wildcards() &&
        absl::c_all_of(pattern.paths(), [&](const std::string& path) { return index_.Has(path); });
    if (lists_paths) {
      for (const int i : index_.Matching(pattern)) {
        if (subjects_[i].role != Role::kParameter) continue;
        members.push_back({i, subjects_[i].path.size()});
      }
      return members;
    }
    for (size_t i = 0; i < subjects_.size(); ++i) {
      if (subjects_[i].role != Role::kParameter) continue;
      size_t scope_length = pattern.MatchingScope(subjects_[i].path);
      if (scope_length == 0) scope_length = pattern.MatchingScope(subjects_[i].origin);
      if (scope_length > 0) members.push_back({static_cast<int>(i), scope_length});
    }
    return members;
  }

  // Returns a choice's number of elements at multiples of which a member may be split; kRow: of the
  // elements of a row.
  static absl::StatusOr<int64_t> SplitUnitOf(const GroupChoice& choice) {
    constexpr int64_t kMaxBlock = int64_t{1} << 30;
    if (choice.split_at_rows()) return kRow;
    if (!choice.has_split_at_multiples_of()) return 1;
    const int64_t block = choice.split_at_multiples_of();
    if (block >= 1 && block <= kMaxBlock) return block;
    return absl::InvalidArgumentError(
        absl::StrCat("split_at_multiples_of: ", block, "; it must be from 1 to 2^30"));
  }

  // Appends the groups of a choice, and sets the layouts of their members.
  absl::Status FindGroups(const GroupChoice& choice) {
    ASSIGN_OR_RETURN(const PathPattern pattern, PathPattern::Parse(choice.path()));
    StoreGroup group;
    ASSIGN_OR_RETURN(group.axes, FlatAxes(choice));
    ASSIGN_OR_RETURN(group.gathers_kept, GathersKept(choice, group.axes));
    group.gathers_after_update = choice.gather() == GroupChoice::AFTER_UPDATE;
    if (!GroupChoice::Reduce_IsValid(choice.reduce())) return Unknown("reduce", choice.reduce());
    group.reduce_each = choice.reduce() == GroupChoice::EACH_MICRO_BATCH;
    ASSIGN_OR_RETURN(group.block, SplitUnitOf(choice));
    const std::vector<Member> members = MembersOf(pattern);
    if (members.empty()) return Unmatched(pattern, "parameter", index_.paths());
    absl::flat_hash_map<std::string, size_t> group_of_scope;
    for (const Member& member : members) {
      const DecisionSubject& subject = subjects_[member.subject];
      if (!grouped_by_.emplace(subject.path, choice.path()).second) {
        return absl::InvalidArgumentError(absl::StrCat("'", subject.path, "' is named by group ",
                                                       Quote(grouped_by_[subject.path]),
                                                       " too; one of them must go"));
      }
      const std::string key = choice.each() ? subject.path.substr(0, member.scope_length) : "";
      const auto [it, first] = group_of_scope.emplace(key, result_.groups.size());
      if (first) {
        result_.groups.push_back(group);
        first_member_.push_back(member.subject);
      }
      const DecisionSubject& other = subjects_[first_member_[it->second]];
      if (other.type.dtype != subject.type.dtype || other.trainable != subject.trainable) {
        return absl::InvalidArgumentError(absl::StrCat(
            "'", subject.path, "' and '", other.path,
            "' differ in dtype or in whether they are trained; members of a group must agree"));
      }
      result_.groups[it->second].members.push_back(subject.path);
      StoredLayout& stored = FindOrAddStored(subject.path);
      for (const int axis : group.axes) {
        if (stored.layout.axis(axis).broadcast()) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "'", subject.path, "' is split over axis '", mesh_.axis(axis).name, "' by store ",
            Quote(named_by_[subject.path]), " too; one of them must go"));
      }
      if (group.gathers_after_update) {
        only_updated_flat_[subject.path] = group.axes;
      } else {
        stored.flat_axes = group.axes;
      }
    }
    return absl::OkStatus();
  }

  // Returns the layout of a parameter's update, unless its optimizer state is stored otherwise.
  StoredLayout UpdateLayoutOf(const std::string& parameter) {
    StoredLayout layout = FindOrAddStored(parameter);
    const auto flat = only_updated_flat_.find(parameter);
    if (flat != only_updated_flat_.end()) layout.flat_axes = flat->second;
    return layout;
  }

  // Returns the stored layout of a path. Adds B if no store choice names it.
  StoredLayout& FindOrAddStored(const std::string& path) {
    return result_.stored.emplace(path, StoredLayout{MeshLayout(mesh_.num_axes()), {}})
        .first->second;
  }

  // Decides what the store and group choices leave open: `stored` of every state and input but
  // caches, and `updated`.
  absl::Status CompleteLayouts() {
    const auto& parameter_of = result_.subjects->parameter_of();
    for (const DecisionSubject& subject : subjects_) {
      if (subject.role == Role::kCache || subject.role == Role::kOptimizerState) continue;
      FindOrAddStored(subject.path);
      if (subject.role == Role::kParameter)
        result_.updated[subject.path] = UpdateLayoutOf(subject.path);
    }
    for (const DecisionSubject& subject : subjects_) {
      if (subject.role != Role::kOptimizerState) continue;
      const auto parameter = parameter_of.find(subject.path);
      if (parameter == parameter_of.end()) {
        FindOrAddStored(subject.path);
      } else {
        RETURN_IF_ERROR(CompleteOptimizerState(subject.path, parameter->second));
      }
    }
    for (const auto& [state, parameter] : parameter_of) {
      const StoredLayout updated = result_.updated[parameter];
      result_.updated[state] = updated;
    }
    return absl::OkStatus();
  }

  // Stores optimizer state like its parameter is updated if no store choice names it, or if one
  // names it with the layout of the update. Otherwise the parameter is updated in the layout that
  // the choice gives the state.
  absl::Status CompleteOptimizerState(const std::string& state, const std::string& parameter) {
    const StoredLayout update = UpdateLayoutOf(parameter);
    const auto [it, is_open] = result_.stored.emplace(state, update);
    if (is_open || it->second.layout == update.layout) {
      it->second = update;
      return absl::OkStatus();
    }
    if (update.flat()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan's store ", Quote(named_by_[state]), ": '", state, "' belongs to '",
                       parameter, "', which is in a flat group; it is stored with it"));
    }
    result_.updated[parameter] = it->second;
    return absl::OkStatus();
  }

  // Finds the operators of all compute choices: those of the stage in all Graphs, those of a part
  // in its Graph.
  absl::Status FindOperators() {
    result_.operators.resize(graphs_.size());
    const auto has_choices = [](const PlanPart& part) { return part.compute_size() > 0; };
    if (stage_.compute_size() == 0 && absl::c_none_of(stage_.parts(), has_choices)) {
      return absl::OkStatus();
    }
    std::vector<PathIndex> operators(graphs_.size());
    operator_named_by_.resize(graphs_.size());
    for (size_t g = 0; g < graphs_.size(); ++g) {
      for (const Op& op : graphs_[g].ops()) {
        operators[g].Add(op.path, op.slice_of.empty() ? op.path : op.slice_of.str());
      }
    }
    const auto find = [&](const ComputeChoice& choice, size_t begin, size_t end, bool open_units) {
      return InChoice("compute", choice.path(),
                      FindOperator(choice, operators, begin, end, open_units));
    };
    for (const ComputeChoice& choice : stage_.compute()) {
      RETURN_IF_ERROR(find(choice, 0, graphs_.size(), /*open_units=*/true));
    }
    for (const PlanPart& part : stage_.parts()) {
      for (size_t g = 0; g < graphs_.size(); ++g) {
        if (graphs_[g].name() != part.graph()) continue;
        for (const ComputeChoice& choice : part.compute()) {
          RETURN_IF_ERROR(find(choice, g, g + 1, /*open_units=*/false));
        }
      }
    }
    return absl::OkStatus();
  }

  // Finds the operators of the choice in the Graphs from `begin` to `end`. Choices of a part are
  // complete: the units that they name are the final ones.
  absl::Status FindOperator(const ComputeChoice& choice, const std::vector<PathIndex>& operators,
                            size_t begin, size_t end, bool open_units) {
    ASSIGN_OR_RETURN(const PathPattern pattern, PathPattern::Parse(choice.path()));
    ASSIGN_OR_RETURN(const AxisUses uses, ParseAxisUses(choice.signature(), mesh_));
    bool matched = false;
    for (size_t g = begin; g < end; ++g) {
      for (const int position : operators[g].Matching(pattern)) {
        const OpId op(position);
        matched = true;
        const auto [it, first] = operator_named_by_[g].emplace(op, choice.path());
        if (!first) {
          return absl::InvalidArgumentError(
              absl::StrCat("'", graphs_[g].op(op).path, "' is named by compute ", Quote(it->second),
                           " too; one of them must go"));
        }
        AxisUses& planned = result_.operators[g][op];
        planned = uses;
        for (std::optional<AxisUse>& use : planned) {
          if (use.has_value()) use->open_units = open_units;
        }
      }
    }
    if (matched) return absl::OkStatus();
    std::vector<std::string> paths;
    for (size_t g = begin; g < end; ++g) {
      paths.insert(paths.end(), operators[g].paths().begin(), operators[g].paths().end());
    }
    return Unmatched(pattern, "operator", paths);
  }

  const Stage& stage_;
  const absl::Span<const Graph> graphs_;
  const Mesh& mesh_;
  const bool may_match_nothing_;
  const std::vector<DecisionSubject>& subjects_;
  const PathIndex& index_;  // of subjects
  absl::flat_hash_map<std::string, std::string> named_by_, grouped_by_;
  // The axes of a group that is gathered after the update, by member.
  absl::flat_hash_map<std::string, std::vector<int>> only_updated_flat_;
  std::vector<int> first_member_;                                          // of each group
  std::vector<absl::flat_hash_map<OpId, std::string>> operator_named_by_;  // by Graph
  LayoutDecisions result_;
};

}  // namespace

absl::StatusOr<LayoutDecisions> FindDecisions(const Stage& stage, absl::Span<const Graph> graphs,
                                              const Mesh& mesh,
                                              std::shared_ptr<const DecisionSubjects> subjects) {
  if (subjects == nullptr) subjects = std::make_shared<const DecisionSubjects>(graphs);
  return DecisionFinder(stage, graphs, std::move(subjects), mesh).Find();
}

}  // namespace tessera

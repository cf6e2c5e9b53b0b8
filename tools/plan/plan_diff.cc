#include "tools/plan/plan_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/cost/step_cost.h"
#include "core/graph/attributes_proto.h"
#include "core/tensor/shape.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "tools/plan/figures.h"

namespace tessera {
namespace {

// Returns a message in protobuf's text form, on one line.
std::string TextOf(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  absl::StripTrailingAsciiWhitespace(&text);
  return text;
}

// The beginning of the subject of a redistribution.
constexpr char kSteps[] = "steps of ";

// The decisions of a Plan about the training step, by subject, in the order of its fields.
class Decisions {
 public:
  // `axis_names` has other names for the axes of the mesh.
  Decisions(const Plan& plan, const std::map<std::string, std::string>& axis_names)
      : axis_names_(axis_names) {
    const Stage& stage = plan.stages(0);
    Add("mesh", absl::StrJoin(stage.mesh(), ", ", [&](std::string* out, const MeshAxis& axis) {
          absl::StrAppend(out, NameOf(axis.name()), ": ", axis.size());
        }));
    if (stage.has_precision()) Add("precision", TextOf(stage.precision()));
    for (const PlanPart& part : stage.parts()) {
      if (part.graph() == kTrain) AddPart(part);
    }
    for (const SliceChoice& slice : stage.slice()) {
      Add(absl::StrCat("slices of ", slice.path()),
          absl::StrCat(slice.count(), " along dimension ", slice.dimension()));
    }
    for (const StoreChoice& store : stage.store()) {
      Add(absl::StrCat("layout of ", store.path()), Renamed(store.layout()));
    }
    for (const GroupChoice& group : stage.group()) AddGroup(group);
    for (const PassChoice& pass : stage.pass()) AddPass(pass);
    for (const ComputeChoice& compute : stage.compute()) AddCompute(compute);
    for (const RedistributionChoice& choice : stage.redistribution()) AddRedistribution(choice);
  }

  const std::vector<std::string>& subjects() const { return subjects_; }
  std::string Of(const std::string& subject) const {
    const auto found = text_of_.find(subject);
    return found == text_of_.end() ? "" : found->second;
  }

 private:
  void Add(const std::string& subject, const std::string& text) {
    if (text_of_.emplace(subject, text).second) subjects_.push_back(subject);
  }

  void AddPart(const PlanPart& part) {
    Add("micro-batches", absl::StrCat(part.micro_batches()));
    Add("recomputed", absl::StrJoin(part.recompute(), " "));
    Add("logits", PlanPart::Logits_Name(part.logits()));
    Add("passes", absl::StrJoin(part.passes(), " "));
    for (const ComputeChoice& compute : part.compute()) AddCompute(compute);
  }

  void AddCompute(const ComputeChoice& compute) {
    Add(absl::StrCat("signature of ", compute.path()), Renamed(compute.signature()));
  }

  void AddRedistribution(const RedistributionChoice& choice) {
    const absl::StatusOr<TensorType> type = FromProto(choice.type());
    if (!type.ok()) return;  // of no completed Plan
    Add(absl::StrCat(kSteps, TypeToString(*type), " from ", Renamed(choice.from()), " to ",
                     Renamed(choice.to())),
        Renamed(absl::StrJoin(choice.step(), "; ")));
  }

  void AddGroup(GroupChoice group) {
    const std::string subject = absl::StrCat("group of ", group.path());
    for (std::string& axis : *group.mutable_over()) axis = NameOf(axis);
    group.set_again_over(NameOf(group.again_over()));
    group.clear_path();
    Add(subject, TextOf(group));
  }

  void AddPass(const PassChoice& pass) {
    const std::string text = TextOf(pass);
    const size_t space = text.find(' ');
    Add(absl::StrCat("pass ", text.substr(0, space)),
        space == std::string::npos ? "on" : text.substr(space + 1));
  }

  std::string NameOf(const std::string& axis) const {
    const auto found = axis_names_.find(axis);
    return found == axis_names_.end() ? axis : found->second;
  }

  // Returns layouts, a signature or a step with the axes' other names: "data: S(0); model: B". A
  // name stands before a colon, or in a list: "all-reduce along data and model: ...".
  std::string Renamed(absl::string_view text) const {
    std::string renamed;
    while (!text.empty()) {
      size_t word = 0;
      while (word < text.size() && (absl::ascii_isalnum(text[word]) || text[word] == '_')) ++word;
      const bool is_name = absl::StartsWith(text.substr(word), ":") ||
                           absl::EndsWith(renamed, "along ") || absl::EndsWith(renamed, " and ");
      const std::string first(text.substr(0, std::max<size_t>(word, 1)));
      absl::StrAppend(&renamed, is_name ? NameOf(first) : first);
      text.remove_prefix(first.size());
    }
    return renamed;
  }

  const std::map<std::string, std::string>& axis_names_;
  std::vector<std::string> subjects_;
  absl::flat_hash_map<std::string, std::string> text_of_;
};

// Returns the names of the axes of `a` for those of `b`, if their sizes are the same.
std::map<std::string, std::string> AxisNames(const Stage& a, const Stage& b) {
  std::map<std::string, std::string> names;
  if (a.mesh_size() != b.mesh_size()) return names;
  for (int i = 0; i < a.mesh_size(); ++i) {
    if (a.mesh(i).size() != b.mesh(i).size()) return {};
    names[b.mesh(i).name()] = a.mesh(i).name();
  }
  return names;
}

// Returns the path without the number that tells operators of one name apart: "update.add_7".
std::string WithoutNumber(std::string path) {
  const size_t end = path.find_last_not_of("0123456789");
  const bool has_number = end != std::string::npos && end + 1 < path.size() && path[end] == '_';
  return has_number ? path.substr(0, end) : path;
}

// Returns a subject with the names of layers in its paths.
std::string PatternOf(const std::string& subject, const LayerNames& layers) {
  const size_t of = subject.find(" of ");
  if (of == std::string::npos) return subject;
  std::vector<std::string> paths;
  for (absl::string_view path : absl::StrSplit(subject.substr(of + 4), '|')) {
    paths.push_back(WithoutNumber(layers.PatternOf(path)));
  }
  // A group lists all of its members.
  const std::string more = paths.size() > 2 ? absl::StrCat(" and ", paths.size() - 1, " more") : "";
  if (!more.empty()) paths.resize(1);
  return absl::StrCat(subject.substr(0, of + 4), absl::StrJoin(paths, ", "), more);
}

// Returns the subjects of decisions as a text: the first ones, and how many more there are.
std::string SubjectsText(const std::vector<const DecisionDiff*>& diffs) {
  constexpr size_t kShown = 3;
  std::vector<std::string> subjects;
  for (size_t i = 0; i < std::min(kShown, diffs.size()); ++i) {
    // "layout of a", "b", "c"
    const std::string& subject = diffs[i]->subject;
    const size_t of = i == 0 ? std::string::npos : subject.find(" of ");
    subjects.push_back(
        absl::StrCat(of == std::string::npos ? subject : subject.substr(of + 4),
                     diffs[i]->count > 1 ? absl::StrCat(" (", diffs[i]->count, " times)") : ""));
  }
  const size_t more = diffs.size() - subjects.size();
  return absl::StrCat(absl::StrJoin(subjects, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// Returns the differences, those that are the same for several subjects together.
std::string DecisionRows(const std::string& a, const std::string& b,
                         const std::vector<DecisionDiff>& diffs) {
  if (diffs.empty()) return "all decisions are the same\n";
  std::vector<std::vector<const DecisionDiff*>> groups;
  absl::flat_hash_map<std::string, size_t> index_of;
  for (const DecisionDiff& diff : diffs) {
    const std::string kind = diff.subject.substr(0, diff.subject.find(" of "));
    const std::string key = absl::StrCat(kind, "\n", diff.a, "\n", diff.b);
    const auto [known, is_new] = index_of.try_emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[known->second].push_back(&diff);
  }
  const int width = static_cast<int>(std::max(a.size(), b.size()));
  std::string text = "decisions that differ\n";
  for (const std::vector<const DecisionDiff*>& group : groups) {
    absl::StrAppend(&text, SubjectsText(group), "\n");
    for (const auto& [label, decision] : {std::pair(a, group[0]->a), std::pair(b, group[0]->b)}) {
      absl::StrAppendFormat(&text, "  %-*s  %s\n", width, label, decision.empty() ? "-" : decision);
    }
  }
  return text;
}

// A table of the costs of two steps and their differences.
class CostRows {
 public:
  CostRows(const std::string& a, const std::string& b) { Add("", {a, b, "difference"}); }

  void AddSeconds(const std::string& label, double a, double b) {
    if (a == 0 && b == 0) return;
    const auto text = [](double value) { return value == 0 ? "-" : FormatSeconds(value); };
    Add(label, {text(a), text(b), Difference(b - a, FormatSeconds(std::abs(b - a)))});
  }
  void AddBytes(const std::string& label, int64_t a, int64_t b) {
    if (a == 0 && b == 0) return;
    const auto text = [](int64_t value) { return value == 0 ? "-" : FormatBytes(value); };
    Add(label,
        {text(a), text(b), Difference(static_cast<double>(b - a), FormatBytes(std::abs(b - a)))});
  }
  std::string ToString() const {
    std::string text;
    for (const auto& [label, cells] : rows_) {
      absl::StrAppendFormat(&text, "%-32s", label);
      for (const std::string& cell : cells) absl::StrAppendFormat(&text, "%16s", cell);
      absl::StrAppend(&text, "\n");
    }
    return text;
  }

 private:
  static std::string Difference(double difference, const std::string& size) {
    return difference == 0 ? "-" : absl::StrCat(difference > 0 ? "+" : "-", size);
  }
  void Add(const std::string& label, std::vector<std::string> cells) {
    rows_.emplace_back(label, std::move(cells));
  }

  std::vector<std::pair<std::string, std::vector<std::string>>> rows_;
};

// Calls `add` with every name that either of two lists has, and its values in both; 0: none.
template <typename List, typename Name, typename Value, typename Add>
void AddPairs(const List& a, const List& b, Name name, Value value, Add add) {
  const auto find = [&](const List& list, const std::string& wanted) {
    const auto found =
        absl::c_find_if(list, [&](const auto& each) { return name(each) == wanted; });
    return found == list.end() ? decltype(value(*found))() : value(*found);
  };
  std::vector<std::string> names;
  for (const List* list : {&a, &b}) {
    for (const auto& each : *list) {
      if (absl::c_linear_search(names, name(each))) continue;
      names.push_back(name(each));
      add(names.back(), find(a, names.back()), find(b, names.back()));
    }
  }
}

std::string CostText(const Figures& a, const Figures& b, const std::string& a_label,
                     const std::string& b_label) {
  CostRows rows(a_label, b_label);
  rows.AddSeconds("step", a.cost.step_seconds(), b.cost.step_seconds());
  const auto category = [](const auto& each) { return each.category(); };
  AddPairs(
      a.cost.times(), b.cost.times(), category,
      [](const StepCost::Time& time) { return time.seconds(); },
      [&](const std::string& name, double x, double y) {
        rows.AddSeconds(absl::StrCat("  ", name), x, y);
      });
  rows.AddSeconds("  exposed communication", a.cost.exposed_seconds(), b.cost.exposed_seconds());
  rows.AddBytes("peak memory of a rank", a.peak_bytes, b.peak_bytes);
  AddPairs(
      a.cost.memory(), b.cost.memory(),
      [](const StepCost::Memory& each) {
        return absl::StrCat(each.category(), each.on_host() ? " on the host" : "");
      },
      [](const StepCost::Memory& each) { return each.bytes(); },
      [&](const std::string& name, int64_t x, int64_t y) {
        rows.AddBytes(absl::StrCat("  ", name), x, y);
      });
  const auto name_of = [](const StepCost::Collective& each) { return NameOf(each); };
  AddPairs(
      a.cost.collectives(), b.cost.collectives(), name_of,
      [](const StepCost::Collective& each) { return each.bytes(); },
      [&](const std::string& name, int64_t x, int64_t y) {
        rows.AddBytes(absl::StrCat(name, ", sent"), x, y);
      });
  return rows.ToString();
}

// "fsdp, 64 ranks" if the numbers of ranks differ, else "fsdp".
std::string LabelOf(const Cell& cell, const Cell& other) {
  const CellRequest& request = cell.request;
  return request.ranks == other.request.ranks
             ? request.label
             : absl::StrCat(request.label, ", ", Counted(request.ranks, "rank"));
}

}  // namespace

std::vector<DecisionDiff> DiffPlans(const Plan& a, const Plan& b, const LayerNames& layers) {
  const std::map<std::string, std::string> none;
  const std::map<std::string, std::string> names = AxisNames(a.stages(0), b.stages(0));
  const Decisions of_a(a, none), of_b(b, names);
  std::vector<std::string> subjects = of_a.subjects();
  for (const std::string& subject : of_b.subjects()) {
    if (of_a.Of(subject).empty()) subjects.push_back(subject);
  }
  std::vector<DecisionDiff> diffs;
  absl::flat_hash_map<std::string, size_t> index_of;
  for (const std::string& subject : subjects) {
    DecisionDiff diff = {PatternOf(subject, layers), of_a.Of(subject), of_b.Of(subject)};
    if (diff.a == diff.b) continue;
    // Other layouts need other redistributions; what differs then are the layouts.
    const bool in_both = !diff.a.empty() && !diff.b.empty();
    if (absl::StartsWith(subject, kSteps) && !in_both) continue;
    const std::string key = absl::StrCat(diff.subject, "\n", diff.a, "\n", diff.b);
    const auto [known, is_new] = index_of.try_emplace(key, diffs.size());
    if (is_new) {
      diffs.push_back(std::move(diff));
    } else {
      ++diffs[known->second].count;
    }
  }
  return diffs;
}

std::string DiffText(const Cell& a, const Cell& b) {
  const auto& graphs = a.prepared.compiled.graphs;
  const LayerNames layers(
      *absl::c_find_if(graphs, [](const Graph& graph) { return graph.name() == kTrain; }));
  const std::string a_label = LabelOf(a, b), b_label = LabelOf(b, a);
  return absl::StrCat(
      CostText(FiguresOf(a), FiguresOf(b), a_label, b_label), "\n",
      DecisionRows(a_label, b_label,
                   DiffPlans(a.prepared.compiled.plan, b.prepared.compiled.plan, layers)));
}

}  // namespace tessera

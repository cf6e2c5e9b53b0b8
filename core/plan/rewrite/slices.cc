#include "core/plan/rewrite/slices.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/plan/choices/choice_errors.h"
#include "core/plan/choices/path_index.h"
#include "core/plan/graph/copy_graph.h"
#include "core/plan/graph/optimizer_state.h"
#include "core/plan/graph/time_split_writer.h"
#include "core/status/status_macros.h"
#include "core/text/path_pattern.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// Finds the parameters that the slice choices of a stage name, with their optimizer state.
class SliceFinder {
 public:
  SliceFinder(const Stage& stage, absl::Span<const Graph> graphs)
      : stage_(stage), graphs_(graphs) {}

  absl::StatusOr<SliceDecisions> Find() && {
    if (stage_.slice_size() == 0) return SliceDecisions();
    for (const Graph& graph : graphs_) {
      for (const State& state : graph.states()) {
        AddSubject(state.path, state.role, state.type.shape);
      }
      for (const GraphInput& input : graph.inputs()) {
        const Value& value = graph.value(input.value);
        AddSubject(value.path, value.role, value.type.shape);
      }
    }
    parameter_of_ = ParametersOfOptimizerState(graphs_);
    for (const SliceChoice& choice : stage_.slice()) {
      RETURN_IF_ERROR(InChoice("slice", choice.path(), AddChoice(choice)));
    }
    for (const auto& [state, parameter] : parameter_of_) {
      const auto it = result_.of_state.find(parameter);
      if (it != result_.of_state.end()) result_.of_state[state] = it->second;
    }
    for (const auto& [state, i] : result_.of_state) {
      SlicedParameter& parameter = result_.parameters[i];
      if (state != parameter.path) parameter.optimizer_state.push_back(state);
    }
    for (SlicedParameter& parameter : result_.parameters) {
      absl::c_sort(parameter.optimizer_state);
    }
    return std::move(result_);
  }

 private:
  struct Subject {
    Role role;
    Shape shape;
  };

  // Adds a state or an input that a choice may name, unless another Graph has added it.
  void AddSubject(const std::string& path, Role role, const Shape& shape) {
    if (index_.Has(path)) return;
    index_.Add(path, path);
    subjects_.push_back({role, shape});
    shape_of_[path] = shape;
  }

  // Adds the parameters and the optimizer state that a choice names to result_.
  absl::Status AddChoice(const SliceChoice& choice) {
    ASSIGN_OR_RETURN(const PathPattern pattern, PathPattern::Parse(choice.path()));
    const std::vector<int> matching = index_.Matching(pattern);
    if (matching.empty()) {
      if (HasOtherGraphs(stage_, graphs_)) return absl::OkStatus();
      return UnmatchedPath(pattern, "parameter", index_.paths(), graphs_);
    }
    const size_t first_of_choice = result_.parameters.size();
    for (int i : matching) {
      if (subjects_[i].role == Role::kParameter) RETURN_IF_ERROR(AddParameter(choice, i));
    }
    for (int i : matching) {
      if (subjects_[i].role != Role::kParameter)
        RETURN_IF_ERROR(AddOptimizerState(i, first_of_choice));
    }
    return absl::OkStatus();
  }

  absl::Status AddParameter(const SliceChoice& choice, int i) {
    const std::string& path = index_.paths()[i];
    RETURN_IF_ERROR(CheckCount(choice, path, subjects_[i].shape));
    const auto [it, added] =
        result_.of_state.emplace(path, static_cast<int>(result_.parameters.size()));
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat("'", path, "' is named by slice ",
                                                     Quote(named_by_[it->second]),
                                                     " too; one of them must go"));
    }
    named_by_.push_back(choice.path());
    result_.parameters.push_back(
        {path, choice.dimension(), choice.count(), subjects_[i].shape[choice.dimension()], {}});
    return absl::OkStatus();
  }

  // Adds optimizer state that a choice names to its parameter, which the same choice must name. A
  // completed Plan names it, because the Graphs of a run need not contain the op that updates both;
  // without that op, it belongs to the choice's only parameter if it has the same shape.
  // `first_of_choice` is the first parameter of the choice.
  absl::Status AddOptimizerState(int i, size_t first_of_choice) {
    const std::string& path = index_.paths()[i];
    const auto known = parameter_of_.find(path);
    const bool only_one = result_.parameters.size() == first_of_choice + 1;
    for (size_t p = first_of_choice; p < result_.parameters.size(); ++p) {
      const bool belongs = known != parameter_of_.end()
                               ? known->second == result_.parameters[p].path
                               : only_one && ShapeOf(p) == subjects_[i].shape;
      if (!belongs || subjects_[i].role != Role::kOptimizerState) continue;
      result_.of_state[path] = static_cast<int>(p);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has the role '", RoleName(subjects_[i].role),
                     "'; parameters are sliced, and their optimizer state with them"));
  }

  const Shape& ShapeOf(size_t parameter) const {
    return shape_of_.find(result_.parameters[parameter].path)->second;
  }

  // Checks that a shape can be split as a choice says, with no slice empty.
  static absl::Status CheckCount(const SliceChoice& choice, const std::string& path,
                                 const Shape& shape) {
    const auto error = [&](auto... what) {
      return absl::InvalidArgumentError(absl::StrCat("'", path, "' ", what...));
    };
    const int rank = static_cast<int>(shape.size());
    if (choice.dimension() < 0 || choice.dimension() >= rank) {
      return error("is ", ShapeToString(shape), ", without a dimension ", choice.dimension());
    }
    if (choice.count() < 2) {
      return error("would have ", choice.count(), " slices; there must be at least 2");
    }
    const int64_t elements = shape[choice.dimension()];
    const int64_t largest = elements / choice.count() + (elements % choice.count() != 0 ? 1 : 0);
    const int64_t needed = largest == 0 ? 0 : (elements + largest - 1) / largest;
    if (needed == choice.count()) return absl::OkStatus();
    return error("has ", elements, " elements along dimension ", choice.dimension(), ", for which ",
                 needed, " slices of ", largest, " are enough; of ", choice.count(),
                 " some would be empty");
  }

  const Stage& stage_;
  const absl::Span<const Graph> graphs_;
  PathIndex index_;
  std::vector<Subject> subjects_;
  absl::flat_hash_map<std::string, Shape> shape_of_;            // by path
  absl::flat_hash_map<std::string, std::string> parameter_of_;  // by path of optimizer state
  SliceDecisions result_;
  std::vector<std::string> named_by_;  // by sliced parameter: the choice that names it
};

// Writes one Graph with slices. Ids of the Graph that is read are called `old`.
class SliceWriter {
 public:
  SliceWriter(const Graph& graph, const SliceDecisions& decisions, const SliceLayouts& layouts)
      : graph_(graph),
        decisions_(decisions),
        layouts_(layouts),
        writer_(graph, layouts.split,
                {"slices", /*own_paths=*/true, /*views_per_phase=*/true,
                 [](const Op& old, int64_t part, Op& op) {
                   op.slice_of = old.path;
                   op.slice = static_cast<int32_t>(part);
                 }}) {}

  absl::StatusOr<Graph> Write() && {
    Graph& out = writer_.out();
    for (const GraphInput& input : graph_.inputs()) {
      writer_.full()[input.value] =
          out.AppendInput(graph_.value(input.value), input.batch_dim, input.origin);
    }
    AppendStates();
    CopyBlocks(graph_, out);
    for (const OpId old : graph_.ops().ids()) {
      if (layouts_.ops[old].axis == kNone) {
        writer_.WriteFull(old);
      } else if (!layouts_.ops[old].late) {
        RETURN_IF_ERROR(WriteRemainingSlices(old));
      }
    }
    // The remaining late slices are not read slice by slice.
    for (const OpId old : graph_.ops().ids()) {
      if (layouts_.ops[old].late) RETURN_IF_ERROR(WriteRemainingSlices(old));
    }
    WriteResults();
    writer_.LinkGradients();
    out.ResetOrigins();
    RETURN_IF_ERROR(out.status());
    return std::move(out);
  }

 private:
  // Returns slice k of a state along an axis.
  State SliceOf(const State& state, int axis, int64_t k) const {
    const SlicedParameter& parameter = decisions_.parameters[axis];
    const Shape& shape = state.type.shape;
    State slice = state;
    absl::StrAppend(&slice.path, layouts_.split.axes[axis].suffixes[k]);
    Region region = {Shape(shape.size(), 0), shape};
    region.start[parameter.dimension] = parameter.begin(k);
    slice.region = std::make_shared<const Region>(std::move(region));
    slice.type.shape[parameter.dimension] = parameter.end(k) - parameter.begin(k);
    return slice;
  }

  void AppendStates() {
    Graph& out = writer_.out();
    for (const State& state : graph_.states()) {
      if (state.input == kNone) continue;
      const int axis = decisions_.AxisOf(state.path);
      if (axis == kNone) {
        writer_.full()[state.input] = out.AppendState(state);
        continue;
      }
      for (int64_t k = 0; k < decisions_.parameters[axis].count; ++k) {
        writer_.AddPart(state.input, out.AppendState(SliceOf(state, axis, k)));
      }
    }
  }

  // Writes the slices of an op that are not written yet.
  absl::Status WriteRemainingSlices(OpId old) {
    const int64_t parts = layouts_.split.axes[layouts_.ops[old].axis].parts();
    for (int64_t k = writer_.PartsWritten(old); k < parts; ++k) {
      RETURN_IF_ERROR(WriteSlice(old, k));
    }
    return absl::OkStatus();
  }

  // Writes slice k of an op, after the late ops whose slices it reads.
  absl::Status WriteSlice(OpId old, int64_t k) {
    const SliceSchedule& schedule = layouts_.ops[old];
    for (ValueId input : graph_.op(old).inputs) {
      const OpId producer = graph_.value(input).producer;
      if (producer == kNone || !layouts_.ops[producer].late) continue;
      while (writer_.PartsWritten(producer) <= k) {
        RETURN_IF_ERROR(WriteSlice(producer, writer_.PartsWritten(producer)));
      }
    }
    return writer_.WritePart(old, schedule.signature.inputs, schedule.axis, k);
  }

  // Sets the updated values of states, slice by slice, and the outputs.
  void WriteResults() {
    Graph& out = writer_.out();
    for (const State& state : graph_.states()) {
      const int axis = decisions_.AxisOf(state.path);
      const bool only_written = state.input == kNone;
      if (!only_written && state.updated == state.input) continue;
      if (axis == kNone) {
        const Tensor updated = out.tensor(writer_.FindOrConcatFull(state.updated));
        only_written ? out.WriteState(state, updated) : out.SetState(state.path, updated);
        continue;
      }
      const AxisLayout layout = AxisLayout::Split(decisions_.parameters[axis].dimension);
      for (int64_t k = 0; k < decisions_.parameters[axis].count; ++k) {
        const State slice = SliceOf(state, axis, k);
        const Tensor updated =
            out.tensor(writer_.FindOrAppendInput(state.updated, layout, axis, k, Phase::kUpdate));
        only_written ? out.WriteState(slice, updated) : out.SetState(slice.path, updated);
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      out.SetOutput(output.name, out.tensor(writer_.FindOrConcatFull(output.value)));
    }
  }

  const Graph& graph_;
  const SliceDecisions& decisions_;
  const SliceLayouts& layouts_;
  TimeSplitWriter writer_;
};

}  // namespace

absl::StatusOr<SliceDecisions> FindSlices(const Stage& stage, absl::Span<const Graph> graphs) {
  return SliceFinder(stage, graphs).Find();
}

absl::StatusOr<std::vector<Graph>> SliceGraphs(absl::Span<const Graph> graphs,
                                               const SliceDecisions& decisions) {
  std::vector<Graph> sliced;
  for (const Graph& graph : graphs) {
    ASSIGN_OR_RETURN(const SliceLayouts layouts, LayOutSlices(graph, decisions));
    ASSIGN_OR_RETURN(Graph written, SliceWriter(graph, decisions, layouts).Write());
    sliced.push_back(std::move(written));
  }
  return sliced;
}

}  // namespace tessera

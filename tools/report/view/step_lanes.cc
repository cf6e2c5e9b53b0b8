#include "tools/report/view/step_lanes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "core/cost/instruction_prices.h"

namespace tessera {
namespace {

// Spans that are closer than this share of the step are one.
constexpr double kJoined = 1e-9;

// The kind, the index of the stream and the operation; lanes are in this order.
using LaneKey = std::tuple<LaneKind, int32_t, std::string>;

const char* WorkName(LaneKind kind) {
  switch (kind) {
    case LaneKind::kForward:
      return "forward";
    case LaneKind::kBackward:
      return "backward";
    case LaneKind::kUpdate:
      return "update";
    case LaneKind::kRecomputation:
      return "recomputation";
    case LaneKind::kHostCopies:
      return "host copies";
    case LaneKind::kCommunication:
      return "communication";
    case LaneKind::kExposed:
      return "only communication";
  }
  return "";
}

LaneKind KindOf(const Program& program, const Instruction& instruction) {
  if (program.Communicates(instruction)) return LaneKind::kCommunication;
  if (HostCopyTo(program, instruction).has_value()) return LaneKind::kHostCopies;
  if (instruction.recomputed) return LaneKind::kRecomputation;
  switch (instruction.phase) {
    case Phase::kForward:
      return LaneKind::kForward;
    case Phase::kBackward:
      return LaneKind::kBackward;
    case Phase::kUpdate:
      return LaneKind::kUpdate;
  }
  return LaneKind::kForward;
}

// Sorts spans and joins those that touch or overlap.
std::vector<TimeSpan> Joined(std::vector<TimeSpan> spans, double tolerance) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  std::vector<TimeSpan> joined;
  for (const TimeSpan& span : spans) {
    if (span.seconds() <= 0) continue;
    if (joined.empty() || span.begin > joined.back().end + tolerance) {
      joined.push_back(span);
    } else {
      joined.back().end = std::max(joined.back().end, span.end);
    }
  }
  return joined;
}

// Returns the parts of `spans` that are not in `others`; both are disjoint and in order.
std::vector<TimeSpan> Without(const std::vector<TimeSpan>& spans,
                              const std::vector<TimeSpan>& others) {
  std::vector<TimeSpan> rest;
  size_t next = 0;
  for (const TimeSpan& span : spans) {
    double from = span.begin;
    while (next < others.size() && others[next].end <= from) ++next;
    for (size_t i = next; i < others.size() && others[i].begin < span.end; ++i) {
      if (others[i].begin > from) rest.push_back({from, others[i].begin});
      from = std::max(from, others[i].end);
    }
    if (from < span.end) rest.push_back({from, span.end});
  }
  return rest;
}

StepLane MakeLane(LaneKind kind, const std::vector<TimeSpan>& spans, double step_seconds,
                  int max_spans) {
  StepLane lane;
  lane.kind = kind;
  lane.work = WorkName(kind);
  for (const TimeSpan& span : spans) {
    lane.seconds += span.seconds();
    lane.spans.push_back({span.begin, span.end, 1});
  }
  if (lane.spans.size() > static_cast<size_t>(max_spans)) {
    lane.spans = InIntervals(lane.spans, step_seconds / max_spans);
  }
  return lane;
}

}  // namespace

std::vector<LaneSpan> InIntervals(const std::vector<LaneSpan>& spans, double width) {
  std::vector<LaneSpan> intervals;
  if (spans.empty()) return intervals;
  const auto count = static_cast<size_t>(std::ceil(spans.back().end / width - kJoined));
  std::vector<double> busy(std::max(count, size_t{1}), 0.0);
  const auto end_of = [width](size_t i) { return static_cast<double>(i + 1) * width; };
  for (const LaneSpan& span : spans) {
    double from = span.begin;
    for (size_t i = std::min(static_cast<size_t>(from / width), busy.size() - 1);; ++i) {
      const bool last = i + 1 == busy.size() || span.end <= end_of(i);
      const double to = last ? span.end : std::max(from, end_of(i));
      busy[i] += span.share * (to - from);
      from = to;
      if (last) break;
    }
  }
  for (size_t i = 0; i < busy.size(); ++i) {
    if (busy[i] > 0) intervals.push_back({end_of(i) - width, end_of(i), busy[i] / width});
  }
  return intervals;
}

std::vector<StepLane> LanesOf(const Program& program, const Table<InstructionId, TimeSpan>& times,
                              int max_spans) {
  const double step_seconds = StepSeconds(times);
  const double tolerance = kJoined * step_seconds;
  std::map<LaneKey, std::vector<TimeSpan>> spans_of;
  std::vector<TimeSpan> computing;
  for (const InstructionId i : times.ids()) {
    const Instruction& instruction = program.instructions[i];
    const LaneKind kind = KindOf(program, instruction);
    const bool communicates = kind == LaneKind::kCommunication;
    if (!communicates) computing.push_back(times[i]);
    spans_of[{kind, instruction.stream.index(),
              communicates ? program.OperationOf(instruction) : ""}]
        .push_back(times[i]);
  }
  std::vector<StepLane> lanes;
  for (auto& [key, spans] : spans_of) {
    const auto& [kind, stream, operation] = key;
    const auto instructions = static_cast<int64_t>(spans.size());
    StepLane lane = MakeLane(kind, Joined(std::move(spans), tolerance), step_seconds, max_spans);
    lane.instructions = instructions;
    lane.stream = program.streams[StreamId(stream)];
    if (!operation.empty()) lane.work = operation;
    lanes.push_back(std::move(lane));
  }
  const std::vector<TimeSpan> communicating = CommunicatingSpans(program, times);
  if (communicating.empty()) return lanes;
  lanes.push_back(MakeLane(LaneKind::kExposed, Without(communicating, Joined(computing, 0)),
                           step_seconds, max_spans));
  return lanes;
}

}  // namespace tessera

#include "core/train/measure/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/ids/table.h"
#include "core/status/check.h"
#include "core/train/measure/measured_steps.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// Returns the number of the process of a rank.
int ProcessOf(const TracedRank& rank) { return 1 + rank.rank + (rank.predicted ? rank.size : 0); }
constexpr int kComputeThread = 1;  // of the first stream; the others follow

// nlohmann's strings are std::string.
std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

Json Types(const Program& program, absl::Span<const ProgramValueId> values) {
  Json types = Json::array();
  for (ProgramValueId value : values) types.push_back(TypeToString(program.value(value).type));
  return types;
}

// The threads on which a viewer shows instructions. Slices of one thread must nest, but collectives
// of one stream may overlap, so a stream has as many threads as it has collectives in flight.
struct Threads {
  Table<InstructionId, int> of_instruction;
  std::vector<std::string> names;  // by thread
};

// Assigns each instruction, in the order in which they began, to the first thread of its stream
// that is free.
Threads AssignThreads(const Program& program, const Table<InstructionId, InstructionTime>& times) {
  Threads threads;
  threads.of_instruction.resize(program.instructions.size());
  threads.names.assign(program.streams.begin(), program.streams.end());
  Table<StreamId, std::vector<InstructionId>> by_stream(program.streams.size());
  for (const InstructionId i : times.ids()) {
    by_stream[program.instructions[i].stream].push_back(i);
  }
  for (const StreamId s : by_stream.ids()) {
    std::stable_sort(
        by_stream[s].begin(), by_stream[s].end(),
        [&](InstructionId a, InstructionId b) { return times[a].begin_ns < times[b].begin_ns; });
    struct Thread {
      int number = 0;
      int64_t busy_until_ns = INT64_MIN;
    };
    std::vector<Thread> of_stream = {{s.index()}};
    for (const InstructionId i : by_stream[s]) {
      auto free = std::find_if(of_stream.begin(), of_stream.end(), [&](const Thread& thread) {
        return thread.busy_until_ns <= times[i].begin_ns;
      });
      if (free == of_stream.end()) {
        free = of_stream.insert(free, {static_cast<int>(threads.names.size())});
        threads.names.push_back(absl::StrCat(program.streams[s], " ", of_stream.size()));
      }
      free->busy_until_ns = times[i].end_ns;
      threads.of_instruction[i] = free->number;
    }
  }
  return threads;
}

// Returns the slice of an instruction that ran on a thread.
Json InstructionSlice(const Program& program, const Instruction& instruction, InstructionTime time,
                      int thread, const TracedRank& rank) {
  const std::string operation = program.OperationOf(instruction);
  Json args = {
      {"op", operation},
      {"inputs", Types(program, instruction.inputs)},
      {"outputs", Types(program, instruction.outputs)},
      {"phase", Text(PhaseName(instruction.phase))},
      {"bytes", instruction.cost.bytes},
      {"flops", instruction.cost.flops},
  };
  if (instruction.kind == InstructionKind::kKernel) {
    args["kernel"] = Text(program.KernelOf(instruction).kernel->name());
  }
  const int64_t nanoseconds = time.end_ns - time.begin_ns;
  if (instruction.cost.flops > 0 && nanoseconds > 0) {
    args["GFLOP/s"] = instruction.cost.flops / static_cast<double>(nanoseconds);
  }
  if (!instruction.fused_paths.empty()) args["fused"] = instruction.fused_paths;
  if (instruction.recomputed) args["recomputed"] = true;
  return {
      {"name", instruction.path},
      {"cat", operation},
      {"ph", "X"},
      {"ts", Microseconds(time.begin_ns - rank.zero_ns)},
      {"dur", Microseconds(time.end_ns - time.begin_ns)},
      {"pid", ProcessOf(rank)},
      {"tid", kComputeThread + thread},
      {"args", std::move(args)},
  };
}

// Returns a slice that contains other slices.
Json OuterSlice(absl::string_view name, int64_t begin_ns, int64_t end_ns, const TracedRank& rank) {
  return {
      {"name", Text(name)},
      {"cat", "phase"},
      {"ph", "X"},
      {"ts", Microseconds(begin_ns - rank.zero_ns)},
      {"dur", Microseconds(end_ns - begin_ns)},
      {"pid", ProcessOf(rank)},
      {"tid", kComputeThread},
  };
}

// Activations are computed again as a part of the backward pass.
Phase PhaseOf(const Instruction& instruction) {
  return instruction.recomputed ? Phase::kBackward : instruction.phase;
}

// Appends a slice for each run of consecutive computing instructions of one phase. Micro-batches
// alternate between phases.
void AppendPhases(const Program& program, const StepTimes& times, const TracedRank& rank,
                  Json* events) {
  std::vector<InstructionId> computing;
  for (const InstructionId i : program.instructions.ids()) {
    if (!program.Communicates(program.instructions[i])) computing.push_back(i);
  }
  for (size_t begin = 0; begin < computing.size();) {
    const auto phase_of = [&](size_t i) { return PhaseOf(program.instructions[computing[i]]); };
    size_t end = begin + 1;
    while (end < computing.size() && phase_of(end) == phase_of(begin)) ++end;
    events->push_back(OuterSlice(PhaseName(phase_of(begin)),
                                 times.instructions[computing[begin]].begin_ns,
                                 times.instructions[computing[end - 1]].end_ns, rank));
    begin = end;
  }
}

// Returns the bytes of live buffers on the device during each instruction.
Table<InstructionId, int64_t> LiveBytes(const Program& program) {
  const int64_t instructions = static_cast<int64_t>(program.instructions.size());
  std::vector<int64_t> change(instructions + 1, 0);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.space == MemorySpace::kOffloadHost) continue;
    const int64_t first = std::max<int64_t>(buffer.first, 0);
    const int64_t behind = std::min<int64_t>(int64_t{buffer.last} + 1, instructions);
    if (first >= behind) continue;
    change[first] += buffer.bytes;
    change[behind] -= buffer.bytes;
  }
  int64_t live = 0;
  Table<InstructionId, int64_t> result;
  for (int64_t i = 0; i < instructions; ++i) result.push_back(live += change[i]);
  return result;
}

// Returns the event that names a process or a thread; `kind` is its name in the format.
Json Metadata(absl::string_view kind, absl::string_view name, const TracedRank& rank,
              int thread = 0) {
  return {{"name", Text(kind)},
          {"ph", "M"},
          {"pid", ProcessOf(rank)},
          {"tid", kComputeThread + thread},
          {"args", {{"name", Text(name)}}}};
}

}  // namespace

std::string TraceEvents(const Program& program, const StepTimes& times, const TracedRank& rank) {
  TESSERA_CHECK(times.instructions.size() == program.instructions.size());
  Json events = Json::array();
  const std::string name = absl::StrCat("tessera ", program.name);
  events.push_back(
      Metadata("process_name",
               absl::StrCat(rank.size > 1 ? absl::StrCat("rank ", rank.rank, ": ") : "", name,
                            rank.predicted ? ", predicted" : ""),
               rank));
  Json order = Metadata("process_sort_index", "", rank);
  order["args"] = {{"sort_index", 2 * rank.rank + (rank.predicted ? 1 : 0)}};
  events.push_back(std::move(order));
  const Threads threads = AssignThreads(program, times.instructions);
  for (size_t t = 0; t < threads.names.size(); ++t) {
    events.push_back(Metadata("thread_name", threads.names[t], rank, static_cast<int>(t)));
  }
  events.push_back(OuterSlice("step", times.begin_ns, times.end_ns, rank));
  AppendPhases(program, times, rank, &events);
  const Table<InstructionId, int64_t> live = LiveBytes(program);
  for (const InstructionId i : program.instructions.ids()) {
    const InstructionTime& time = times.instructions[i];
    events.push_back(
        InstructionSlice(program, program.instructions[i], time, threads.of_instruction[i], rank));
    events.push_back({{"name", "live"},  // Perfetto shows "live bytes"
                      {"ph", "C"},
                      {"ts", Microseconds(time.begin_ns - rank.zero_ns)},
                      {"pid", ProcessOf(rank)},
                      {"args", {{"bytes", live[i]}}}});
  }
  // One event a line, so that the file can be read and searched without a viewer.
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    absl::StrAppend(&text, events[i].dump(), i + 1 < events.size() ? ",\n" : "");
  }
  return text;
}

std::string PredictedTraceEvents(const Program& program,
                                 const Table<InstructionId, TimeSpan>& times,
                                 const StepTimes& measured, const TracedRank& rank) {
  const auto nanoseconds = [&](double seconds) {
    return measured.begin_ns + static_cast<int64_t>(std::llround(1e9 * seconds));
  };
  Table<InstructionId, InstructionTime> instructions;
  instructions.reserve(times.size());
  for (const TimeSpan& span : times) {
    instructions.push_back({nanoseconds(span.begin), nanoseconds(span.end)});
  }
  TracedRank predicted = rank;
  predicted.predicted = true;
  return TraceEvents(program, {measured.begin_ns, nanoseconds(StepSeconds(times)), instructions},
                     predicted);
}

std::string JoinTraces(absl::Span<const std::string> events_by_rank) {
  return absl::StrCat("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n",
                      absl::StrJoin(events_by_rank, ",\n"), "\n]}\n");
}

std::string TraceToJson(const Program& program, const StepTimes& times) {
  return JoinTraces({TraceEvents(program, times, {.zero_ns = times.begin_ns})});
}

std::string PredictedTraceToJson(const Program& program,
                                 const Table<InstructionId, TimeSpan>& times) {
  const Table<InstructionId, InstructionTime> none;
  return JoinTraces({PredictedTraceEvents(program, times, {0, 0, none}, TracedRank())});
}

double ShareOutsideKernels(const Program& program, const StepTimes& times) {
  const Overlap overlap = OverlapOf(program, ToTimeSpans(times.instructions, times.begin_ns));
  const double total = 1e-9 * static_cast<double>(times.end_ns - times.begin_ns);
  return total > 0 ? 1 - overlap.computation_seconds / total : 0;
}

}  // namespace tessera

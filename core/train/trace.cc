#include "core/train/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/check.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr int kComputeThread = 1;

// nlohmann's strings are std::string.
std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

Json Types(const Program& program, absl::Span<const int32_t> values) {
  Json types = Json::array();
  for (int32_t value : values) types.push_back(TypeToString(program.value(value).type));
  return types;
}

Json Slice(const Program& program, const Instruction& instruction, InstructionTime time,
           int64_t begin_ns) {
  Json args = {
      {"op", Text(instruction.op->name())},
      {"inputs", Types(program, instruction.inputs)},
      {"outputs", Types(program, instruction.outputs)},
      {"kernel", instruction.kernel == nullptr ? "" : Text(instruction.kernel->name())},
      {"phase", Text(PhaseName(instruction.phase))},
      {"bytes", instruction.cost.bytes},
      {"flops", instruction.cost.flops},
  };
  if (!instruction.fused_paths.empty()) args["fused"] = instruction.fused_paths;
  if (instruction.recomputed) args["recomputed"] = true;
  return {
      {"name", instruction.path},
      {"cat", Text(instruction.op->name())},
      {"ph", "X"},
      {"ts", Microseconds(time.begin_ns - begin_ns)},
      {"dur", Microseconds(time.end_ns - time.begin_ns)},
      {"pid", kProcess},
      {"tid", kComputeThread},
      {"args", std::move(args)},
  };
}

// Bytes of buffers that are alive while each instruction runs.
std::vector<int64_t> LiveBytes(const Program& program) {
  const int64_t instructions = static_cast<int64_t>(program.instructions.size());
  std::vector<int64_t> change(instructions + 1, 0);
  for (const Buffer& buffer : program.buffers) {
    const int64_t first = std::max<int64_t>(buffer.first, 0);
    const int64_t behind = std::min<int64_t>(int64_t{buffer.last} + 1, instructions);
    if (first >= behind) continue;
    change[first] += buffer.bytes;
    change[behind] -= buffer.bytes;
  }
  int64_t live = 0;
  std::vector<int64_t> result;
  for (int64_t i = 0; i < instructions; ++i) result.push_back(live += change[i]);
  return result;
}

Json Metadata(absl::string_view kind, absl::string_view name) {
  return {{"name", Text(kind)},
          {"ph", "M"},
          {"pid", kProcess},
          {"tid", kComputeThread},
          {"args", {{"name", Text(name)}}}};
}

}  // namespace

std::string TraceToJson(const Program& program, const StepTimes& times) {
  TESSERA_CHECK(times.instructions.size() == program.instructions.size());
  Json events = Json::array();
  events.push_back(Metadata("process_name", absl::StrCat("tessera ", program.name)));
  events.push_back(Metadata("thread_name", "compute"));
  const std::vector<int64_t> live = LiveBytes(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    events.push_back(
        Slice(program, program.instructions[i], times.instructions[i], times.begin_ns));
    events.push_back({{"name", "live"},  // Perfetto shows "live bytes"
                      {"ph", "C"},
                      {"ts", Microseconds(times.instructions[i].begin_ns - times.begin_ns)},
                      {"pid", kProcess},
                      {"args", {{"bytes", live[i]}}}});
  }
  // Lines, so that the file can be read and searched without a viewer.
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (size_t i = 0; i < events.size(); ++i) {
    absl::StrAppend(&text, events[i].dump(), i + 1 < events.size() ? ",\n" : "\n");
  }
  absl::StrAppend(&text, "]}\n");
  return text;
}

double ShareOutsideKernels(const StepTimes& times) {
  int64_t inside = 0;
  for (const InstructionTime& time : times.instructions) inside += time.end_ns - time.begin_ns;
  const int64_t whole = times.end_ns - times.begin_ns;
  return whole > 0 ? 1 - static_cast<double>(inside) / static_cast<double>(whole) : 0;
}

absl::Status WriteTrace(const Program& program, const StepTimes& times, const std::string& path) {
  const std::string text = TraceToJson(program, times);
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0) {
    written = false;
    error = errno;
  }
  if (!written) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write the trace ", path));
  }
  return absl::OkStatus();
}

}  // namespace tessera

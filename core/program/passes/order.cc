// The order in which a Graph was recorded keeps values live longer than needed: a gradient that
// could be added to its sum at once waits for the rest of the backward pass.
#include <algorithm>
#include <set>
#include <utility>

#include "core/program/dependencies.h"
#include "core/program/passes/pass.h"
#include "core/status/check.h"

namespace tessera {
namespace {

class Scheduler {
 public:
  explicit Scheduler(Program& program) : program_(program) {}

  void Run() {
    const size_t count = program_.instructions.size();
    const std::vector<std::vector<int32_t>> predecessors = Predecessors(program_);
    successors_.resize(count);
    waiting_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      waiting_[i] = static_cast<int32_t>(predecessors[i].size());
      for (int32_t before : predecessors[i]) {
        successors_[before].push_back(static_cast<int32_t>(i));
      }
    }
    CountReaders();
    scheduled_.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      if (waiting_[i] == 0) MakeReady(static_cast<int32_t>(i));
    }
    std::vector<Instruction> ordered;
    ordered.reserve(count);
    while (ordered.size() < count) {
      TESSERA_CHECK(!ready_.empty()) << "the program's dependencies form a circle";
      const int32_t next = freeing_.empty() ? *ready_.begin() : *freeing_.begin();
      ready_.erase(next);
      freeing_.erase(next);
      scheduled_[next] = true;
      for (int32_t root : roots_read_[next]) {
        if (--unread_[root] == 1) Reconsider(root);
      }
      for (int32_t after : successors_[next]) {
        if (--waiting_[after] == 0) MakeReady(after);
      }
      ordered.push_back(std::move(program_.instructions[next]));
    }
    program_.instructions = std::move(ordered);
  }

 private:
  void CountReaders() {
    const size_t count = program_.instructions.size();
    kept_.assign(program_.values.size(), false);
    for (const NamedValue& input : program_.inputs) kept_[program_.values[input.value].root] = true;
    for (const NamedValue& output : program_.outputs) {
      kept_[program_.values[output.value].root] = true;
    }
    for (const ProgramState& state : program_.states) {
      if (state.input != kNone) kept_[program_.values[state.input].root] = true;
      kept_[program_.values[state.updated].root] = true;
    }
    unread_.assign(program_.values.size(), 0);
    readers_.resize(program_.values.size());
    roots_read_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      std::vector<int32_t>& roots = roots_read_[i];
      for (int32_t id : program_.instructions[i].inputs) {
        const int32_t root = program_.values[id].root;
        if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
      }
      for (int32_t root : roots) {
        ++unread_[root];
        readers_[root].push_back(static_cast<int32_t>(i));
      }
    }
  }

  // Bytes that running instruction i now would free, less those that it takes.
  int64_t Gain(int32_t i) const {
    int64_t gain = 0;
    for (int32_t root : roots_read_[i]) {
      if (unread_[root] == 1 && !kept_[root]) gain += NumBytes(program_.values[root].type);
    }
    for (int32_t id : program_.instructions[i].outputs) {
      const int32_t root = program_.values[id].root;
      if (!kept_[root]) gain -= NumBytes(program_.values[id].type);
    }
    return gain;
  }

  void MakeReady(int32_t i) {
    ready_.insert(i);
    if (Gain(i) > 0) freeing_.insert(i);
  }

  // One reader of `root` is left: running it frees the root's memory.
  void Reconsider(int32_t root) {
    for (int32_t reader : readers_[root]) {
      if (!scheduled_[reader]) {
        if (ready_.count(reader) > 0 && Gain(reader) > 0) freeing_.insert(reader);
        return;
      }
    }
  }

  Program& program_;
  std::vector<std::vector<int32_t>> successors_;
  std::vector<int32_t> waiting_;                  // predecessors that have not been scheduled
  std::vector<std::vector<int32_t>> readers_;     // by root
  std::vector<std::vector<int32_t>> roots_read_;  // by instruction, each once
  std::vector<int32_t> unread_;                   // by root: readers that have not been scheduled
  std::vector<bool> kept_;                        // by root: not freed within the step
  std::vector<bool> scheduled_;
  std::set<int32_t> ready_;
  std::set<int32_t> freeing_;  // of the ready ones
};

}  // namespace

absl::Status OrderPass(const PassOptions& options, KernelChooser& chooser, Program& program) {
  Scheduler(program).Run();
  return absl::OkStatus();
}

}  // namespace tessera

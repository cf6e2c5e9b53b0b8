#include "core/program/verify/verify_order.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/verify/verify_operands.h"
#include "core/program/verify/verify_rank_rules.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Checks that values are written before they are read, and once.
class OrderVerifier {
 public:
  explicit OrderVerifier(const Program& program)
      : program_(program),
        has_writer_(program.values.size(), false),
        written_(program.values.size(), false) {}

  absl::Status Run() {
    for (const ProgramValue& value : program_.values) RETURN_IF_ERROR(CheckWithin(value));
    for (const NamedValue& input : program_.inputs) MarkWritten(input.value);
    for (const ProgramState& state : program_.states) {
      if (state.input != kNone) MarkWritten(state.input);
    }
    for (const Instruction& instruction : program_.instructions) {
      RETURN_IF_ERROR(CheckInstruction(instruction));
    }
    for (const ProgramState& state : program_.states) {
      if (state.updated != kNone) RETURN_IF_ERROR(CheckWritten(state.updated, state.path));
    }
    for (const NamedValue& output : program_.outputs) {
      RETURN_IF_ERROR(CheckWritten(output.value, absl::StrCat("output ", output.name)));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view where, absl::string_view fault) const {
    return absl::InvalidArgumentError(
        absl::StrCat("program '", program_.name, "', ", where, ": ", fault));
  }

  absl::Status CheckWithin(const ProgramValue& value) const {
    if (value.within == kNone || value.buffer == kNone) return absl::OkStatus();
    const ProgramValue& tensor = program_.values[value.within];
    if (tensor.within == kNone && tensor.buffer == value.buffer) return absl::OkStatus();
    return Error(value.path,
                 absl::StrCat("lies within ", tensor.path, ", which is no tensor of its buffer"));
  }

  // Records that a value, and with it all of its tensor, is written.
  void MarkWritten(ProgramValueId value) { written_[program_.TensorOf(value)] = true; }

  absl::Status CheckWritten(ProgramValueId value, absl::string_view reader) const {
    if (written_[program_.TensorOf(value)]) return absl::OkStatus();
    return Error(reader, absl::StrCat("reads ", program_.value(value).path,
                                      ", which nothing has written before"));
  }

  absl::Status CheckInstruction(const Instruction& instruction) {
    if (instruction.workspace != kNone) return Error(instruction.path, "has a workspace already");
    for (const ProgramValueId value : instruction.inputs) {
      RETURN_IF_ERROR(CheckWritten(value, instruction.path));
    }
    for (const ProgramValueId value : instruction.after) {
      RETURN_IF_ERROR(CheckWritten(value, instruction.path));
    }
    for (const ProgramValueId value : instruction.outputs) {
      if (has_writer_[value]) {
        return Error(instruction.path, absl::StrCat("writes ", program_.value(value).path,
                                                    ", which another instruction has written"));
      }
      has_writer_[value] = true;
      MarkWritten(value);
    }
    return absl::OkStatus();
  }

  const Program& program_;
  Table<ProgramValueId, bool> has_writer_;
  Table<ProgramValueId, bool> written_;  // by tensor
};

}  // namespace

absl::Status VerifyOrder(const Program& program) {
  for (const absl::Status& status :
       {VerifyOperands(program, Buffers::kMade), VerifyRankRules(program)}) {
    if (!status.ok()) return absl::InvalidArgumentError(status.message());
  }
  return OrderVerifier(program).Run();
}

}  // namespace tessera

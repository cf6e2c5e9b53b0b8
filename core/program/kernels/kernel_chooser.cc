#include "core/program/kernels/kernel_chooser.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/ops/operator_list.h"
#include "core/program/kernels/kernel_uses.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

std::string ToStdString(absl::string_view text) { return std::string(text.data(), text.size()); }

// Debian's absl does not hash std::variant.
template <typename H>
H HashAttributes(H state, const Attributes& attributes) {
  for (const auto& [name, value] : attributes.entries()) {
    state = H::combine(std::move(state), name, value.index());
    state = std::visit([&](const auto& held) { return H::combine(std::move(state), held); }, value);
  }
  return H::combine(std::move(state), attributes.entries().size());
}

template <typename H>
H HashTypes(H state, const std::vector<TensorType>& types) {
  for (const TensorType& type : types) {
    state = H::combine(std::move(state), type.dtype, type.shape);
  }
  return H::combine(std::move(state), types.size());
}

// Lets absl::Hash hash the request that it refers to.
struct HashedRequest {
  const KernelRequest& request;

  template <typename H>
  friend H AbslHashValue(H state, const HashedRequest& hashed) {
    const KernelRequest& request = hashed.request;
    state = H::combine(std::move(state), request.op, request.threads);
    state = HashAttributes(std::move(state), request.attributes);
    for (const Epilogue& epilogue : request.epilogues) {
      state = H::combine(std::move(state), epilogue.op, epilogue.extra_inputs, epilogue.output);
      state = HashAttributes(std::move(state), epilogue.attributes);
    }
    state = HashTypes(std::move(state), request.inputs);
    return HashTypes(std::move(state), request.outputs);
  }
};

}  // namespace

size_t KernelRequestHash::operator()(const KernelRequest& request) const {
  return absl::HashOf(HashedRequest{request});
}

bool KernelRequestEqual::operator()(const KernelRequest& a, const KernelRequest& b) const {
  return a.op == b.op && a.attributes == b.attributes && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.epilogues == b.epilogues && a.threads == b.threads;
}

KernelChooser::KernelChooser(const KernelCatalogue* catalogue, const KernelChoices& recorded)
    : catalogue_(catalogue), processor_(catalogue->processor()) {
  if (recorded.choices_size() == 0) return;
  if (recorded.backend() != ToStdString(catalogue->name()) ||
      recorded.processor() != processor_.name || recorded.threads() != processor_.threads) {
    note_ = absl::StrCat("the plan's kernels were chosen for ", recorded.backend(), " on ",
                         recorded.processor(), " with ", recorded.threads(),
                         " threads; default kernels are used on ", processor_.name, " with ",
                         processor_.threads);
    return;
  }
  for (const KernelChoice& choice : recorded.choices()) {
    recorded_[choice.request()] = choice.kernel();
  }
}

KernelChooser::Choice& KernelChooser::FindOrChoose(const KernelRequest& request) {
  auto [it, inserted] = choices_.try_emplace(request);
  PlannedKernel& planned = it->second.planned;
  if (inserted) {
    planned.request = request;
    planned.key = request.Key();
    planned.op = FindOperator(request.op);
    planned.kernel = DefaultKernel(*catalogue_, request).value_or(nullptr);
  }
  return it->second;
}

void KernelChooser::ChooseRecorded(Program& program) {
  if (recorded_.empty()) return;
  std::optional<KernelUses> uses;  // made if a kernel is not the default one
  for (const KernelId id : program.kernels.ids()) {
    PlannedKernel& planned = program.kernels[id];
    const auto recorded = recorded_.find(planned.key);
    if (recorded == recorded_.end() || ToStdString(planned.kernel->name()) == recorded->second) {
      continue;
    }
    if (!uses.has_value()) uses.emplace(program);
    const std::vector<const Kernel*> candidates = uses->CandidatesFor(id, *catalogue_);
    const auto named = absl::c_find_if(candidates, [&recorded](const Kernel* kernel) {
      return ToStdString(kernel->name()) == recorded->second;
    });
    if (named != candidates.end()) {
      planned.kernel = *named;
      continue;
    }
    note_ = absl::StrCat("the plan names kernel ", Quote(recorded->second), " for ", planned.key,
                         ", which backend '", catalogue_->name(),
                         "' does not have; the default is used");
  }
}

const PlannedKernel* KernelChooser::Find(const KernelRequest& request) {
  const PlannedKernel& planned = FindOrChoose(request).planned;
  return planned.kernel != nullptr ? &planned : nullptr;
}

absl::StatusOr<const PlannedKernel*> KernelChooser::Choose(const KernelRequest& request) {
  const PlannedKernel* planned = Find(request);
  if (planned == nullptr) return DefaultKernel(*catalogue_, request).status();
  return planned;
}

int64_t KernelChooser::WorkspaceBytes(const PlannedKernel& planned) {
  Choice& choice = FindOrChoose(planned.request);
  const auto [known, is_new] = choice.workspace_bytes.try_emplace(planned.kernel, 0);
  if (is_new) known->second = planned.kernel->WorkspaceBytes(planned.request, processor_);
  return known->second;
}

KernelTable::KernelTable(KernelChooser* chooser, Program* program)
    : chooser_(*chooser), program_(*program) {
  for (const KernelId id : program_.kernels.ids()) {
    ids_.emplace(chooser_.Find(program_.kernels[id].request), id);
  }
}

KernelRequest KernelTable::RequestFor(KernelWork work, absl::Span<const ProgramValueId> inputs,
                                      absl::Span<const ProgramValueId> outputs) const {
  KernelRequest request;
  request.op = std::move(work.op);
  request.attributes = std::move(work.attributes);
  request.epilogues = std::move(work.epilogues);
  request.threads = program_.threads;
  for (ProgramValueId id : inputs) request.inputs.push_back(program_.values[id].type);
  for (ProgramValueId id : outputs) request.outputs.push_back(program_.values[id].type);
  return request;
}

KernelId KernelTable::FindOrAdd(const PlannedKernel* planned) {
  const auto [it, inserted] = ids_.try_emplace(planned, program_.kernels.end_id());
  if (inserted) program_.kernels.push_back(*planned);
  return it->second;
}

absl::StatusOr<KernelId> KernelTable::FindOrAdd(KernelWork work,
                                                absl::Span<const ProgramValueId> inputs,
                                                absl::Span<const ProgramValueId> outputs) {
  ASSIGN_OR_RETURN(const PlannedKernel* planned,
                   chooser_.Choose(RequestFor(std::move(work), inputs, outputs)));
  return FindOrAdd(planned);
}

KernelId KernelTable::FindOrAddIfSupported(KernelWork work, absl::Span<const ProgramValueId> inputs,
                                           absl::Span<const ProgramValueId> outputs) {
  const PlannedKernel* planned = chooser_.Find(RequestFor(std::move(work), inputs, outputs));
  return planned != nullptr ? FindOrAdd(planned) : kNone;
}

void DropUnusedKernels(Program& program) {
  Table<KernelId, KernelId> ids(program.kernels.size());
  Table<KernelId, PlannedKernel> used;
  for (Instruction& instruction : program.instructions) {
    if (instruction.kernel == kNone) continue;
    KernelId& id = ids[instruction.kernel];
    if (id == kNone) {
      id = used.push_back(std::move(program.kernels[instruction.kernel]));
    }
    instruction.kernel = id;
  }
  program.kernels = std::move(used);
}

}  // namespace tessera

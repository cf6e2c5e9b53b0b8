// The kernels of the fake NCCL: each waits for its peers, and computes on the CPU.
#ifdef TESSERA_CUDA

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/nccl/testing/fake_nccl.h"
#include "collectives/reduce/reduce.h"

namespace {

using tessera::DType;
using tessera::comm::nccl::FakeCall;
using tessera::comm::nccl::FakeClique;
using tessera::comm::nccl::FakeKind;

DType TypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    case ncclBfloat16:
      return DType::kBF16;
    case ncclFloat16:
      return DType::kF16;
    case ncclInt32:
      return DType::kI32;
    case ncclInt64:
      return DType::kI64;
    default:
      return DType::kU8;
  }
}

bool IsPair(const FakeCall& call) {
  return call.kind == FakeKind::kSend || call.kind == FakeKind::kReceive;
}

int64_t SizeOf(const FakeCall& call) { return tessera::SizeOf(TypeOf(call.type)); }

// Returns the send to `rank` among a rank's calls.
const FakeCall* SendTo(const std::vector<FakeCall>& calls, int rank) {
  for (const FakeCall& call : calls) {
    if (call.kind == FakeKind::kSend && call.peer == rank) return &call;
  }
  return nullptr;
}

}  // namespace

bool ncclComm::Matches(const FakeClique::Round& round, const std::vector<FakeCall>& calls) const {
  for (const auto& [other, theirs] : round.calls) {
    if (!IsPair(calls[0]) && theirs->size() != calls.size()) return false;
    for (size_t i = 0; i < calls.size(); ++i) {
      const FakeCall& a = calls[i];
      if (a.kind == FakeKind::kReceive) {
        const FakeCall* const send = SendTo(*round.calls.at(a.peer), rank);
        if (send == nullptr || send->count != a.count || send->type != a.type) return false;
      }
      if (IsPair(a)) continue;
      const FakeCall& b = (*theirs)[i];
      if (a.kind != b.kind || a.count != b.count || a.type != b.type ||
          a.reduction != b.reduction || a.peer != b.peer) {
        return false;
      }
    }
  }
  return true;
}

std::string ncclComm::Compute(const FakeClique::Round& round, size_t index,
                              const FakeCall& call) const {
  const int64_t bytes = static_cast<int64_t>(call.count) * SizeOf(call);
  const auto input = [&](int r) {
    return static_cast<const char*>((*round.calls.at(r))[index].input);
  };
  std::string output(bytes, '\0');
  switch (call.kind) {
    case FakeKind::kAllReduce:
    case FakeKind::kReduce:
    case FakeKind::kReduceScatter: {
      if (call.kind == FakeKind::kReduce && call.peer != rank) return "";
      std::vector<const void*> inputs;
      for (int r = 0; r < clique->size; ++r) {
        inputs.push_back(input(r) + (call.kind == FakeKind::kReduceScatter ? rank * bytes : 0));
      }
      tessera::comm::Reduce(inputs, {output.data()}, static_cast<int64_t>(call.count),
                            TypeOf(call.type),
                            call.reduction == ncclSum   ? tessera::Reduction::kSum
                            : call.reduction == ncclMax ? tessera::Reduction::kMax
                                                        : tessera::Reduction::kMin);
      return output;
    }
    case FakeKind::kAllGather:
      output.clear();
      for (int r = 0; r < clique->size; ++r) output.append(input(r), bytes);
      return output;
    case FakeKind::kBroadcast:
      return {input(call.peer), static_cast<size_t>(bytes)};
    case FakeKind::kReceive:
      return {static_cast<const char*>(SendTo(*round.calls.at(call.peer), rank)->input),
              static_cast<size_t>(bytes)};
    case FakeKind::kSend:
      return "";
  }
  return "";
}

void ncclComm::Execute(uint64_t number, const std::vector<FakeCall>& calls) {
  std::unique_lock<std::mutex> lock(clique->mutex);
  FakeClique::Round& round = clique->rounds[number];
  round.calls[rank] = &calls;
  clique->changed.notify_all();
  const auto came = [&] { return static_cast<int>(round.calls.size()) == clique->size; };
  if (!Await(lock, came)) return;
  if (!Matches(round, calls)) {
    Await(lock, [] { return false; });
    return;
  }
  std::vector<std::string> outputs;
  for (size_t i = 0; i < calls.size(); ++i) outputs.push_back(Compute(round, i, calls[i]));
  ++round.computed;
  clique->changed.notify_all();
  if (!Await(lock, [&] { return round.computed == clique->size; })) return;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!outputs[i].empty()) std::memcpy(calls[i].output, outputs[i].data(), outputs[i].size());
  }
}

#endif  // TESSERA_CUDA

// NCCL's functions on the fake GPU (fake_gpu.h).
#ifdef TESSERA_CUDA

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/fake_gpu.h"
#include "collectives/reduce/reduce.h"
#include "core/status/check.h"

namespace {

using tessera::DType;
using tessera::comm::nccl::kFakeTick;
enum class Kind { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast, kSend, kReceive };

struct Call {
  Kind kind;
  const void* input;
  void* output;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer;
};

// The ranks of a comm.
struct Clique {
  struct Round {
    std::map<int, const std::vector<Call>*> calls;  // by rank
    int computed = 0;
  };
  struct Division {
    std::map<int, int> colors;  // by rank
    std::map<int, std::shared_ptr<Clique>> children;
  };
  explicit Clique(int size) : size(size) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<uint64_t, Round> rounds;
  std::map<uint64_t, Division> divisions;
};

std::mutex cliques_mutex;
std::map<std::string, std::shared_ptr<Clique>>& Cliques() {
  static auto* const cliques = new std::map<std::string, std::shared_ptr<Clique>>;
  return *cliques;
}

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

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};
  uint64_t rounds = 0, divisions = 0;
  int registered = 0;
  std::vector<std::thread> threads;

  // Until then or until it is aborted; whether the former. The clique's mutex is held.
  bool Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
    while (!done() && !aborted) clique->changed.wait_for(lock, std::chrono::milliseconds(1));
    return done();
  }
  void Join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    while (running > 0) std::this_thread::sleep_for(kFakeTick);
  }
  void Execute(uint64_t number, const std::vector<Call>& calls);
  bool Matches(const Clique::Round& round, const std::vector<Call>& calls) const;
  std::string Compute(const Clique::Round& round, size_t index, const Call& call) const;
};

namespace {

thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm*, std::vector<Call>>> group_calls;
thread_local std::vector<ncclComm*> group_aborts;
thread_local cudaStream_t group_stream = nullptr;

ncclResult_t Add(ncclComm* comm, cudaStream_t stream, const Call& call) {
  TESSERA_CHECK(depth > 0);
  if (comm->state != ncclSuccess) return ncclInvalidArgument;
  group_stream = stream;
  if (group_calls.empty() || group_calls.back().first != comm) group_calls.push_back({comm, {}});
  group_calls.back().second.push_back(call);
  return ncclSuccess;
}

bool IsPair(const Call& call) { return call.kind == Kind::kSend || call.kind == Kind::kReceive; }

int64_t SizeOf(const Call& call) { return tessera::SizeOf(TypeOf(call.type)); }

// The send of a rank to another.
const Call* SendTo(const std::vector<Call>& calls, int rank) {
  for (const Call& call : calls) {
    if (call.kind == Kind::kSend && call.peer == rank) return &call;
  }
  return nullptr;
}

}  // namespace

bool ncclComm::Matches(const Clique::Round& round, const std::vector<Call>& calls) const {
  for (const auto& [other, theirs] : round.calls) {
    if (!IsPair(calls[0]) && theirs->size() != calls.size()) return false;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Call& a = calls[i];
      if (a.kind == Kind::kReceive) {
        const Call* const send = SendTo(*round.calls.at(a.peer), rank);
        if (send == nullptr || send->count != a.count || send->type != a.type) return false;
      }
      if (IsPair(a)) continue;
      const Call& b = (*theirs)[i];
      if (a.kind != b.kind || a.count != b.count || a.type != b.type ||
          a.reduction != b.reduction || a.peer != b.peer) {
        return false;
      }
    }
  }
  return true;
}

std::string ncclComm::Compute(const Clique::Round& round, size_t index, const Call& call) const {
  const int64_t bytes = static_cast<int64_t>(call.count) * SizeOf(call);
  const auto input = [&](int r) {
    return static_cast<const char*>((*round.calls.at(r))[index].input);
  };
  std::string output(bytes, '\0');
  switch (call.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kReduceScatter: {
      if (call.kind == Kind::kReduce && call.peer != rank) return "";
      std::vector<const void*> inputs;
      for (int r = 0; r < clique->size; ++r) {
        inputs.push_back(input(r) + (call.kind == Kind::kReduceScatter ? rank * bytes : 0));
      }
      tessera::comm::Reduce(
          inputs, {output.data()}, static_cast<int64_t>(call.count), TypeOf(call.type),
          call.reduction == ncclSum ? tessera::Reduction::kSum : tessera::Reduction::kMax);
      return output;
    }
    case Kind::kAllGather:
      output.clear();
      for (int r = 0; r < clique->size; ++r) output.append(input(r), bytes);
      return output;
    case Kind::kBroadcast:
      return {input(call.peer), static_cast<size_t>(bytes)};
    case Kind::kReceive:
      return {static_cast<const char*>(SendTo(*round.calls.at(call.peer), rank)->input),
              static_cast<size_t>(bytes)};
    case Kind::kSend:
      return "";
  }
  return "";
}

void ncclComm::Execute(uint64_t number, const std::vector<Call>& calls) {
  std::unique_lock<std::mutex> lock(clique->mutex);
  Clique::Round& round = clique->rounds[number];
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

ncclResult_t ncclMemAlloc(void** data, size_t size) {
  return cudaMalloc(data, size) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* data) {
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
const char* ncclGetErrorString(ncclResult_t /*result*/) { return "a fake error"; }
const char* ncclGetLastError(ncclComm_t /*comm*/) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  *id = {};
  const std::string name = std::to_string(++next);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  TESSERA_CHECK(config->blocking == 0);
  auto* const made = new ncclComm;
  made->rank = rank;
  {
    const std::lock_guard<std::mutex> lock(cliques_mutex);
    std::shared_ptr<Clique>& clique = Cliques()[std::string(id.internal)];
    if (clique == nullptr) clique = std::make_shared<Clique>(size);
    made->clique = clique;
  }
  *comm = made;
  made->threads.emplace_back([made] {
    std::unique_lock<std::mutex> lock(made->clique->mutex);
    ++made->clique->joined;
    made->clique->changed.notify_all();
    if (made->Await(lock, [&] { return made->clique->joined == made->clique->size; })) {
      made->state = ncclSuccess;
    }
  });
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int /*key*/, ncclComm_t* child,
                           ncclConfig_t* /*config*/) {
  if (comm->state != ncclSuccess) return ncclInvalidArgument;
  comm->state = ncclInProgress;
  const uint64_t number = comm->divisions++;
  comm->threads.emplace_back([=] {
    Clique& clique = *comm->clique;
    std::unique_lock<std::mutex> lock(clique.mutex);
    Clique::Division& division = clique.divisions[number];
    division.colors[comm->rank] = color;
    clique.changed.notify_all();
    if (!comm->Await(lock,
                     [&] { return static_cast<int>(division.colors.size()) == clique.size; })) {
      return;
    }
    int size = 0, rank = 0;
    for (const auto& [r, its] : division.colors) {
      if (its != color) continue;
      if (r < comm->rank) ++rank;
      ++size;
    }
    if (color >= 0) {
      std::shared_ptr<Clique>& theirs = division.children[color];
      if (theirs == nullptr) theirs = std::make_shared<Clique>(size);
      auto* const made = new ncclComm;
      made->rank = rank;
      made->clique = theirs;
      made->threads.emplace_back([made] {
        std::this_thread::sleep_for(kFakeTick);
        made->state = ncclSuccess;
      });
      *child = made;
    } else {
      *child = nullptr;
    }
    comm->state = ncclSuccess;
  });
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->state != ncclSuccess) return ncclInvalidArgument;
  comm->state = ncclInProgress;
  comm->threads.emplace_back([comm] {
    std::this_thread::sleep_for(kFakeTick);
    comm->state = ncclSuccess;
  });
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  TESSERA_CHECK(comm->registered == 0 && comm->running == 0);
  comm->Join();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  TESSERA_CHECK(depth > 0);
  comm->aborted = true;
  group_aborts.push_back(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* /*data*/, size_t /*size*/, void** handle) {
  *handle = comm;
  ++comm->registered;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  TESSERA_CHECK(handle == comm);
  --comm->registered;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

// A thread of its own puts the operation on the stream.
ncclResult_t ncclGroupEnd() {
  TESSERA_CHECK(depth > 0);
  if (--depth > 0) return ncclSuccess;
  for (auto& [comm, calls] : group_calls) {
    comm->state = ncclInProgress;
    ++comm->running;
    comm->threads.emplace_back(
        [comm = comm, calls = std::move(calls), stream = group_stream, number = comm->rounds++] {
          std::this_thread::sleep_for(kFakeTick);
          stream->Put([comm, calls, number] {
            comm->Execute(number, calls);
            --comm->running;
          });
          comm->state = ncclSuccess;
        });
  }
  const bool any = !group_calls.empty();
  group_calls.clear();
  for (ncclComm* comm : group_aborts) {
    comm->Join();
    delete comm;
  }
  group_aborts.clear();
  return any ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Kind::kAllReduce, input, output, count, type, reduction, 0});
}
ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Kind::kReduceScatter, input, output, count, type, reduction, 0});
}
ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Kind::kAllGather, input, output, count, type, ncclSum, 0});
}
ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Kind::kReduce, input, output, count, type, reduction, root});
}
ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Kind::kBroadcast, input, output, count, type, ncclSum, root});
}
ncclResult_t ncclSend(const void* input, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Kind::kSend, input, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Add(comm, stream, {Kind::kReceive, nullptr, output, count, type, ncclSum, peer});
}

#endif  // TESSERA_CUDA

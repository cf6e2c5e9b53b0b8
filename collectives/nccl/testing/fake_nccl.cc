// NCCL's functions on the fake GPU (fake_gpu.h).
#ifdef TESSERA_CUDA

#include "collectives/nccl/testing/fake_nccl.h"

#include <nccl.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/testing/fake_gpu.h"
#include "core/status/check.h"

namespace {

using tessera::comm::nccl::CurrentFakeGpu;
using tessera::comm::nccl::Fake;
using tessera::comm::nccl::FakeCall;
using tessera::comm::nccl::FakeClique;
using tessera::comm::nccl::FakeKind;
using tessera::comm::nccl::kFakeTick;

std::mutex cliques_mutex;
std::map<std::string, std::shared_ptr<FakeClique>>& Cliques() {
  static auto* const cliques = new std::map<std::string, std::shared_ptr<FakeClique>>;
  return *cliques;
}

thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm*, std::vector<FakeCall>>> group_calls;
thread_local std::vector<ncclComm*> group_aborts;
thread_local cudaStream_t group_stream = nullptr;

void EndAborts() {
  for (ncclComm* comm : group_aborts) {
    comm->Join();
    delete comm;
  }
  group_aborts.clear();
}

ncclResult_t Add(ncclComm* comm, cudaStream_t stream, const FakeCall& call) {
  TESSERA_CHECK(depth > 0);
  if (comm->state != ncclSuccess) return ncclInvalidArgument;
  group_stream = stream;
  if (group_calls.empty() || group_calls.back().first != comm) group_calls.push_back({comm, {}});
  group_calls.back().second.push_back(call);
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclMemAlloc(void** data, size_t size) {
  return cudaMalloc(data, size) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* data) {
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
const char* ncclGetErrorString(ncclResult_t /*result*/) { return "a fake error"; }
const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr ? comm->last_error.c_str() : "an error of another communicator";
}
ncclResult_t ncclGetVersion(int* version) {
  *version = Fake().nccl_version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (Fake().on_unique_id) Fake().on_unique_id();
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
  made->gpu = CurrentFakeGpu();
  {
    const std::lock_guard<std::mutex> lock(cliques_mutex);
    std::shared_ptr<FakeClique>& clique = Cliques()[std::string(id.internal)];
    if (clique == nullptr) clique = std::make_shared<FakeClique>(size);
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
  TESSERA_CHECK(CurrentFakeGpu() == comm->gpu);
  if (comm->state != ncclSuccess) return ncclInvalidArgument;
  comm->state = ncclInProgress;
  const uint64_t number = comm->divisions++;
  comm->threads.emplace_back([=] {
    FakeClique& clique = *comm->clique;
    std::unique_lock<std::mutex> lock(clique.mutex);
    FakeClique::Division& division = clique.divisions[number];
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
      std::shared_ptr<FakeClique>& theirs = division.children[color];
      if (theirs == nullptr) theirs = std::make_shared<FakeClique>(size);
      auto* const made = new ncclComm;
      made->rank = rank;
      made->gpu = comm->gpu;
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
  const ncclResult_t error = Fake().async_error;
  *state = error != ncclSuccess ? error : comm->state.load();
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
  TESSERA_CHECK(CurrentFakeGpu() == comm->gpu);
  TESSERA_CHECK(comm->registered == 0 && comm->running == 0);
  comm->Join();
  delete comm;
  return ncclSuccess;
}

// Like NCCL, returns from the call only after the threads of the communicator have ended, even
// within a group.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  comm->JoinThreads();
  group_aborts.push_back(comm);
  if (depth == 0) EndAborts();
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

// A thread of the fake NCCL puts the operation on the stream.
ncclResult_t ncclGroupEnd() {
  TESSERA_CHECK(depth > 0);
  if (--depth > 0) return ncclSuccess;
  for (auto& [comm, calls] : group_calls) {
    TESSERA_CHECK(CurrentFakeGpu() == comm->gpu);
    comm->state = ncclInProgress;
    ++comm->running;
    comm->threads.emplace_back(
        [comm = comm, calls = std::move(calls), stream = group_stream, number = comm->rounds++] {
          std::atomic<int>& kernels = Fake().kernels[comm->gpu];
          do {
            std::this_thread::sleep_for(kFakeTick);
          } while (Fake().launches_wait && kernels > 0);
          stream->Put([comm, calls, number, &kernels] {
            ++kernels;
            comm->Execute(number, calls);
            while (Fake().hangs[comm->gpu] && !comm->aborted) {
              std::this_thread::sleep_for(kFakeTick);
            }
            --kernels;
            --comm->running;
          });
          comm->state = ncclSuccess;
        });
  }
  const bool any = !group_calls.empty();
  group_calls.clear();
  EndAborts();
  return any ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kAllReduce, input, output, count, type, reduction, 0});
}
ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kReduceScatter, input, output, count, type, reduction, 0});
}
ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kAllGather, input, output, count, type, ncclSum, 0});
}
ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kReduce, input, output, count, type, reduction, root});
}
ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kBroadcast, input, output, count, type, ncclSum, root});
}
ncclResult_t ncclSend(const void* input, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kSend, input, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Add(comm, stream, {FakeKind::kReceive, nullptr, output, count, type, ncclSum, peer});
}

#endif  // TESSERA_CUDA

// How operations become calls of NCCL.
#ifdef TESSERA_CUDA

#include "absl/strings/str_cat.h"
#include "collectives/nccl/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
      return ncclUint8;
  }
  return ncclUint8;
}

// Keeps the first of several results that is an error.
class Results {
 public:
  void Add(ncclResult_t result) {
    if (first_ == ncclSuccess && result != ncclInProgress) first_ = result;
  }
  ncclResult_t first() const { return first_; }

 private:
  ncclResult_t first_ = ncclSuccess;
};

}  // namespace

absl::Status Group::Enqueue(Lane& lane, const Request& request) {
  if (lane.stream == nullptr) {
    // The highest priority: behind computation, the operation would keep peers waiting.
    int least = 0, greatest = 0;
    RETURN_IF_ERROR(
        CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), "there is no stream"));
    RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithPriority(&lane.stream, cudaStreamNonBlocking, greatest),
                   "there is no stream"));
  }
  for (cudaEvent_t event : lane.operations[Launched(lane)].after) {
    RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(lane.stream, event, 0),
                               "a stream cannot wait for an event"));
  }
  if (size() == 1) return CopyAlone(lane, request);
  if (request.count == 0 && request.operation != Operation::kBarrier) return absl::OkStatus();
  const int64_t size = SizeOf(request.dtype);
  device_->Register(lane.comm, request.input, InputElements(request, rank()) * size);
  device_->Register(lane.comm, request.output, OutputElements(request, rank()) * size);
  Results results;
  results.Add(ncclGroupStart());
  results.Add(EnqueueParts(lane, request));
  results.Add(ncclGroupEnd());
  lane.is_launching = results.first() == ncclSuccess;
  return NcclStatus(results.first(), "NCCL refuses the operation", *lane.comm);
}

ncclResult_t Group::EnqueueParts(const Lane& lane, const Request& request) const {
  const ncclComm_t comm = *lane.comm;
  const ncclDataType_t type = TypeOf(request.dtype);
  const ncclRedOp_t reduction = request.reduction == Reduction::kSum   ? ncclSum
                                : request.reduction == Reduction::kMax ? ncclMax
                                                                       : ncclMin;
  const int64_t size = SizeOf(request.dtype);
  const bool equal = request.count == request.part * this->size();
  Results results;
  switch (request.operation) {
    case Operation::kAllReduce:
      return ncclAllReduce(request.input, request.output, request.count, type, reduction, comm,
                           lane.stream);
    case Operation::kReduceScatter:
      if (equal) {
        return ncclReduceScatter(request.input, request.output, request.part, type, reduction, comm,
                                 lane.stream);
      }
      // NCCL's reduce-scatter has parts of equal size only.
      for (int r = 0; r < this->size(); ++r) {
        const Part part = PartOf(request.count, request.part, r);
        if (part.size == 0) continue;
        results.Add(ncclReduce(Bytes(request.input, part.begin * size),
                               r == rank() ? request.output : nullptr, part.size, type, reduction,
                               r, comm, lane.stream));
      }
      return results.first();
    case Operation::kAllGather:
      if (equal) {
        return ncclAllGather(request.input, request.output, request.part, type, comm, lane.stream);
      }
      for (int r = 0; r < this->size(); ++r) {
        const Part part = PartOf(request.count, request.part, r);
        if (part.size == 0) continue;
        char* const output = Bytes(request.output, part.begin * size);
        results.Add(ncclBroadcast(r == rank() ? request.input : output, output, part.size, type, r,
                                  comm, lane.stream));
      }
      return results.first();
    case Operation::kAllToAll:
      for (int r = 0; r < this->size(); ++r) {
        const int64_t offset = r * request.part * size;
        results.Add(
            ncclSend(Bytes(request.input, offset), request.part, type, r, comm, lane.stream));
        results.Add(
            ncclRecv(Bytes(request.output, offset), request.part, type, r, comm, lane.stream));
      }
      return results.first();
    case Operation::kBroadcast:
      return ncclBroadcast(rank() == request.peer ? request.input : request.output, request.output,
                           request.count, type, request.peer, comm, lane.stream);
    case Operation::kBarrier:
      return ncclAllReduce(scratch_, scratch_, 1, ncclUint8, ncclSum, comm, lane.stream);
    case Operation::kSend:  // over the comm of the two ranks
      return ncclSend(request.input, request.count, type, 1, comm, lane.stream);
    case Operation::kReceive:
      return ncclRecv(request.output, request.count, type, 0, comm, lane.stream);
  }
  return ncclSuccess;
}

absl::Status Group::CopyAlone(const Lane& lane, const Request& request) const {
  const int64_t bytes = OutputElements(request, 0) * SizeOf(request.dtype);
  if (bytes == 0 || request.output == request.input) return absl::OkStatus();
  return CudaStatus(
      cudaMemcpyAsync(request.output, request.input, bytes, cudaMemcpyDefault, lane.stream),
      "cannot copy");
}

absl::Status Group::CheckMemory(const Request& request) const {
  const auto check = [&](absl::string_view which, const void* data,
                         int64_t elements) -> absl::Status {
    if (elements == 0) return absl::OkStatus();
    cudaPointerAttributes attributes = {};
    RETURN_IF_ERROR(CudaStatus(cudaPointerGetAttributes(&attributes, data), Describe(request)));
    if (attributes.type == cudaMemoryTypeUnregistered) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(request), ": the ", which, " is not in GPU memory"));
    }
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != device_->options().gpu) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(request), ": the ", which, " is in memory of GPU ",
                       attributes.device, ", and this rank has GPU ", device_->options().gpu));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check("input", request.input, InputElements(request, rank())));
  return check("output", request.output, OutputElements(request, rank()));
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA

#include "collectives/requests.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::comm {

bool IsValid(const RequestDescriptor& descriptor) {
  return static_cast<int>(descriptor.operation) < kOperations &&
         static_cast<size_t>(descriptor.dtype) < std::size(kAllDTypes) &&
         descriptor.reduction <= Reduction::kMin && descriptor.partial <= 1;
}

int64_t InputElements(const Request& request, int rank) {
  switch (request.operation) {
    case Operation::kAllGather:
      return PartOf(request.count, request.part, rank).size;
    case Operation::kBroadcast:
      return rank == request.peer ? request.count : 0;
    case Operation::kReceive:
    case Operation::kBarrier:
      return 0;
    default:
      return request.count;
  }
}

int64_t OutputElements(const Request& request, int rank) {
  switch (request.operation) {
    case Operation::kReduceScatter:
      return PartOf(request.count, request.part, rank).size;
    case Operation::kSend:
    case Operation::kBarrier:
      return 0;
    default:
      return request.count;
  }
}

Part InputFor(const Request& request, int from, int to) {
  switch (request.operation) {
    case Operation::kAllReduce:
      return {0, request.count};
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return PartOf(request.count, request.part, to);
    case Operation::kAllGather:
      return {0, PartOf(request.count, request.part, from).size};
    case Operation::kBroadcast:
      return {0, from == request.peer ? request.count : 0};
    default:
      return {};
  }
}

void WriteOutput(const Request& request, int rank, absl::Span<const void* const> inputs) {
  const int64_t size = SizeOf(request.dtype);
  switch (request.operation) {
    case Operation::kAllReduce:
      return Reduce(inputs, {request.output}, request.count, request.dtype, request.reduction);
    case Operation::kReduceScatter:
      return ReduceOwnPart(request, inputs, 0, OutputElements(request, rank));
    case Operation::kAllGather:
    case Operation::kAllToAll:
      for (size_t r = 0; r < inputs.size(); ++r) {
        const Part part = PartOf(request.count, request.part, static_cast<int>(r));
        Copy(Bytes(request.output, part.begin * size), inputs[r], part.size * size);
      }
      return;
    case Operation::kBroadcast:
      return Copy(request.output, inputs[request.peer], request.count * size);
    default:
      break;
  }
}

int64_t ElementsSent(const Request& request, int rank, int ranks) {
  const bool all_reduce = request.operation == Operation::kAllReduce;
  if (!all_reduce && !HasParts(request.operation)) return 0;
  const int64_t part = all_reduce ? AllReducePart(request.count, ranks) : request.part;
  const int64_t own = PartOf(request.count, part, rank).size;
  const bool gathers = all_reduce || request.operation == Operation::kAllGather;
  const bool scatters = request.operation != Operation::kAllGather;
  return (scatters ? request.count - own : 0) + (gathers ? own * (ranks - 1) : 0);
}

RequestDescriptor DescriptorOf(const Request& request) {
  RequestDescriptor descriptor;
  descriptor.operation = request.operation;
  descriptor.dtype = request.dtype;
  descriptor.reduction = request.reduction;
  descriptor.partial = request.partial ? 1 : 0;
  descriptor.peer = request.peer;
  descriptor.count = request.count;
  descriptor.part = request.part;
  return descriptor;
}

Request RequestOf(const RequestDescriptor& descriptor) {
  Request request;
  request.operation = descriptor.operation;
  request.dtype = descriptor.dtype;
  request.reduction = descriptor.reduction;
  request.partial = descriptor.partial != 0;
  request.peer = descriptor.peer;
  request.count = descriptor.count;
  request.part = descriptor.part;
  return request;
}

absl::Status Disagreement(absl::string_view group, uint64_t number,
                          absl::Span<const RequestDescriptor> descriptors,
                          absl::Span<const int> ranks) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const int rank = ranks.empty() ? static_cast<int>(i) : ranks[i];
    texts.push_back(absl::StrCat("rank ", rank, " requests ",
                                 IsValid(descriptors[i]) ? Describe(RequestOf(descriptors[i]))
                                                         : "an operation that does not exist"));
  }
  const std::string place = number == 0 ? "" : absl::StrCat(" on operation ", number);
  return absl::InvalidArgumentError(absl::StrCat("the ranks of group '", group, "' disagree", place,
                                                 ": ", absl::StrJoin(texts, ", ")));
}

absl::Status CompareRequests(absl::string_view group, uint64_t number,
                             absl::Span<const RequestDescriptor> descriptors,
                             absl::Span<const int> ranks) {
  for (const RequestDescriptor& descriptor : descriptors) {
    if (descriptor != descriptors[0]) return Disagreement(group, number, descriptors, ranks);
  }
  return absl::OkStatus();
}

}  // namespace tessera::comm

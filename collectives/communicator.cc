#include "collectives/communicator.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/requests.h"
#include "core/status/status_macros.h"
#include "core/tensor/random.h"

namespace tessera::comm {
namespace {

bool IsReduction(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
}

// What a rank reads and writes of a request, in elements.
struct Extents {
  int64_t input = 0;
  int64_t output = 0;
};

Extents ExtentsOf(const Request& request, int rank) {
  const int64_t own = IsCut(request.operation) ? PartOf(request.count, request.part, rank).size : 0;
  switch (request.operation) {
    case Operation::kAllReduce:
    case Operation::kAllToAll:
      return {request.count, request.count};
    case Operation::kReduceScatter:
      return {request.count, own};
    case Operation::kAllGather:
      return {own, request.count};
    case Operation::kBroadcast:
      return {rank == request.peer ? request.count : 0, request.count};
    case Operation::kSend:
      return {request.count, 0};
    case Operation::kReceive:
      return {0, request.count};
    case Operation::kBarrier:
      return {};
  }
  return {};
}

// Bytes from the start of the input to the start of the output, where they may overlap.
int64_t InPlaceDistance(const Request& request, int rank) {
  const int64_t own =
      IsCut(request.operation) ? PartOf(request.count, request.part, rank).begin : 0;
  const int64_t bytes = own * SizeOf(request.dtype);
  if (request.operation == Operation::kReduceScatter) return bytes;
  if (request.operation == Operation::kAllGather) return -bytes;
  return 0;
}

absl::Status CheckOverlap(const Request& request, int rank, const Extents& extents) {
  if (extents.input == 0 || extents.output == 0) return absl::OkStatus();
  const char* const input = static_cast<const char*>(request.input);
  const char* const output = static_cast<const char*>(request.output);
  const int64_t size = SizeOf(request.dtype);
  const bool widens = request.partial && PartialDType(request.dtype) != request.dtype;
  const int64_t output_size = widens ? SizeOf(PartialDType(request.dtype)) : size;
  const bool overlap =
      input < output + extents.output * output_size && output < input + extents.input * size;
  if (!overlap) return absl::OkStatus();
  if (request.operation != Operation::kAllToAll && !widens &&
      output - input == InPlaceDistance(request, rank)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(request), ": the input and the output overlap, which ",
                   request.operation == Operation::kAllToAll ? "all-to-all cannot do"
                   : widens                                  ? "partial sums cannot do"
                            : "is only right at the same elements"));
}

// Of a text that is exchanged.
constexpr int64_t kMaxTextBytes = 65536;

// None, or one that lets another rank go first, or a long one.
void Pause(uint64_t seed, const std::string& name, int rank, int64_t operation) {
  const RandomStream stream = MakeStream(seed, name);
  const uint64_t random = RandomWord(stream, static_cast<uint64_t>(rank), operation);
  if (random % 4 == 0) std::this_thread::yield();
  if (random % 32 == 1) std::this_thread::sleep_for(std::chrono::microseconds(random / 32 % 300));
}

}  // namespace

absl::string_view OperationName(Operation operation) {
  constexpr absl::string_view kNames[kOperations] = {"all-reduce", "reduce-scatter", "all-gather",
                                                     "all-to-all", "broadcast",      "barrier",
                                                     "send",       "receive"};
  return kNames[static_cast<size_t>(operation)];
}

Part PartOf(int64_t count, int64_t part, int rank) {
  const int64_t begin = std::min(count, part * rank);
  return {begin, std::min(count - begin, part)};
}

std::string Describe(const Request& request) {
  std::string text(OperationName(request.operation));
  if (request.operation == Operation::kBarrier) return text;
  absl::StrAppend(&text, " of ", request.count, " ", DTypeName(request.dtype));
  if (IsCut(request.operation)) absl::StrAppend(&text, " in parts of ", request.part);
  if (IsReduction(request.operation)) {
    absl::StrAppend(&text, request.reduction == Reduction::kSum ? " (sum" : " (max",
                    request.partial ? ", partial)" : ")");
  }
  if (request.operation == Operation::kBroadcast || request.operation == Operation::kReceive) {
    absl::StrAppend(&text, " from rank ", request.peer);
  }
  if (request.operation == Operation::kSend) absl::StrAppend(&text, " to rank ", request.peer);
  return text;
}

absl::Status CheckRequest(const Request& request, int rank, int size) {
  const auto invalid = [&request](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(request), ": ", what...));
  };
  if (request.count < 0 || request.part < 0) return invalid("a size is negative");
  if (request.partial && request.operation != Operation::kReduceScatter) {
    return invalid("only a reduce-scatter can be partial");
  }
  if (IsCut(request.operation)) {
    if (request.part > INT64_MAX / 16 / size) return invalid("a part is too large");
    if (request.count > request.part * size) {
      return invalid(size, " ranks have ", request.part * size, " elements in their parts");
    }
    if (request.operation == Operation::kAllToAll && request.count != request.part * size) {
      return invalid("all parts must be whole");
    }
  }
  if (request.peer < 0 || request.peer >= size) {
    return invalid("there are ranks 0 to ", size - 1, " in the group");
  }
  const bool is_pair =
      request.operation == Operation::kSend || request.operation == Operation::kReceive;
  if (is_pair && request.peer == rank) return invalid("that is this rank itself");
  const Extents extents = ExtentsOf(request, rank);
  if ((extents.input > 0 && request.input == nullptr) ||
      (extents.output > 0 && request.output == nullptr)) {
    return invalid("a buffer is null");
  }
  return CheckOverlap(request, rank, extents);
}

void Communicator::Abort(const absl::Status& why) { Start(Request(), why); }

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(absl::string_view name,
                                                                  absl::Span<const int> colors) {
  if (static_cast<int>(colors.size()) != size_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group '", name_, "' has ", size_, " ranks, and ", colors.size(), " colors were given"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group, MakeGroup(name, colors));
  if (group != nullptr) group->PermuteTiming(timing_seed_);
  return group;
}

Exchange ExchangeOver(Communicator* communicator) {
  return [communicator](absl::string_view key,
                        absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    const int ranks = communicator->size();
    const int64_t length = static_cast<int64_t>(mine.size());
    std::vector<int64_t> lengths(ranks);
    RETURN_IF_ERROR(communicator->Wait(
        communicator->AllGather(&length, lengths.data(), ranks, 1, DType::kI64)));
    const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
    // Memory is not taken for whatever a peer says.
    if (*shortest < 0 || *longest > kMaxTextBytes) {
      return absl::InvalidArgumentError(absl::StrCat("'", key, "': texts of ", *shortest, " to ",
                                                     *longest, " bytes are exchanged; at most ",
                                                     kMaxTextBytes, " are allowed"));
    }
    const int64_t part = *longest;
    std::string all(part * ranks, '\0');
    std::string padded(mine);
    padded.resize(part);
    RETURN_IF_ERROR(communicator->Wait(
        communicator->AllGather(padded.data(), all.data(), part * ranks, part, DType::kU8)));
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks; ++rank) {
      texts.push_back(all.substr(rank * part, lengths[rank]));
    }
    return texts;
  };
}

Ticket Communicator::Issue(const Request& request) {
  if (timing_seed_ != 0) Pause(timing_seed_, name_, rank_, issued_);
  absl::Status status = CheckRequest(request, rank_, size_);
  if (++issued_ == fault_.operation) {
    std::this_thread::sleep_for(std::chrono::duration<double>(fault_.delay_seconds));
    if (fault_.fails && status.ok()) {
      status = absl::AbortedError(absl::StrCat(Describe(request), ": was told to fail"));
    }
  }
  if (status.ok()) ++traffic_[static_cast<size_t>(request.operation)].calls;
  return Start(request, status);
}

Ticket Communicator::AllReduce(const void* input, void* output, int64_t count, DType dtype,
                               Reduction reduction) {
  return Issue({.operation = Operation::kAllReduce,
                .dtype = dtype,
                .reduction = reduction,
                .input = input,
                .output = output,
                .count = count});
}

Ticket Communicator::ReduceScatter(const void* input, void* output, int64_t count, int64_t part,
                                   DType dtype, Reduction reduction) {
  return Issue({.operation = Operation::kReduceScatter,
                .dtype = dtype,
                .reduction = reduction,
                .input = input,
                .output = output,
                .count = count,
                .part = part});
}

Ticket Communicator::AllGather(const void* input, void* output, int64_t count, int64_t part,
                               DType dtype) {
  return Issue({.operation = Operation::kAllGather,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .part = part});
}

Ticket Communicator::AllToAll(const void* input, void* output, int64_t part, DType dtype) {
  return Issue({.operation = Operation::kAllToAll,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = part > INT64_MAX / 16 / size_ ? part : part * size_,
                .part = part});
}

Ticket Communicator::Broadcast(const void* input, void* output, int64_t count, DType dtype,
                               int root) {
  return Issue({.operation = Operation::kBroadcast,
                .dtype = dtype,
                .peer = root,
                .input = input,
                .output = output,
                .count = count});
}

Ticket Communicator::Barrier() { return Issue({.operation = Operation::kBarrier}); }

Ticket Communicator::Send(const void* input, int64_t count, DType dtype, int to) {
  return Issue(
      {.operation = Operation::kSend, .dtype = dtype, .peer = to, .input = input, .count = count});
}

Ticket Communicator::Receive(void* output, int64_t count, DType dtype, int from) {
  return Issue({.operation = Operation::kReceive,
                .dtype = dtype,
                .peer = from,
                .output = output,
                .count = count});
}

}  // namespace tessera::comm

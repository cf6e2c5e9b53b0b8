#include "collectives/communicator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/requests.h"
#include "core/status/status_macros.h"
#include "core/sync/mutex.h"

namespace tessera::comm {
namespace {

bool IsReduction(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
}

// Returns the bytes from the start of the input to the start of the output that in-place use
// requires.
int64_t InPlaceDistance(const Request& request, int rank) {
  const int64_t own =
      HasParts(request.operation) ? PartOf(request.count, request.part, rank).begin : 0;
  const int64_t bytes = own * SizeOf(request.dtype);
  if (request.operation == Operation::kReduceScatter) return bytes;
  if (request.operation == Operation::kAllGather) return -bytes;
  return 0;
}

absl::Status CheckOverlap(const Request& request, int rank) {
  const int64_t read = InputElements(request, rank), written = OutputElements(request, rank);
  if (read == 0 || written == 0) return absl::OkStatus();
  const char* const input = static_cast<const char*>(request.input);
  const char* const output = static_cast<const char*>(request.output);
  const int64_t size = SizeOf(request.dtype);
  const bool widens = request.partial && PartialDType(request.dtype) != request.dtype;
  const int64_t output_size = widens ? SizeOf(PartialDType(request.dtype)) : size;
  const bool overlap = input < output + written * output_size && output < input + read * size;
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

// The longest text that is exchanged.
constexpr int64_t kMaxTextBytes = 65536;
// The longest text of a peer that an error message quotes.
constexpr size_t kQuotedBytes = 200;

// Returns the most elements of a buffer in a group, so that the bytes sent to all ranks do not
// overflow an int64_t.
int64_t MaxCount(int size) {
  constexpr int64_t kMaxElementBytes = 8;
  return INT64_MAX / kMaxElementBytes / size;
}

// Returns the most elements of a part, so that those of all parts do not overflow an int64_t.
int64_t MaxPartCount(int size) { return INT64_MAX / 16 / size; }

// Returns the text of a split that ranks compare.
std::string SplitText(absl::string_view name, absl::Span<const int> colors) {
  return absl::StrCat("split '", name, "' into colors ", absl::StrJoin(colors, ","));
}

// Returns the colors in a SplitText, as text.
absl::string_view ColorsOf(absl::string_view split_text) {
  return split_text.substr(std::min(split_text.rfind(' '), split_text.size()));
}

// Returns an error that names two ranks of `group` whose SplitTexts differ.
absl::Status SplitDisagreement(absl::string_view group, absl::Span<const std::string> texts,
                               int first, int second) {
  return absl::InvalidArgumentError(
      absl::StrCat("the ranks of group '", group, "' disagree on a split: rank ", first,
                   " requests ", texts[first].substr(0, kQuotedBytes), ", rank ", second,
                   " requests ", texts[second].substr(0, kQuotedBytes)));
}

// WaitAny tests its operations this often.
constexpr auto kTestEvery = std::chrono::milliseconds(100);

// A watcher of several sources.
class Notifications : public CompletionWatcher {
 public:
  void Notify() override {
    const MutexLock lock(&mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  int64_t count() {
    const MutexLock lock(&mutex_);
    return count_;
  }
  // Waits until there have been more than `seen` notifications, or for some time. Returns whether
  // there have been.
  bool WaitFor(int64_t seen) {
    MutexLock lock(&mutex_);
    if (count_ == seen) changed_.WaitFor(lock, kTestEvery);
    return count_ > seen;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Part PartOf(int64_t count, int64_t part, int rank) {
  const int64_t begin = std::min(count, part * rank);
  return {begin, std::min(count - begin, part)};
}

std::string Describe(const Request& request) {
  std::string text(OperationName(request.operation));
  if (request.operation == Operation::kBarrier) return text;
  absl::StrAppend(&text, " of ", request.count, " ", DTypeName(request.dtype));
  if (HasParts(request.operation)) absl::StrAppend(&text, " in parts of ", request.part);
  if (IsReduction(request.operation)) {
    absl::StrAppend(&text, " (", ReductionName(request.reduction),
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
  if (request.count > MaxCount(size)) return invalid("the buffer is too large");
  if (request.partial && request.operation != Operation::kReduceScatter) {
    return invalid("only a reduce-scatter can be partial");
  }
  if (request.unread.size != 0) {
    const Part own = PartOf(request.count, request.part, rank);
    const bool inside = request.unread.begin >= own.begin && request.unread.size > 0 &&
                        request.unread.size <= own.begin + own.size - request.unread.begin;
    if (request.operation != Operation::kAllGather || !inside) {
      return invalid("only elements of an all-gather's own part can be unread");
    }
  }
  if (HasParts(request.operation)) {
    if (request.part > MaxPartCount(size)) return invalid("a part is too large");
    if (request.count > request.part * size) {
      return invalid(size, " ranks have ", request.part * size, " elements in their parts");
    }
    if (request.operation == Operation::kAllToAll && request.count != request.part * size) {
      return invalid("all parts must be full");
    }
  }
  if (request.peer < 0 || request.peer >= size) {
    return invalid("there are ranks 0 to ", size - 1, " in the group");
  }
  const bool is_pair =
      request.operation == Operation::kSend || request.operation == Operation::kReceive;
  if (is_pair && request.peer == rank) return invalid("the peer is this rank itself");
  if ((request.input == nullptr && InputElements(request, rank) > 0) ||
      (request.output == nullptr && OutputElements(request, rank) > 0)) {
    return invalid("a buffer is null");
  }
  return CheckOverlap(request, rank);
}

Traffic Communicator::traffic() const {
  Traffic traffic;
  for (size_t i = 0; i < traffic.size(); ++i) {
    traffic[i] = {counts_[i].calls.load(std::memory_order_relaxed),
                  counts_[i].bytes_sent.load(std::memory_order_relaxed),
                  counts_[i].bytes_staged.load(std::memory_order_relaxed)};
  }
  return traffic;
}

void Communicator::Abort(const absl::Status& why) {
  Start(Request(), why.ok() ? absl::AbortedError("no reason was given") : why);
}

Exchange Communicator::SplitExchange() { return ExchangeOver(this); }

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(absl::string_view name,
                                                                  absl::Span<const int> colors,
                                                                  Contents contents) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   SplitExchange()("split", SplitText(name, colors)));
  if (static_cast<int>(colors.size()) != size_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group '", name_, "' has ", size_, " ranks, and there are colors for ", colors.size()));
  }
  // All ranks compare the same texts, so all get the same error or none.
  // All ranks pass the same colors.
  for (int r = 1; r < size_; ++r) {
    if (ColorsOf(texts[r]) != ColorsOf(texts[0])) return SplitDisagreement(name_, texts, 0, r);
  }
  // Ranks of one color pass the same name.
  std::map<int, int> first_of_color;
  for (int r = 0; r < size_; ++r) {
    if (colors[r] < 0) continue;
    const int first = first_of_color.try_emplace(colors[r], r).first->second;
    if (texts[r] != texts[first]) return SplitDisagreement(name_, texts, first, r);
  }
  return MakeGroup(name, colors, contents);
}

size_t WaitAny(absl::Span<const PendingOperation> operations) {
  size_t ended = 0;
  const auto any = [&](auto has_ended) {
    for (ended = 0; ended < operations.size(); ++ended) {
      if (has_ended(*operations[ended].group, operations[ended].ticket)) return true;
    }
    return false;
  };
  const auto any_ended = [&] {
    return any([](const Communicator& group, Ticket ticket) { return group.HasEnded(ticket); });
  };
  // A group on several hosts notices only in Test that it has failed on another host.
  const auto test_any = [&] {
    return any([](Communicator& group, Ticket ticket) { return group.Test(ticket); });
  };
  std::vector<CompletionSource*> sources;
  for (const auto& [group, ticket] : operations) {
    CompletionSource* const source = group->SourceOf(ticket);
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(source);
    }
  }
  if (sources.size() == 1) {
    using Clock = std::chrono::steady_clock;
    do {
      const Clock::time_point until = Clock::now() + kTestEvery;
      sources[0]->WaitUntil([&] { return any_ended() || Clock::now() >= until; });
    } while (!any_ended() && !test_any());
    return ended;
  }
  Notifications notifications;
  for (CompletionSource* source : sources) source->Watch(&notifications);
  for (bool is_late = false;;) {
    const int64_t seen = notifications.count();
    if (any_ended() || (is_late && test_any())) break;
    is_late = !notifications.WaitFor(seen);
  }
  for (CompletionSource* source : sources) source->Unwatch(&notifications);
  return ended;
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
    // A peer must not decide how much memory is allocated.
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
  const absl::Status status = CheckRequest(request, rank_, size_);
  if (status.ok()) {
    counts_[static_cast<size_t>(request.operation)].calls.fetch_add(1, std::memory_order_relaxed);
  }
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

Ticket Communicator::ReduceScatter(const void* input, void* output, int64_t input_count,
                                   int64_t part_count, DType dtype, Reduction reduction) {
  return Issue({.operation = Operation::kReduceScatter,
                .dtype = dtype,
                .reduction = reduction,
                .input = input,
                .output = output,
                .count = input_count,
                .part = part_count});
}

Ticket Communicator::AllGather(const void* input, void* output, int64_t output_count,
                               int64_t part_count, DType dtype) {
  return Issue({.operation = Operation::kAllGather,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = output_count,
                .part = part_count});
}

Ticket Communicator::AllToAll(const void* input, void* output, int64_t part_count, DType dtype) {
  // CheckRequest refuses parts that are too large; until then their count must not overflow.
  const bool is_too_large = part_count > MaxPartCount(size_);
  return Issue({.operation = Operation::kAllToAll,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = is_too_large ? part_count : part_count * size_,
                .part = part_count});
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

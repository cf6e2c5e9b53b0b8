// How operations move: onto their lane's stream, to their end, or to the group's failure.
#ifdef TESSERA_CUDA

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// The number of descriptors of a lane that are posted before the ranks have agreed on the first.
constexpr size_t kPostAhead = 32;

// The time in which another rank may report the cause of an error.
constexpr double kReasonSeconds = 2;
constexpr auto kControlInterval = std::chrono::milliseconds(5);

// Queries an event, and clears cudaErrorNotReady, which is no error, from cudaGetLastError.
cudaError_t Query(cudaEvent_t event) {
  const cudaError_t result = cudaEventQuery(event);
  if (result == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  return result;
}

}  // namespace

void Group::AdvanceAll(bool* under_way, bool* launching) {
  for (const auto& lane : lanes_) {
    if (lane != nullptr) Advance(*lane);
  }
  if (!status_.ok()) return;
  for (const auto& lane : lanes_) {
    if (lane == nullptr || lane->queue.empty()) continue;
    *under_way = true;
    *launching = *launching || lane->launched < lane->queue.size();
  }
}

void Group::Advance(Lane& lane) {
  if (!status_.ok() || lane.queue.empty()) return;
  const bool is_open = Connect(lane);
  if (status_.ok()) Post(lane);
  if (status_.ok()) Agree(lane);
  if (status_.ok() && lane.error.ok() && is_open) Launch(lane);
  if (status_.ok() && lane.error.ok()) Finish(lane);
  const Time now = Clock::now();
  if (status_.ok()) CheckControl(lane, now);
  if (status_.ok()) Check(lane, now);
}

// The sender of a pair is rank 0 of its comm.
bool Group::Connect(Lane& lane) {
  using State = Lane::Connection;
  if (lane.index == 0 || lane.connection == State::kOpen) return true;
  const int peer = (lane.index - 1) % size();
  const bool sends = lane.index <= size();
  if (lane.connection == State::kNone) {
    if (!lane.id_status.ok()) {
      FailIn(lane, lane.id_status);
      return false;
    }
    lane.id_exchange =
        sends ? control_->Send(lane.id.internal, sizeof(lane.id.internal), DType::kU8, peer)
              : control_->Receive(lane.id.internal, sizeof(lane.id.internal), DType::kU8, peer);
    lane.connection = State::kExchanging;
  }
  if (lane.connection == State::kExchanging) {
    if (!control_->Test(lane.id_exchange)) return false;
    absl::Status status = control_->Wait(lane.id_exchange);
    if (status.ok()) {
      UseGpu(engine_->options_.gpu);
      ncclConfig_t config = Config();
      lane.comm = std::make_shared<ncclComm_t>(nullptr);
      status =
          NcclStatus(ncclCommInitRankConfig(lane.comm.get(), 2, lane.id, sends ? 0 : 1, &config),
                     "NCCL cannot connect the ranks", *lane.comm);
    }
    if (!status.ok()) {
      FailIn(lane, status);
      return false;
    }
    lane.connection = State::kConnecting;
  }
  // Check sees errors.
  if (StateOf(lane.comm) == ncclSuccess) lane.connection = State::kOpen;
  return lane.connection == State::kOpen;
}

void Group::Post(Lane& lane) {
  const bool checked = engine_->options_.check && size() > 1;
  constexpr int64_t kBytes = sizeof(RequestDescriptor);
  for (; lane.posted < lane.queue.size() && lane.posted < kPostAhead; ++lane.posted) {
    Queued& operation = lane.queue[lane.posted];
    operation.agreed = !checked;
    if (!checked) continue;
    const Operation kind = operation.request.operation;
    operation.mine = DescriptorOf(operation.request);
    operation.theirs.resize(kind == Operation::kSend      ? 0
                            : kind == Operation::kReceive ? 1
                                                          : size());
    if (kind == Operation::kSend) {
      operation.exchange =
          control_->Send(&operation.mine, kBytes, DType::kU8, operation.request.peer);
    } else if (kind == Operation::kReceive) {
      operation.exchange =
          control_->Receive(operation.theirs.data(), kBytes, DType::kU8, operation.request.peer);
    } else {
      operation.exchange = control_->AllGather(&operation.mine, operation.theirs.data(),
                                               kBytes * size(), kBytes, DType::kU8);
    }
  }
}

void Group::Agree(Lane& lane) {
  for (size_t i = 0; i < lane.posted; ++i) {
    Queued& operation = lane.queue[i];
    if (operation.agreed) continue;
    if (!control_->Test(operation.exchange)) return;
    if (const absl::Status status = control_->Wait(operation.exchange); !status.ok()) {
      FailIn(lane, status);
      return;
    }
    const RequestDescriptor& mine = operation.mine;
    bool same = true;
    std::vector<int> ranks;
    std::vector<RequestDescriptor> descriptors;
    if (mine.operation == Operation::kReceive) {
      const RequestDescriptor& sent = operation.theirs[0];
      same = sent.count == mine.count && sent.dtype == mine.dtype;
      ranks = {mine.peer, rank()};
      descriptors = {sent, mine};
    } else {
      for (const RequestDescriptor& descriptor : operation.theirs) {
        ranks.push_back(static_cast<int>(ranks.size()));
        descriptors.push_back(descriptor);
        same = same && descriptor == mine;
      }
    }
    if (!same) {
      Fail(Disagreement(name(), lane.index == 0 ? lane.done + i + 1 : 0, ranks, descriptors));
      return;
    }
    operation.agreed = true;
  }
}

void Group::Launch(Lane& lane) {
  while (lane.launched < lane.queue.size()) {
    Queued& operation = lane.queue[lane.launched];
    if (!lane.launching) {
      const absl::Status status = Enqueue(lane, operation.request);
      if (!status.ok()) {
        FailLater(lane, status);
        return;
      }
    }
    if (lane.launching) {
      const ncclResult_t state = StateOf(lane.comm);
      if (state != ncclSuccess) return;  // Check sees errors
      lane.launching = false;
    }
    absl::StatusOr<cudaEvent_t> done = engine_->TakeEvent();
    absl::Status status = done.status();
    if (status.ok()) {
      operation.done = *done;
      status = CudaStatus(cudaEventRecord(*done, lane.stream), "an event cannot be recorded");
    }
    if (!status.ok()) {
      FailIn(lane, status);
      return;
    }
    ++lane.launched;
  }
}

void Group::Finish(Lane& lane) {
  while (lane.launched > 0) {
    Queued& operation = lane.head();
    while (!operation.after.empty()) {
      lane.since = Clock::now();
      if (Query(operation.after.back()) == cudaErrorNotReady) return;
      engine_->ReturnEvent(operation.after.back());
      operation.after.pop_back();
    }
    const cudaError_t result = Query(operation.done);
    if (result == cudaErrorNotReady) return;
    if (result != cudaSuccess) {
      FailLater(lane, CudaStatus(result, "the GPU fails"));
      return;
    }
    if (!operation.agreed) return;
    engine_->ReturnEvent(operation.done);
    lane.queue.pop_front();
    --lane.launched;
    --lane.posted;
    ++lane.done;
    lane.since = Clock::now();
  }
}

void Group::CheckControl(const Lane& lane, Time now) {
  if (now - control_checked_ < kControlInterval) return;
  control_checked_ = now;
  if (control_->Test(kNever)) FailIn(lane, control_->Wait(kNever));
}

void Group::Check(Lane& lane, Time now) {
  if (lane.queue.empty()) return;
  if (!lane.error.ok()) {
    FailLater(lane, lane.error);
    return;
  }
  if (lane.comm != nullptr) {
    const absl::Status status = NcclStatus(StateOf(lane.comm), "NCCL fails", *lane.comm);
    if (!status.ok()) {
      FailLater(lane, status);
      return;
    }
  }
  const Queued& operation = lane.head();
  const double at_most = engine_->options_.timeout_seconds;
  // The control group reports which rank did not come; it gets a little more time to do so.
  const double waited = std::chrono::duration<double>(now - lane.since).count();
  if (waited <= at_most + (operation.agreed ? 0 : kReasonSeconds)) return;
  const absl::string_view what = !operation.agreed    ? "not all ranks came"
                                 : lane.launched == 0 ? "NCCL did not connect the ranks"
                                                      : "NCCL did not finish the operation";
  FailIn(lane, absl::DeadlineExceededError(absl::StrCat(what, " within ", at_most, " s")));
}

void Group::FailIn(const Lane& lane, const absl::Status& status) {
  Fail(absl::Status(status.code(), absl::StrCat(Place(lane), ": ", status.message())));
}

void Group::FailLater(Lane& lane, const absl::Status& error) {
  if (lane.error.ok()) {
    lane.error = error;
    lane.error_since = Clock::now();
  }
  const size_t seen = std::min(lane.launched + 1, lane.queue.size());
  const bool all_agreed =
      std::all_of(lane.queue.begin(), lane.queue.begin() + static_cast<int64_t>(seen),
                  [](const Queued& operation) { return operation.agreed; });
  if (all_agreed || SecondsSince(lane.error_since) > kReasonSeconds) FailIn(lane, lane.error);
}

void Group::Fail(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  broken_ = Clock::now();
  control_->Abort(status_);
  std::vector<Comm> comms;
  for (const auto& lane : lanes_) {
    if (lane != nullptr && lane->comm != nullptr) comms.push_back(std::move(lane->comm));
  }
  if (!comms.empty()) settled_ = AbortComms(std::move(comms), child_, engine_->options_.gpu);
  child_ = nullptr;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA

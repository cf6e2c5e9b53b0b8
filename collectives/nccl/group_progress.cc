// How operations advance: onto their lane's stream, to their end, or to the group's failure.
#ifdef TESSERA_CUDA

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/group.h"

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

// Returns the bytes that a rank sends if data travel around a ring.
int64_t BytesSent(const Request& request, int rank, int size) {
  const bool is_last = (rank + 1) % size == request.peer;  // in a broadcast
  const bool sends_all = request.operation == Operation::kSend ||
                         (request.operation == Operation::kBroadcast && !is_last);
  return (sends_all ? request.count : ElementsSent(request, rank, size)) * SizeOf(request.dtype);
}

}  // namespace

bool Group::AdvanceSmall() {
  device_->events().Restart();
  Advance();
  return true;
}

bool Group::AdvanceFirst(int channel) {
  UseGpu(device_->options().gpu);
  Lane& lane = LaneOf(channel);
  while (lane.operations.size() < Pending(channel).size()) {
    const uint64_t number = Done(channel) + lane.operations.size();
    InFlight& operation = lane.operations.emplace_back();
    if (auto after = lane.after.extract(number); !after.empty()) {
      operation.after = std::move(after.mapped());
    }
  }
  const bool is_open = Connect(lane);
  if (is_ok()) Post(lane);
  if (is_ok()) Agree(lane);
  bool moved = false;
  if (is_ok() && lane.error.ok() && is_open) moved = Launch(lane);
  if (is_ok() && lane.error.ok()) moved = Finish(lane) || moved;
  if (moved) device_->events().Restart();
  return moved;
}

// The sender of a pair is rank 0 of its comm.
bool Group::Connect(Lane& lane) {
  using State = Lane::Connection;
  if (lane.channel == 0 || lane.connection == State::kOpen) return true;
  const int peer = PeerOf(lane.channel);
  const bool sends = IsToPeer(lane.channel);
  if (lane.connection == State::kNone) {
    if (!sends && !watches_.empty()) return false;
    if (!lane.id_status.ok()) {
      FailIn(lane.channel, lane.id_status);
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
      ncclConfig_t config = Config();
      lane.comm = std::make_shared<ncclComm_t>(nullptr);
      status =
          NcclStatus(ncclCommInitRankConfig(lane.comm.get(), 2, lane.id, sends ? 0 : 1, &config),
                     "NCCL cannot connect the ranks", *lane.comm);
    }
    if (!status.ok()) {
      FailIn(lane.channel, status);
      return false;
    }
    lane.connection = State::kConnecting;
  }
  // CheckChannel handles errors.
  if (StateOf(lane.comm) == ncclSuccess) lane.connection = State::kOpen;
  return lane.connection == State::kOpen;
}

void Group::Post(Lane& lane) {
  const bool is_checked = device_->options().check && size() > 1;
  constexpr int64_t kBytes = sizeof(RequestDescriptor);
  for (; lane.posted < lane.operations.size() && lane.posted < kPostAhead; ++lane.posted) {
    const Request& request = Pending(lane.channel)[lane.posted];
    const Operation kind = request.operation;
    if (kind == Operation::kReceive && !watches_.empty()) return;
    InFlight& operation = lane.operations[lane.posted];
    operation.is_agreed = !is_checked;
    if (!is_checked) continue;
    operation.mine = DescriptorOf(request);
    operation.theirs.resize(kind == Operation::kSend      ? 0
                            : kind == Operation::kReceive ? 1
                                                          : size());
    if (kind == Operation::kSend) {
      operation.exchange = control_->Send(&operation.mine, kBytes, DType::kU8, request.peer);
    } else if (kind == Operation::kReceive) {
      operation.exchange =
          control_->Receive(operation.theirs.data(), kBytes, DType::kU8, request.peer);
    } else {
      operation.exchange = control_->AllGather(&operation.mine, operation.theirs.data(),
                                               kBytes * size(), kBytes, DType::kU8);
    }
  }
}

void Group::Agree(Lane& lane) {
  for (size_t i = 0; i < lane.posted; ++i) {
    InFlight& operation = lane.operations[i];
    if (operation.is_agreed) continue;
    if (!control_->Test(operation.exchange)) return;
    if (const absl::Status status = control_->Wait(operation.exchange); !status.ok()) {
      FailIn(lane.channel, status);
      return;
    }
    const RequestDescriptor& mine = operation.mine;
    absl::Status agreement;
    if (mine.operation == Operation::kReceive) {
      const RequestDescriptor& sent = operation.theirs[0];
      if (sent.count != mine.count || sent.dtype != mine.dtype) {
        agreement = Disagreement(name(), 0, {sent, mine}, {mine.peer, rank()});
      }
    } else {
      agreement = CompareRequests(name(), Done(0) + i + 1, operation.theirs);
    }
    if (!agreement.ok()) {
      Fail(std::move(agreement));
      return;
    }
    operation.is_agreed = true;
  }
}

bool Group::Launch(Lane& lane) {
  const int channel = lane.channel;
  bool moved = false;
  for (; Launched(lane) < lane.operations.size(); moved = true) {
    InFlight& operation = lane.operations[Launched(lane)];
    const Request& request = Pending(channel)[Launched(lane)];
    if (!lane.is_launching) {
      const absl::Status status = Enqueue(lane, request);
      if (!status.ok()) {
        FailLater(lane, status);
        return moved;
      }
    }
    if (lane.is_launching && StateOf(lane.comm) != ncclSuccess) return moved;
    lane.is_launching = false;
    absl::StatusOr<cudaEvent_t> done = device_->TakeEvent();
    absl::Status status = done.status();
    if (status.ok()) {
      operation.done = *done;
      status = CudaStatus(cudaEventRecord(*done, lane.stream), "an event cannot be recorded");
    }
    if (!status.ok()) {
      FailIn(channel, status);
      return true;
    }
    CountSent(request.operation, BytesSent(request, rank(), size()));
    ++launched_[channel];
    NoteCompletion();  // for LetWait
  }
  return moved;
}

bool Group::Finish(Lane& lane) {
  bool moved = false;
  for (; Launched(lane) > 0; moved = true) {
    InFlight& operation = lane.operations.front();
    while (!operation.after.empty()) {
      Moved(lane.channel);
      if (Query(operation.after.back()) == cudaErrorNotReady) return moved;
      device_->ReturnEvent(operation.after.back());
      operation.after.pop_back();
    }
    const cudaError_t result = Query(operation.done);
    if (result == cudaErrorNotReady) return moved;
    if (result != cudaSuccess) {
      FailLater(lane, CudaStatus(result, "the GPU fails"));
      return moved;
    }
    if (!operation.is_agreed) return moved;
    device_->ReturnEvent(operation.done);
    lane.operations.pop_front();
    --lane.posted;
    Complete(lane.channel);
  }
  return moved;
}

void Group::CheckChannel(int channel, Time now) {
  if (now - control_checked_ >= kControlInterval) {
    control_checked_ = now;
    if (!watches_.empty()) WatchPeers();
    if (control_->Test(kFailureTicket)) {
      FailIn(channel, control_->Wait(kFailureTicket));
      return;
    }
  }
  Lane& lane = LaneOf(channel);
  if (lane.error.ok() && lane.comm != nullptr) {
    lane.error = NcclStatus(StateOf(lane.comm), "NCCL fails", *lane.comm);
  }
  if (!lane.error.ok()) {
    FailLater(lane, lane.error);
    return;
  }
  // The control group reports which rank is missing, so it gets a little more time.
  const bool is_agreed = !lane.operations.empty() && lane.operations.front().is_agreed;
  const double at_most = timeout_seconds();
  if (Waited(channel, now) <= at_most + (is_agreed ? 0 : kReasonSeconds)) return;
  const absl::string_view what = !is_agreed            ? "not all ranks came"
                                 : Launched(lane) == 0 ? "NCCL did not connect the ranks"
                                                       : "NCCL did not finish the operation";
  const absl::Status late =
      absl::DeadlineExceededError(absl::StrCat(what, " within ", at_most, " s"));
  if (is_agreed) {
    FailLater(lane, late);  // NCCL may be waiting for a rank that is gone
  } else {
    FailIn(channel, late);
  }
}

void Group::FailIn(int channel, const absl::Status& status) {
  std::string text = absl::StrCat("rank ", rank(), " of ", size(), " of group '", name(), "'");
  if (!IsEmpty(channel)) {
    absl::StrAppend(&text, ", in ", Describe(First(channel)), " after ", Done(channel),
                    channel == 0 ? " collectives" : " messages");
  }
  Fail(absl::Status(status.code(), absl::StrCat(text, ": ", status.message())));
}

void Group::FailLater(Lane& lane, const absl::Status& error) {
  if (lane.error_since == Clock::time_point()) {
    lane.error = error;
    lane.error_since = Clock::now();
    watches_.resize(size());
  }
  const std::chrono::duration<double> waited = Clock::now() - lane.error_since;
  // Watches must not wait until the control group's time-out, when it would report ranks that are
  // there as missing.
  if (waited.count() > std::min(kReasonSeconds, timeout_seconds() / 2)) {
    FailIn(lane.channel, lane.error);
  }
}

// The control group notices that a rank is gone only while one of its operations waits for that
// rank. If all ranks have agreed, none does. It cannot be a collective: ranks without an error may
// issue another one. So this rank receives from each other rank. The size is that of the rank's
// next message, if there is one: the id of a comm or a descriptor. The message itself is not
// needed, since the group fails.
void Group::WatchPeers() {
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const Lane& lane = LaneOf(ChannelFrom(r));
    const bool receives = lane.connection == Lane::Connection::kExchanging ||
                          (lane.posted > 0 && !lane.operations[lane.posted - 1].is_agreed);
    Watch& watch = watches_[r];
    if (receives || (watch.is_posted && !control_->Test(watch.receive))) continue;
    const bool is_id = lane.connection == Lane::Connection::kNone && !watch.is_posted;
    watch.receive = control_->Receive(
        watch.data, is_id ? sizeof(watch.data) : sizeof(RequestDescriptor), DType::kU8, r);
    watch.is_posted = true;
  }
}

void Group::OnFailure(const absl::Status& why, bool /*is_first*/) {
  aborted_ = Clock::now();
  control_->Abort(why);
  std::vector<Comm> comms;
  for (const auto& lane : lanes_) {
    if (lane == nullptr || lane->comm == nullptr) continue;
    device_->Deregister(lane->comm, /*is_aborted=*/true);
    comms.push_back(std::move(lane->comm));
  }
  if (!comms.empty()) settled_ = AbortComms(std::move(comms), child_, device_->options().gpu);
  child_ = nullptr;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA

#ifdef TESSERA_CUDA

#include "collectives/nccl/group.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// Operations of a lane of which the others are told before they have agreed on the first.
constexpr size_t kTellAhead = 32;

// How long a reason may come after what it causes.
constexpr double kReasonSeconds = 2;
// How long it may take NCCL to abort, and a group to go.
constexpr double kSettleSeconds = 10;
constexpr double kLeaveSeconds = 5;

constexpr auto kLookEvery = std::chrono::milliseconds(5);

// A wait spins, and then sleeps.
constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kSleep = std::chrono::microseconds(50);

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Pause(Clock::time_point begin) {
  if (Clock::now() - begin < kSpin) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
}

// cudaErrorNotReady is no error; it is not left for who asks CUDA for the last one.
cudaError_t Query(cudaEvent_t event) {
  const cudaError_t result = cudaEventQuery(event);
  if (result == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  return result;
}

// A thread of NCCL's puts operations on the lane's stream, which is no part of the capture: an
// event between the two streams would make the capture invalid.
absl::Status CheckNotCaptured(CUstream_st* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  RETURN_IF_ERROR(CudaStatus(cudaStreamIsCapturing(stream, &status), "a stream cannot be used"));
  if (status == cudaStreamCaptureStatusNone) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the stream is being captured into a graph, which cannot contain operations of a group: end "
      "the capture first");
}

}  // namespace

Group::Group(Engine* engine, Communicator* meeting, std::unique_ptr<Communicator> own_meeting,
             std::unique_ptr<Communicator> control, Comm comm)
    : StreamCommunicator(meeting->name(), meeting->rank(), meeting->size()),
      engine_(engine),
      meeting_(meeting),
      own_meeting_(std::move(own_meeting)),
      control_(std::move(control)) {
  lanes_.resize(1 + 2 * size());
  LaneOf(0).comm = std::move(comm);
  scratch_ = engine_->Add(this);
}

Group::~Group() {
  UseGpu(engine_->options_.gpu);
  const Time deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                         std::min(kLeaveSeconds, engine_->options_.timeout_seconds)));
  const Time begin = Clock::now();
  std::unique_lock<std::mutex> lock(engine_->mutex_);
  const auto pause = [&] {
    lock.unlock();
    Pause(begin);
    lock.lock();
  };
  while (status_.ok() && !IsIdle() && Clock::now() < deadline) {
    bool under_way = false, launching = false;
    AdvanceAll(&under_way, &launching);
    pause();
  }
  if (!IsIdle()) Fail(absl::CancelledError("its group has gone"));
  engine_->Remove(this);
  if (status_.ok()) {
    lock.unlock();
    Close(deadline);
    lock.lock();
  }
  while (!HasSettled()) pause();
  const bool settled = settled_ == nullptr || settled_->load();
  if (!settled) engine_->may_free_ = false;
  for (cudaEvent_t event : after_) engine_->ReturnEvent(event);
  for (const auto& lane : lanes_) {
    if (lane == nullptr) continue;
    for (Queued& operation : lane->queue) {
      engine_->ReturnEvent(operation.done);
      for (cudaEvent_t event : operation.after) engine_->ReturnEvent(event);
    }
    if (settled && lane->stream != nullptr) cudaStreamDestroy(lane->stream);
  }
}

void Group::Close(Time deadline) {
  UseGpu(engine_->options_.gpu);
  std::vector<Comm> open;
  for (const auto& lane : lanes_) {
    if (lane == nullptr || lane->comm == nullptr) continue;
    for (const Lane::Registered& registered : lane->registered) {
      if (registered.handle != nullptr) ncclCommDeregister(*lane->comm, registered.handle);
    }
    ncclCommFinalize(*lane->comm);
    open.push_back(std::move(lane->comm));
  }
  std::vector<Comm> stuck;
  for (Comm& comm : open) {
    while (StateOf(comm) == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::sleep_for(kSleep);
    }
    if (StateOf(comm) == ncclSuccess) {
      ncclCommDestroy(*comm);
    } else {
      stuck.push_back(std::move(comm));
    }
  }
  if (stuck.empty()) return;
  broken_ = Clock::now();
  settled_ = AbortComms(std::move(stuck), nullptr, engine_->options_.gpu);
}

Group::Lane& Group::LaneOf(int index) {
  if (lanes_[index] == nullptr) lanes_[index] = std::make_unique<Lane>(index);
  return *lanes_[index];
}

Ticket Group::Start(const Request& request, const absl::Status& status) {
  const absl::Status wrong =
      !status.ok() ? status
      : request.partial
          ? absl::UnimplementedError(absl::StrCat(Describe(request), ": NCCL rounds sums"))
          : CheckMemory(request);
  int index = 0;
  if (request.operation == Operation::kSend) index = 1 + request.peer;
  if (request.operation == Operation::kReceive) index = 1 + size() + request.peer;
  if (!wrong.ok()) index = 0;
  UseGpu(engine_->options_.gpu);
  if (request.operation == Operation::kSend && wrong.ok()) MakeId(index);
  const std::lock_guard<std::mutex> lock(engine_->mutex_);
  Lane& lane = LaneOf(index);
  if (!wrong.ok()) Fail(wrong);
  if (!status_.ok()) return {index, lane.issued};
  CountSent(request.operation, BytesSent(request, rank(), size()));
  if (lane.queue.empty()) lane.since = Clock::now();
  Queued& operation = lane.queue.emplace_back();
  operation.request = request;
  operation.after.swap(after_);
  const Ticket ticket = {index, lane.issued++};
  Advance(lane);
  engine_->WakeThread();
  return ticket;
}

void Group::MakeId(int index) {
  {
    const std::lock_guard<std::mutex> lock(engine_->mutex_);
    if (!status_.ok() || size() == 1 || LaneOf(index).has_id) return;
  }
  ncclUniqueId id = {};
  const absl::Status status = NcclStatus(ncclGetUniqueId(&id), "NCCL cannot be reached", nullptr);
  const std::lock_guard<std::mutex> lock(engine_->mutex_);
  Lane& lane = LaneOf(index);
  lane.id = id;
  lane.id_status = status;
  lane.has_id = true;
}

bool Group::IsDone(Ticket ticket) const {
  return !status_.ok() || lanes_[ticket.channel] == nullptr ||
         lanes_[ticket.channel]->done > ticket.number;
}

bool Group::HasSettled() const {
  return settled_ == nullptr || settled_->load() || Since(broken_) > kSettleSeconds;
}

bool Group::IsIdle() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const std::unique_ptr<Lane>& lane) {
    return lane == nullptr || lane->queue.empty();
  });
}

absl::Status Group::Wait(Ticket ticket) {
  UseGpu(engine_->options_.gpu);
  const Time begin = Clock::now();
  std::unique_lock<std::mutex> lock(engine_->mutex_);
  const auto is_over = [&] {
    if (!IsDone(ticket)) Advance(*lanes_[ticket.channel]);
    return IsDone(ticket) && (status_.ok() || HasSettled());
  };
  while (!is_over()) {
    lock.unlock();
    Pause(begin);
    lock.lock();
  }
  const auto& lane = lanes_[ticket.channel];
  return lane != nullptr && lane->done > ticket.number ? absl::OkStatus() : status_;
}

bool Group::Test(Ticket ticket) {
  UseGpu(engine_->options_.gpu);
  const std::lock_guard<std::mutex> lock(engine_->mutex_);
  if (!IsDone(ticket)) Advance(*lanes_[ticket.channel]);
  return IsDone(ticket) && (status_.ok() || HasSettled());
}

bool Group::HasEnded(Ticket ticket) const {
  const std::lock_guard<std::mutex> lock(engine_->mutex_);
  return IsDone(ticket) && (status_.ok() || HasSettled());
}

absl::Status Group::StartAfter(CUstream_st* stream) {
  UseGpu(engine_->options_.gpu);
  RETURN_IF_ERROR(CheckNotCaptured(stream));
  const std::lock_guard<std::mutex> lock(engine_->mutex_);
  ASSIGN_OR_RETURN(const cudaEvent_t event, engine_->TakeEvent());
  after_.push_back(event);
  return CudaStatus(cudaEventRecord(event, stream), "an operation cannot start after a stream");
}

absl::Status Group::LetWait(CUstream_st* stream, Ticket ticket) {
  UseGpu(engine_->options_.gpu);
  RETURN_IF_ERROR(CheckNotCaptured(stream));
  const Time begin = Clock::now();
  std::unique_lock<std::mutex> lock(engine_->mutex_);
  while (!IsDone(ticket)) {
    Lane& lane = *lanes_[ticket.channel];
    if (ticket.number < lane.done + lane.launched) {
      return CudaStatus(cudaStreamWaitEvent(stream, lane.queue[ticket.number - lane.done].done, 0),
                        "a stream cannot wait for an operation");
    }
    Advance(lane);
    if (ticket.number < lane.done + lane.launched) continue;
    lock.unlock();
    Pause(begin);
    lock.lock();
  }
  const auto& lane = lanes_[ticket.channel];
  return lane != nullptr && lane->done > ticket.number ? absl::OkStatus() : status_;
}

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
  using Way = Lane::Way;
  if (lane.index == 0 || lane.way == Way::kOpen) return true;
  const int peer = (lane.index - 1) % size();
  const bool sends = lane.index <= size();
  if (lane.way == Way::kNone) {
    if (!lane.id_status.ok()) {
      FailIn(lane, lane.id_status);
      return false;
    }
    lane.told =
        sends ? control_->Send(lane.id.internal, sizeof(lane.id.internal), DType::kU8, peer)
              : control_->Receive(lane.id.internal, sizeof(lane.id.internal), DType::kU8, peer);
    lane.way = Way::kTold;
  }
  if (lane.way == Way::kTold) {
    if (!control_->Test(lane.told)) return false;
    absl::Status status = control_->Wait(lane.told);
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
    lane.way = Way::kConnecting;
  }
  // Check sees errors.
  if (StateOf(lane.comm) == ncclSuccess) lane.way = Way::kOpen;
  return lane.way == Way::kOpen;
}

void Group::Post(Lane& lane) {
  const bool checked = engine_->options_.check && size() > 1;
  constexpr int64_t kBytes = sizeof(RequestDescriptor);
  for (; lane.posted < lane.queue.size() && lane.posted < kTellAhead; ++lane.posted) {
    Queued& operation = lane.queue[lane.posted];
    operation.agreed = !checked;
    if (!checked) continue;
    const Operation kind = operation.request.operation;
    operation.mine = DescriptorOf(operation.request);
    operation.theirs.resize(kind == Operation::kSend      ? 0
                            : kind == Operation::kReceive ? 1
                                                          : size());
    if (kind == Operation::kSend) {
      operation.told = control_->Send(&operation.mine, kBytes, DType::kU8, operation.request.peer);
    } else if (kind == Operation::kReceive) {
      operation.told =
          control_->Receive(operation.theirs.data(), kBytes, DType::kU8, operation.request.peer);
    } else {
      operation.told = control_->AllGather(&operation.mine, operation.theirs.data(),
                                           kBytes * size(), kBytes, DType::kU8);
    }
  }
}

void Group::Agree(Lane& lane) {
  for (size_t i = 0; i < lane.posted; ++i) {
    Queued& operation = lane.queue[i];
    if (operation.agreed) continue;
    if (!control_->Test(operation.told)) return;
    if (const absl::Status status = control_->Wait(operation.told); !status.ok()) {
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
      status = CudaStatus(cudaEventRecord(*done, lane.stream), "a stream takes no event");
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
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
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
  // Whoever did not come, the other ranks can be told of by the control group.
  const double waited = std::chrono::duration<double>(now - lane.since).count();
  if (waited <= at_most + (operation.agreed ? 0 : kReasonSeconds)) return;
  const absl::string_view what = !operation.agreed    ? "not all ranks came"
                                 : lane.launched == 0 ? "NCCL did not connect the ranks"
                                                      : "NCCL did not end it";
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
  if (all_agreed || Since(lane.error_since) > kReasonSeconds) FailIn(lane, lane.error);
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

std::string Group::Place(const Lane& lane) const {
  std::string place = absl::StrCat("rank ", rank(), " of ", size(), " of group '", name(), "'");
  if (lane.queue.empty()) return place;
  absl::StrAppend(&place, ", in ", tessera::comm::Describe(lane.queue.front().request), " after ",
                  lane.done, lane.index == 0 ? " collectives" : " messages");
  return place;
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors) {
  // NCCL divides what has nothing under way.
  uint64_t issued = 0;
  {
    const std::lock_guard<std::mutex> lock(engine_->mutex_);
    if (!status_.ok()) return status_;
    issued = lanes_[0]->issued;
  }
  if (issued > 0) RETURN_IF_ERROR(Wait({0, issued - 1}));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> meeting, meeting_->Split(name, colors));
  std::unique_ptr<Communicator> control;
  if (meeting != nullptr) {
    ASSIGN_OR_RETURN(control, meeting->Split(name, std::vector<int>(meeting->size(), 0)));
  }
  bool any = false;  // has two ranks
  for (int r = 0; r < size(); ++r) {
    any = any || (colors[r] >= 0 && std::count(colors.begin(), colors.end(), colors[r]) > 1);
  }
  const bool mine = meeting != nullptr && meeting->size() > 1;
  Comm comm = mine ? std::make_shared<ncclComm_t>(nullptr) : nullptr;
  if (any) RETURN_IF_ERROR(Divide(mine ? colors[rank()] : NCCL_SPLIT_NOCOLOR, comm));
  if (meeting == nullptr) return nullptr;
  Communicator* const pointer = meeting.get();
  return std::make_unique<Group>(engine_, pointer, std::move(meeting), std::move(control),
                                 std::move(comm));
}

// Until the parent is ready again, NCCL has not said where the child is.
absl::Status Group::Divide(int color, const Comm& child) {
  UseGpu(engine_->options_.gpu);
  ncclResult_t begun = ncclSuccess;
  {
    const std::lock_guard<std::mutex> lock(engine_->mutex_);
    if (!status_.ok()) return status_;
    child_ = child != nullptr ? child : std::make_shared<ncclComm_t>(nullptr);
    begun = ncclCommSplit(*lanes_[0]->comm, color, rank(), child_.get(), nullptr);
  }
  const std::string what = absl::StrCat("NCCL cannot divide group '", name(), "'");
  absl::Status status = engine_->Await(what, meeting_, [&]() -> absl::StatusOr<bool> {
    const std::lock_guard<std::mutex> lock(engine_->mutex_);
    if (!status_.ok()) return status_;
    const bool has_begun = begun == ncclSuccess || begun == ncclInProgress;
    const Comm& parent = lanes_[0]->comm;
    ncclResult_t state = has_begun ? StateOf(parent) : begun;
    ncclComm_t comm = *parent;
    if (state == ncclSuccess && child != nullptr) {
      comm = *child;
      state = comm == nullptr ? ncclInProgress : StateOf(child);
    }
    const absl::Status result = NcclStatus(state, what, comm);
    if (result.ok()) return state == ncclSuccess;
    meeting_->Abort(result);
    return result;
  });
  const std::lock_guard<std::mutex> lock(engine_->mutex_);
  if (!status.ok()) Fail(status);
  child_ = nullptr;
  return status;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA

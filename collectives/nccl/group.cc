#ifdef TESSERA_CUDA

#include "collectives/nccl/group.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// The longest that NCCL's abort, and the end of a group, are waited for.
constexpr double kSettleSeconds = 10;
constexpr double kLeaveSeconds = 5;

// A wait spins, and then sleeps.
constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kSleep = std::chrono::microseconds(50);

void Pause(Clock::time_point begin) {
  if (Clock::now() - begin < kSpin) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
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

Group::Group(Engine* engine, Communicator* host_group,
             std::unique_ptr<Communicator> owned_host_group, std::unique_ptr<Communicator> control,
             Comm comm)
    : StreamCommunicator(host_group->name(), host_group->rank(), host_group->size()),
      engine_(engine),
      host_group_(host_group),
      owned_host_group_(std::move(owned_host_group)),
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
  MutexLock lock(&engine_->mutex_);
  while (status_.ok() && !IsIdle() && Clock::now() < deadline) {
    bool under_way = false, launching = false;
    AdvanceAll(&under_way, &launching);
    lock.Unlock();
    Pause(begin);
    lock.Lock();
  }
  if (!IsIdle()) Fail(absl::CancelledError("the group was destroyed"));
  engine_->Remove(this);
  if (status_.ok()) {
    lock.Unlock();
    Close(deadline);
    lock.Lock();
  }
  while (!HasSettled()) {
    lock.Unlock();
    Pause(begin);
    lock.Lock();
  }
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
          ? absl::UnimplementedError(absl::StrCat(Describe(request), ": NCCL rounds partial sums"))
          : CheckMemory(request);
  int index = 0;
  if (request.operation == Operation::kSend) index = 1 + request.peer;
  if (request.operation == Operation::kReceive) index = 1 + size() + request.peer;
  if (!wrong.ok()) index = 0;
  UseGpu(engine_->options_.gpu);
  if (request.operation == Operation::kSend && wrong.ok()) MakeId(index);
  const MutexLock lock(&engine_->mutex_);
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
    const MutexLock lock(&engine_->mutex_);
    if (!status_.ok() || size() == 1 || LaneOf(index).has_id) return;
  }
  ncclUniqueId id = {};
  const absl::Status status = NcclStatus(ncclGetUniqueId(&id), "NCCL cannot be reached", nullptr);
  const MutexLock lock(&engine_->mutex_);
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
  return settled_ == nullptr || settled_->load() || SecondsSince(broken_) > kSettleSeconds;
}

bool Group::IsIdle() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const std::unique_ptr<Lane>& lane) {
    return lane == nullptr || lane->queue.empty();
  });
}

absl::Status Group::Wait(Ticket ticket) {
  UseGpu(engine_->options_.gpu);
  const Time begin = Clock::now();
  MutexLock lock(&engine_->mutex_);
  while (!AdvanceTo(ticket)) {
    lock.Unlock();
    Pause(begin);
    lock.Lock();
  }
  const auto& lane = lanes_[ticket.channel];
  return lane != nullptr && lane->done > ticket.number ? absl::OkStatus() : status_;
}

bool Group::Test(Ticket ticket) {
  UseGpu(engine_->options_.gpu);
  const MutexLock lock(&engine_->mutex_);
  return AdvanceTo(ticket);
}

bool Group::AdvanceTo(Ticket ticket) {
  if (!IsDone(ticket)) Advance(*lanes_[ticket.channel]);
  return IsDone(ticket) && (status_.ok() || HasSettled());
}

bool Group::HasEnded(Ticket ticket) const {
  const MutexLock lock(&engine_->mutex_);
  return IsDone(ticket) && (status_.ok() || HasSettled());
}

absl::Status Group::StartAfter(CUstream_st* stream) {
  UseGpu(engine_->options_.gpu);
  RETURN_IF_ERROR(CheckNotCaptured(stream));
  const MutexLock lock(&engine_->mutex_);
  ASSIGN_OR_RETURN(const cudaEvent_t event, engine_->TakeEvent());
  after_.push_back(event);
  return CudaStatus(cudaEventRecord(event, stream), "an operation cannot start after a stream");
}

absl::Status Group::LetWait(CUstream_st* stream, Ticket ticket) {
  UseGpu(engine_->options_.gpu);
  RETURN_IF_ERROR(CheckNotCaptured(stream));
  const Time begin = Clock::now();
  MutexLock lock(&engine_->mutex_);
  while (!IsDone(ticket)) {
    Lane& lane = *lanes_[ticket.channel];
    if (ticket.number < lane.done + lane.launched) {
      return CudaStatus(cudaStreamWaitEvent(stream, lane.queue[ticket.number - lane.done].done, 0),
                        "a stream cannot wait for an operation");
    }
    Advance(lane);
    if (ticket.number < lane.done + lane.launched) continue;
    lock.Unlock();
    Pause(begin);
    lock.Lock();
  }
  const auto& lane = lanes_[ticket.channel];
  return lane != nullptr && lane->done > ticket.number ? absl::OkStatus() : status_;
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
  // NCCL splits a communicator only if it has no operation in flight.
  uint64_t issued = 0;
  {
    const MutexLock lock(&engine_->mutex_);
    if (!status_.ok()) return status_;
    issued = lanes_[0]->issued;
  }
  if (issued > 0) RETURN_IF_ERROR(Wait({0, issued - 1}));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host_group, host_group_->Split(name, colors));
  std::unique_ptr<Communicator> control;
  if (host_group != nullptr) {
    ASSIGN_OR_RETURN(control, host_group->Split(name, std::vector<int>(host_group->size(), 0)));
  }
  bool any = false;  // whether any new group has two ranks
  for (int r = 0; r < size(); ++r) {
    any = any || (colors[r] >= 0 && std::count(colors.begin(), colors.end(), colors[r]) > 1);
  }
  const bool mine = host_group != nullptr && host_group->size() > 1;
  Comm comm = mine ? std::make_shared<ncclComm_t>(nullptr) : nullptr;
  if (any) RETURN_IF_ERROR(SplitComm(mine ? colors[rank()] : NCCL_SPLIT_NOCOLOR, comm));
  if (host_group == nullptr) return nullptr;
  Communicator* const pointer = host_group.get();
  return std::make_unique<Group>(engine_, pointer, std::move(host_group), std::move(control),
                                 std::move(comm));
}

// NCCL writes the child's address before the parent is ready again.
absl::Status Group::SplitComm(int color, const Comm& child) {
  UseGpu(engine_->options_.gpu);
  ncclResult_t begun = ncclSuccess;
  {
    const MutexLock lock(&engine_->mutex_);
    if (!status_.ok()) return status_;
    child_ = child != nullptr ? child : std::make_shared<ncclComm_t>(nullptr);
    begun = ncclCommSplit(*lanes_[0]->comm, color, rank(), child_.get(), nullptr);
  }
  const std::string what = absl::StrCat("NCCL cannot split group '", name(), "'");
  absl::Status status = engine_->Await(what, host_group_, [&]() -> absl::StatusOr<bool> {
    const MutexLock lock(&engine_->mutex_);
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
    host_group_->Abort(result);
    return result;
  });
  const MutexLock lock(&engine_->mutex_);
  if (!status.ok()) Fail(status);
  child_ = nullptr;
  return status;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA

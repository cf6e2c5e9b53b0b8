#ifdef TESSERA_CUDA

#include "collectives/nccl/group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// The longest waits for NCCL's abort, and for the end of a group.
constexpr auto kSettleTime = std::chrono::seconds(10);
constexpr double kLeaveSeconds = 5;

// The interval of polls of states that have no event.
constexpr auto kTick = std::chrono::microseconds(50);

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

Group::Group(GpuDevice* device, Communicator* host_group,
             std::unique_ptr<Communicator> owned_host_group, std::unique_ptr<Communicator> control,
             Comm comm)
    : QueuedGroup(device->progress(), host_group->name(), host_group->rank(), host_group->size(),
                  device->options().timeout_seconds),
      device_(device),
      scratch_(device->NextScratch()),
      host_group_(host_group),
      owned_host_group_(std::move(owned_host_group)),
      lanes_(1 + 2 * size()),
      launched_(new std::atomic<uint64_t>[1 + 2 * size()]()),
      control_(std::move(control)) {
  LaneOf(0).comm = std::move(comm);
  engine_->Add(this);
}

Group::~Group() {
  const std::chrono::duration<double> at_most(std::min(kLeaveSeconds, timeout_seconds()));
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(at_most);
  engine_->WaitUntil([&] { return !HasUnended() || Clock::now() > deadline; });
  Leave();
  UseGpu(device_->options().gpu);
  if (is_ok()) Close(deadline);
  while (!HasSettled()) std::this_thread::sleep_for(kTick);
  const bool has_settled = settled_ == nullptr || settled_->load();
  if (!has_settled) device_->KeepMemory();
  const auto return_all = [this](const Events& events) {
    for (cudaEvent_t event : events) device_->ReturnEvent(event);
  };
  return_all(after_);
  for (const auto& lane : lanes_) {
    if (lane == nullptr) continue;
    for (const InFlight& operation : lane->operations) {
      device_->ReturnEvent(operation.done);
      return_all(operation.after);
    }
    for (const auto& [number, events] : lane->after) return_all(events);
    if (has_settled && lane->stream != nullptr) cudaStreamDestroy(lane->stream);
  }
}

void Group::Close(Clock::time_point deadline) {
  std::vector<Comm> open, stuck;
  for (const auto& lane : lanes_) {
    if (lane == nullptr || lane->comm == nullptr) continue;
    device_->Deregister(lane->comm, /*is_aborted=*/false);
    ncclCommFinalize(*lane->comm);
    open.push_back(std::move(lane->comm));
  }
  for (Comm& comm : open) {
    while (StateOf(comm) == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::sleep_for(kTick);
    }
    if (StateOf(comm) == ncclSuccess) {
      ncclCommDestroy(*comm);
    } else {
      stuck.push_back(std::move(comm));
    }
  }
  if (stuck.empty()) return;
  aborted_ = Clock::now();
  settled_ = AbortComms(std::move(stuck), nullptr, device_->options().gpu);
}

Group::Lane& Group::LaneOf(int channel) {
  if (lanes_[channel] == nullptr) lanes_[channel] = std::make_unique<Lane>(channel);
  return *lanes_[channel];
}

Ticket Group::Start(const Request& request, const absl::Status& status) {
  if (!status.ok()) return QueuedGroup::Start(request, status);  // may be on any thread
  if (request.partial) {
    return QueuedGroup::Start(request, absl::UnimplementedError(absl::StrCat(
                                           Describe(request), ": NCCL rounds partial sums")));
  }
  UseGpu(device_->options().gpu);
  const absl::Status memory = CheckMemory(request);
  const int channel = ChannelOf(request);
  if (request.operation == Operation::kSend && memory.ok()) MakeId(channel);
  if (!after_.empty()) {
    const MutexLock lock(&mutex_);
    LaneOf(channel).after[Issued(channel)].swap(after_);
  }
  return QueuedGroup::Start(request, memory);
}

void Group::MakeId(int channel) {
  {
    const MutexLock lock(&mutex_);
    if (!is_ok() || size() == 1 || LaneOf(channel).has_id) return;
  }
  ncclUniqueId id = {};
  const absl::Status status = NcclStatus(ncclGetUniqueId(&id), "NCCL cannot be reached", nullptr);
  const MutexLock lock(&mutex_);
  Lane& lane = LaneOf(channel);
  lane.id = id;
  lane.id_status = status;
  lane.has_id = true;
}

bool Group::HasSettled() const {
  if (settled_ == nullptr || settled_->load()) return true;
  return Clock::now() - aborted_ > kSettleTime;
}

bool Group::HasEnded(Ticket ticket) const {
  return QueuedGroup::HasEnded(ticket) && (Done(ticket.channel) > ticket.number || HasSettled());
}

absl::Status Group::StartAfter(CUstream_st* stream) {
  UseGpu(device_->options().gpu);
  RETURN_IF_ERROR(CheckNotCaptured(stream));
  ASSIGN_OR_RETURN(const cudaEvent_t event, device_->TakeEvent());
  after_.push_back(event);
  return CudaStatus(cudaEventRecord(event, stream), "an operation cannot start after a stream");
}

absl::Status Group::LetWait(CUstream_st* stream, Ticket ticket) {
  UseGpu(device_->options().gpu);
  RETURN_IF_ERROR(CheckNotCaptured(stream));
  const int channel = ticket.channel;
  engine_->WaitUntil(
      [&] { return launched_[channel] > ticket.number || QueuedGroup::HasEnded(ticket); });
  const MutexLock lock(&mutex_);
  if (Done(channel) > ticket.number) return absl::OkStatus();
  if (!is_ok()) return status();
  const InFlight& operation = LaneOf(channel).operations[ticket.number - Done(channel)];
  return CudaStatus(cudaStreamWaitEvent(stream, operation.done, 0),
                    "a stream cannot wait for an operation");
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors,
                                                               Contents /*contents*/) {
  // NCCL splits a communicator only if it has no operation in flight.
  {
    const MutexLock lock(&mutex_);
    if (!is_ok()) return status();
  }
  if (Issued(0) > 0) RETURN_IF_ERROR(Wait({0, Issued(0) - 1}));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host_group,
                   host_group_->Split(name, colors, Contents::kControl));
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
  // No rank may use the new group before all have it: a failure in it would end operations that
  // other ranks still run on its parts.
  RETURN_IF_ERROR(host_group_->Wait(host_group_->Barrier()));
  if (host_group == nullptr) return nullptr;
  Communicator* const pointer = host_group.get();
  return std::make_unique<Group>(device_, pointer, std::move(host_group), std::move(control),
                                 std::move(comm));
}

// NCCL writes the child's address before the parent is ready again.
absl::Status Group::SplitComm(int color, const Comm& child) {
  UseGpu(device_->options().gpu);
  ncclResult_t begun = ncclSuccess;
  {
    const MutexLock lock(&mutex_);
    if (!is_ok()) return status();
    child_ = child != nullptr ? child : std::make_shared<ncclComm_t>(nullptr);
    begun = ncclCommSplit(*lanes_[0]->comm, color, rank(), child_.get(), nullptr);
  }
  const std::string what = absl::StrCat("NCCL cannot split group '", name(), "'");
  absl::Status status = device_->Await(what, host_group_, [&]() -> absl::StatusOr<bool> {
    const MutexLock lock(&mutex_);
    if (!is_ok()) return this->status();
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
  const MutexLock lock(&mutex_);
  if (!status.ok()) Fail(status);
  child_ = nullptr;
  return status;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA

#include "collectives/shm/group.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/host_identity.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {
namespace {

// The longest wait for a peer that is writing into this rank's buffers when the group fails. The
// peer finishes its piece and then finds that it may not write another. A peer that was stopped at
// that moment writes the rest of its piece when it is continued.
constexpr auto kWriterTime = std::chrono::seconds(1);

}  // namespace

Group::Group(SharedMemory* memory, ProgressEngine* engine, std::string name, int rank,
             std::vector<int> ranks, std::vector<std::shared_ptr<const Segment>> members,
             double timeout_seconds)
    : QueuedGroup(engine, std::move(name), rank, static_cast<int>(ranks.size()), timeout_seconds),
      memory_(memory),
      ranks_(std::move(ranks)),
      segments_(std::move(members)),
      messages_(1 + 2 * ranks_.size()),
      buffers_(ranks_.size()),
      descriptors_(ranks_.size()),
      inputs_(ranks_.size()),
      outputs_(ranks_.size()) {
  for (const auto& segment : segments_) {
    members_.push_back(reinterpret_cast<Member*>(segment->data()));
  }
  engine_->Add(this);
}

Group::~Group() {
  Leave();
  Mine().has_left.store(1);
}

bool Group::IsSmall(const Request& request) const {
  const int64_t elements =
      request.operation == Operation::kAllGather ? request.part : request.count;
  return elements * SizeOf(request.dtype) <= kSlotBytes;
}

bool Group::IsPosted(int channel) const {
  return channel == 0 ? collective_.is_posted : messages_[channel].is_posted;
}

bool Group::AdvanceFirst(int channel) {
  if (channel == 0) return AdvanceCollective();
  return IsToPeer(channel) ? AdvanceSend(PeerOf(channel)) : AdvanceReceive(PeerOf(channel));
}

bool Group::AdvanceCollective() {
  Collective& collective = collective_;
  if (!collective.is_posted) return Post();
  if (!collective.is_agreed) return Agree();
  if (collective.awaits_phase) {
    if (!HaveAllEndedPhase()) return false;
    collective.awaits_phase = false;
  }
  switch (Step()) {
    case Next::kStep:
      return true;
    case Next::kPhase:
      collective.awaits_phase = true;
      collective.arrived = 0;
      SlotOf(rank()).phase.store(++collective.phase);
      if (HaveAllEndedPhase()) RingAll();
      return true;
    case Next::kEnd:
      EndCollective();
      return true;
  }
  return true;
}

// Peers wait for all ranks, so only the last one to arrive wakes them. Each rank first stores its
// own arrival and then reads those of the others, in one total order (sequential consistency), so
// the last one sees that all have arrived.
bool Group::HaveAllPosted() {
  int& arrived = collective_.arrived;
  while (arrived < size() && HasPosted(arrived)) ++arrived;
  return arrived == size();
}

bool Group::HaveAllEndedPhase() {
  int& arrived = collective_.arrived;
  while (arrived < size() && HasEndedPhase(arrived)) ++arrived;
  return arrived == size();
}

void Group::EndCollective() {
  const uint64_t next = Done(0) + 1;
  Mine().completed.store(next);
  collective_ = Collective();
  Complete(0);
  // The last rank to complete the operation wakes those that wait for its slots.
  if (!HasSlotFor(next + kSlots - 1)) return;
  for (int r = 0; r < size(); ++r) {
    if (r != rank() && members_[r]->awaits_slot.load() != 0) Ring(r);
  }
}

bool Group::HasPosted(int rank) const { return SlotOf(rank).posted.load() == Done(0) + 1; }

bool Group::HasEndedPhase(int rank) const { return SlotOf(rank).phase.load() >= collective_.phase; }

void Group::Fill(const Request& request, const void* data, int64_t bytes, uint64_t number,
                 Slot& slot) {
  int64_t input = 0, output = 0;
  if (!IsSmall(request)) {
    const int64_t input_bytes = InputElements(request, rank()) * SizeOf(request.dtype);
    if (input_bytes > 0) input = memory_->Locate(request.input, input_bytes);
    if (request.operation == Operation::kAllReduce) {
      output = memory_->Locate(request.output, input_bytes);
    }
  }
  slot.request = {DescriptorOf(request), input, output};
  Copy(slot.data, data, bytes);
  slot.phase.store(0, std::memory_order_relaxed);
  slot.posted.store(number + 1);
}

// Returns whether no peer still reads the slot of operation `number` for an earlier one.
bool Group::HasSlotFor(uint64_t number) const {
  return std::all_of(members_.begin(), members_.end(), [number](const Member* member) {
    return member->completed.load() + kSlots > number;
  });
}

bool Group::Post() {
  const uint64_t number = Done(0);
  if (!HasSlotFor(number)) {
    // A peer that completes an operation after the second check sees that this rank waits.
    Mine().awaits_slot.store(1);
    if (!HasSlotFor(number)) return false;
  }
  Mine().awaits_slot.store(0, std::memory_order_relaxed);
  const Request& request = First(0);
  const int64_t bytes =
      IsSmall(request) ? InputElements(request, rank()) * SizeOf(request.dtype) : 0;
  Fill(request, request.input, bytes, number, SlotOf(rank()));
  collective_.is_posted = true;
  if (HaveAllPosted()) RingAll();
  return true;
}

bool Group::Agree() {
  const Request& request = First(0);
  if (!HaveAllPosted()) return false;
  bool direct = true;
  for (int r = 0; r < size(); ++r) {
    const PostedRequest& posted = SlotOf(r).request;
    descriptors_[r] = posted.descriptor;
    direct = direct && posted.input >= 0 && posted.output >= 0;
  }
  absl::Status agreement = CompareRequests(name(), Done(0) + 1, descriptors_);
  if (!agreement.ok()) {
    Fail(std::move(agreement));
    return true;
  }
  collective_.is_agreed = true;
  collective_.algorithm = IsSmall(request) ? Algorithm::kEager
                          : direct         ? Algorithm::kDirect
                                           : Algorithm::kStaged;
  if (collective_.algorithm == Algorithm::kDirect) FindBuffers();
  CountSent(request.operation, BytesSent(request, collective_.algorithm));
  if (collective_.algorithm == Algorithm::kStaged) {
    // Each rank copies its input to its area and its output from an area.
    const int64_t copied = InputElements(request, rank()) + OutputElements(request, rank());
    CountStaged(request.operation, copied * SizeOf(request.dtype));
  }
  return true;
}

// A slot holds a piece of the message, or the location of its data. A send ends when all of its
// data is in slots, or when the peer has read the data at its location.
bool Group::AdvanceSend(int peer) {
  const int channel = ChannelTo(peer);
  Messages& messages = messages_[channel];
  const Request& request = First(channel);
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const bool direct = !IsSmall(request) && memory_->Locate(request.input, bytes) >= 0;
  const uint64_t taken = members_[peer]->pair(rank()).taken.load();
  const auto complete = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    messages.position = 0;
    messages.is_posted = false;
    Complete(channel);
  };
  if (messages.is_posted) {  // its location is posted
    if (taken < messages.slots) return false;
    complete();
    return true;
  }
  if (taken + kSlots <= messages.slots) return false;
  const int64_t piece_bytes = direct ? 0 : std::min(kSlotBytes, bytes - messages.position);
  Fill(request, Bytes(request.input, messages.position), piece_bytes, messages.slots,
       Mine().pair(peer).slots[messages.slots % kSlots]);
  ++messages.slots;
  if (messages.position == 0) {
    CountSent(Operation::kSend, bytes);
    if (!direct && !IsSmall(request)) CountStaged(Operation::kSend, bytes);
  }
  messages.position += piece_bytes;
  if (direct) messages.is_posted = true;
  if (!direct && messages.position == bytes) complete();
  Ring(peer);
  return true;
}

bool Group::AdvanceReceive(int peer) {
  const int channel = ChannelFrom(peer);
  Messages& messages = messages_[channel];
  const Request& request = First(channel);
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const Slot& slot = members_[peer]->pair(rank()).slots[messages.slots % kSlots];
  if (slot.posted.load() != messages.slots + 1) return false;
  const PostedRequest& sent = slot.request;
  if (sent.descriptor.count != request.count || sent.descriptor.dtype != request.dtype) {
    Fail(Disagreement(name(), 0, {sent.descriptor, DescriptorOf(request)}, {peer, rank()}));
    return true;
  }
  const bool direct = !IsSmall(request) && sent.input >= 0;
  const char* const from =
      direct ? memory_->Find(ranks_[peer], sent.input) + messages.position : slot.data;
  const int64_t piece_bytes =
      std::min(direct ? kPieceBytes : kSlotBytes, bytes - messages.position);
  Copy(Bytes(request.output, messages.position), from, piece_bytes);
  // A sender that has failed may have changed the data during the copy.
  if (direct && members_[peer]->failure.load() != FailureState::kNone) return false;
  messages.position += piece_bytes;
  if (!direct || messages.position == bytes) {
    Mine().pair(peer).taken.store(++messages.slots);
    Ring(peer);
  }
  if (messages.position == bytes) {
    messages.position = 0;
    Complete(channel);
  }
  return true;
}

void Group::RingAll() const {
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) Ring(r);
  }
}

void Group::OnFailure(const absl::Status& why, bool is_first) {
  Member& mine = Mine();
  const std::string text = std::string(why.message()).substr(0, sizeof(mine.reason) - 1);
  std::memcpy(mine.reason, text.c_str(), text.size() + 1);
  mine.failure.store(is_first ? FailureState::kOwn : FailureState::kReported);
  RingAll();
  WaitForWriters();
}

// Waits, for at most kWriterTime, until no peer writes into this rank's buffers, which then belong
// to the caller again.
void Group::WaitForWriters() const {
  const auto end = std::chrono::steady_clock::now() + kWriterTime;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    while (members_[r]->is_writing.load() != 0 && memory_->IsAlive(ranks_[r]) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
  }
}

std::string Group::RankName(int rank) const {
  const int job_rank = memory_->JobRank(ranks_[rank]);
  return absl::StrCat("rank ", rank, " (",
                      job_rank == rank ? "" : absl::StrCat(job_rank, " of the job, "), "process ",
                      segments_[rank]->address().process, " on ", HostName(), ", after ",
                      members_[rank]->completed.load(), " collectives)");
}

int Group::WaitsFor(int channel, int rank) const {
  if (channel > 0) return rank == PeerOf(channel) ? 1 : 0;
  const uint64_t number = Done(0);
  if (!collective_.is_posted) {
    return members_[rank]->completed.load() + kSlots <= number ? 1 : 0;
  }
  return HasPosted(rank) && HasEndedPhase(rank) ? 0 : 1;
}

bool Group::HasFailedMember() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member* member) {
    return member->failure.load() != FailureState::kNone;
  });
}

void Group::CheckFailures() {
  for (int r = 0; r < size(); ++r) {
    if (r == rank() || members_[r]->failure.load() != FailureState::kOwn) continue;
    const std::string reason = members_[r]->reason;
    return Fail(absl::AbortedError(absl::StrCat(RankName(r), " aborted: ", reason)),
                /*is_first=*/false);
  }
}

absl::optional<QueuedGroup::Departure> Group::DepartureOf(int rank) const {
  if (members_[rank]->has_left.load() != 0) return Departure{"has left", ""};
  if (memory_->IsAlive(ranks_[rank])) return absl::nullopt;
  return Departure{"died", ""};
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors,
                                                               Contents /*contents*/) {
  SplitMembers members = MembersOf(colors, rank());
  ASSIGN_OR_RETURN(SharedMemory::Segments all,
                   SharedMemory::Share(Member::SegmentBytes(static_cast<int>(members.ranks.size())),
                                       ExchangeOver(this), name));
  if (colors[rank()] < 0) return nullptr;
  std::vector<int> ranks;
  std::vector<std::shared_ptr<const Segment>> segments;
  for (int r : members.ranks) {
    ranks.push_back(ranks_[r]);
    segments.push_back(std::move(all[r]));
  }
  return std::make_unique<Group>(memory_, engine_, std::string(name), members.position,
                                 std::move(ranks), std::move(segments), timeout_seconds());
}

}  // namespace tessera::comm::shm

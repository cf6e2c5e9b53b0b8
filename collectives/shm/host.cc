#include "collectives/shm/host.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/shm/group.h"
#include "collectives/spin.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {
namespace {

// Sleepers wake by themselves to see whether their peers are alive.
constexpr int64_t kSleepNanoseconds = 100'000'000;

// "process descriptor bytes", or "error: ..."
std::string ToText(const absl::StatusOr<std::shared_ptr<const Segment>>& segment) {
  if (!segment.ok()) return absl::StrCat("error: ", segment.status().message());
  const SegmentAddress& address = (*segment)->address();
  return absl::StrCat(address.process, " ", address.descriptor, " ", address.bytes);
}

absl::StatusOr<std::shared_ptr<const Segment>> OpenFromText(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "error: ")) {
    return absl::ResourceExhaustedError(std::string(text));
  }
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  SegmentAddress address;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &address.process) ||
      !absl::SimpleAtoi(words[1], &address.descriptor) ||
      !absl::SimpleAtoi(words[2], &address.bytes)) {
    return absl::InternalError(absl::StrCat("'", text, "' is no address of shared memory"));
  }
  return Segment::Open(address);
}

}  // namespace

absl::StatusOr<Host::Region> Host::Share(const absl::StatusOr<std::shared_ptr<const Segment>>& mine,
                                         const Exchange& exchange, absl::string_view key) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                   exchange(absl::StrCat(key, "/address"), ToText(mine)));
  Region region;
  std::string failure;
  for (size_t rank = 0; rank < addresses.size() && failure.empty(); ++rank) {
    auto segment = OpenFromText(addresses[rank]);
    if (segment.ok()) {
      region.segments.push_back(*std::move(segment));
    } else {
      failure = absl::StrCat("rank ", rank, ": ", segment.status().message());
    }
  }
  // Nobody goes on before all have opened all, and if one cannot, none does.
  ASSIGN_OR_RETURN(const std::vector<std::string> failures,
                   exchange(absl::StrCat(key, "/opened"), failure));
  for (const std::string& each : failures) {
    if (!each.empty()) return absl::ResourceExhaustedError(each);
  }
  return region;
}

Host::Host(int rank, int size, const HostOptions& options)
    : rank_(rank), size_(size), options_(options) {}

absl::StatusOr<std::unique_ptr<Host>> Host::Create(int rank, int size, const Exchange& exchange,
                                                   const HostOptions& options) {
  std::unique_ptr<Host> host(new Host(rank, size, options));
  ASSIGN_OR_RETURN(host->control_, Share(Segment::Create(sizeof(Doorbell)), exchange, "control"));
  ASSIGN_OR_RETURN(host->world_memory_,
                   Share(Segment::Create(Member::Bytes(size)), exchange, "world"));
  if (size > 1) {
    host->thread_ = std::make_unique<ProgressThread>(
        [host = host.get()] { return host->AdvanceUnlessCalled(); });
  }
  return host;
}

Host::~Host() {
  if (thread_ == nullptr) return;
  thread_->Stop();
  BellOf(rank_).sleepers.fetch_add(1);
  BellOf(rank_).Ring();
  BellOf(rank_).sleepers.fetch_sub(1);
  thread_->Join();
}

absl::StatusOr<std::unique_ptr<Communicator>> Host::World(absl::string_view name) {
  if (world_memory_.segments.empty()) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) ranks.push_back(rank);
  return std::make_unique<Group>(this, std::string(name), rank_, ranks,
                                 std::move(world_memory_.segments));
}

absl::StatusOr<char*> Host::Allocate(Communicator& world, int64_t bytes) {
  ASSIGN_OR_RETURN(Region region, Share(Segment::Create(bytes), ExchangeOver(&world), "memory"));
  const std::lock_guard<std::mutex> lock(mutex_);
  regions_.push_back(std::move(region));
  return regions_.back().segments[rank_]->data();
}

int64_t Host::Locate(const void* data, int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  for (size_t region = 0; region < regions_.size(); ++region) {
    const Segment& segment = *regions_[region].segments[rank_];
    if (begin >= segment.data() && begin + bytes <= segment.data() + segment.bytes()) {
      return (static_cast<int64_t>(region) << 48) | (begin - segment.data());
    }
  }
  return -1;
}

char* Host::Find(int rank, int64_t location) const {
  const size_t region = static_cast<size_t>(location >> 48);
  TESSERA_CHECK(region < regions_.size()) << "a buffer lies in region " << region;
  return regions_[region].segments[rank]->data() + (location & ((int64_t{1} << 48) - 1));
}

Doorbell& Host::BellOf(int rank) const {
  return *reinterpret_cast<Doorbell*>(control_.segments[rank]->data());
}

void Host::Add(Group* group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back(group);
}

void Host::Remove(Group* group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.erase(std::find(groups_.begin(), groups_.end(), group));
}

bool Host::AdvanceAll() {
  bool moved = false;
  for (Group* group : groups_) moved = group->Advance() || moved;
  return moved;
}

bool Host::AnyNeedsThread() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group* group) { return group->NeedsThread(); });
}

void Host::CheckAll() {
  const auto now = std::chrono::steady_clock::now();
  for (Group* group : groups_) group->Check(now);
}

bool Host::SleepUnless(const std::function<bool()>& done) {
  Doorbell& bell = BellOf(rank_);
  bell.sleepers.fetch_add(1);
  const uint32_t seen = bell.rings.load();
  bool moved;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    moved = AdvanceAll();
    if (!moved) CheckAll();
    moved = moved || done();
  }
  if (!moved) bell.Sleep(seen, kSleepNanoseconds);
  bell.sleepers.fetch_sub(1);
  return moved;
}

void Host::WaitUntil(const std::function<bool()>& done) {
  ++callers_;
  for (Spin spin;;) {
    bool moved;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      moved = AdvanceAll();
      if (done()) {
        if (--callers_ == 0 && AnyNeedsThread()) WakeThread();
        return;
      }
    }
    if (!moved && spin.IsOver()) moved = SleepUnless(done);
    if (moved) spin.Restart();
  }
}

void Host::WakeThread() {
  if (callers_ > 0) return;
  thread_->Wake(std::any_of(groups_.begin(), groups_.end(),
                            [](const Group* group) { return group->HasLarge(); }));
}

bool Host::AdvanceUnlessCalled() {
  const auto leave = [this] { return thread_->is_stopped() || callers_ > 0 || !AnyNeedsThread(); };
  for (bool was_needed = false;; was_needed = true) {
    // Before it waits for the mutex: else a caller would hand that over, and be woken for it again,
    // at each piece of an operation.
    if (callers_ > 0) return true;
    std::unique_lock<std::mutex> lock(mutex_);
    if (leave()) return was_needed;
    const bool moved = AdvanceAll();
    lock.unlock();
    if (!moved) SleepUnless(leave);
  }
}

}  // namespace tessera::comm::shm

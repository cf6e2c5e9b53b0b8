#include "collectives/shm/shared_memory.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPageBytes = 4096;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Returns "PROCESS DESCRIPTOR BYTES" of a segment, or "error: ...", for OpenFromText on a peer.
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

// Opens the segments of all ranks. Collective: if one rank cannot, all ranks get its error.
// Messages name rank r by names[r], if there are names.
absl::StatusOr<SharedMemory::Segments> OpenAll(
    const absl::StatusOr<std::shared_ptr<const Segment>>& mine, const Exchange& exchange,
    absl::string_view key, absl::Span<const int> names = {}) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                   exchange(absl::StrCat(key, "/address"), ToText(mine)));
  SharedMemory::Segments segments;
  std::string failure;
  for (size_t rank = 0; rank < addresses.size() && failure.empty(); ++rank) {
    auto segment = OpenFromText(addresses[rank]);
    if (segment.ok()) {
      segments.push_back(*std::move(segment));
    } else {
      failure = absl::StrCat("rank ", names.empty() ? rank : names[rank], ": ",
                             segment.status().message());
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> failures,
                   exchange(absl::StrCat(key, "/opened"), failure));
  for (const std::string& rank_failure : failures) {
    if (!rank_failure.empty()) return absl::ResourceExhaustedError(rank_failure);
  }
  return segments;
}

void CloseDescriptors(const SharedMemory::Segments& segments) {
  for (const auto& segment : segments) segment->CloseDescriptor();
}

}  // namespace

// A futex in shared memory, initially zero, on which a rank sleeps.
struct alignas(64) SharedMemory::Doorbell {
  std::atomic<uint32_t> rings;     // the futex: raised by each ring while a thread sleeps
  std::atomic<uint32_t> sleepers;  // threads between PrepareWait and the end of their wait
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

absl::StatusOr<SharedMemory::Segments> SharedMemory::Share(int64_t bytes, const Exchange& exchange,
                                                           absl::string_view key) {
  ASSIGN_OR_RETURN(Segments segments, OpenAll(Segment::Create(bytes), exchange, key));
  // Every rank has opened all segments, and a mapping needs no descriptor.
  CloseDescriptors(segments);
  return segments;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(int rank,
                                                                   const Exchange& exchange,
                                                                   SharedMemoryOptions options) {
  std::unique_ptr<SharedMemory> memory(new SharedMemory(rank, std::move(options)));
  // The descriptors of these segments stay open: their locks show whether a peer is alive.
  ASSIGN_OR_RETURN(memory->control_,
                   OpenAll(Segment::Create(sizeof(Doorbell)), exchange, "control"));
  return memory;
}

std::string SharedMemory::NextKey() {
  const MutexLock lock(&mutex_);
  return absl::StrCat("memory", exchanges_++);
}

absl::StatusOr<char*> SharedMemory::Allocate(int64_t bytes, const Exchange& exchange) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  const bool fits = bytes < INT64_MAX - kPageBytes;
  const int64_t rounded = RoundUp(fits ? std::max<int64_t>(bytes, 1) : 1, kAlignment);
  const int64_t reserved = options_.guarded ? RoundUp(rounded, kPageBytes) : rounded;
  const auto mine = Segment::Create(fits ? reserved : bytes);
  const std::string key = NextKey();
  ASSIGN_OR_RETURN(Segments segments, OpenAll(mine, exchange, key, options_.job_ranks));
  char* const data = segments[rank_]->data() + reserved - rounded;
  CloseDescriptors(segments);
  {
    const MutexLock lock(&mutex_);
    const auto free = std::find_if(regions_.begin(), regions_.end(),
                                   [](const Region& region) { return region.segments.empty(); });
    Region& region = free != regions_.end() ? *free : regions_.emplace_back();
    region = {std::move(segments), data};
  }
  // No rank may use the buffer before all have mapped it, because another thread may advance a
  // peer's operation.
  RETURN_IF_ERROR(exchange(absl::StrCat(key, "/published"), "").status());
  return data;
}

absl::Status SharedMemory::Free(char* data, const Exchange& exchange) {
  int index = -1;
  {
    const MutexLock lock(&mutex_);
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (!regions_[i].segments.empty() && regions_[i].data == data) index = static_cast<int>(i);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> indices,
                   exchange(absl::StrCat(NextKey(), "/free"), absl::StrCat(index)));
  for (const std::string& rank_index : indices) {
    if (index >= 0 && rank_index == indices[0]) continue;
    return absl::InvalidArgumentError(
        "the ranks do not free the memory of one call of Allocate, or it was freed before");
  }
  const MutexLock lock(&mutex_);
  regions_[index] = Region();
  return absl::OkStatus();
}

int64_t SharedMemory::Locate(const void* data, int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  const MutexLock lock(&mutex_);
  for (size_t region = 0; region < regions_.size(); ++region) {
    if (regions_[region].segments.empty()) continue;
    const Segment& segment = *regions_[region].segments[rank_];
    if (begin >= segment.data() && begin + bytes <= segment.data() + segment.bytes()) {
      return (static_cast<int64_t>(region) << 48) | (begin - segment.data());
    }
  }
  return -1;
}

char* SharedMemory::Find(int rank, int64_t location) const {
  const size_t region = static_cast<size_t>(location >> 48);
  const MutexLock lock(&mutex_);
  TESSERA_CHECK(region < regions_.size() && !regions_[region].segments.empty())
      << "a buffer is in region " << region;
  return regions_[region].segments[rank]->data() + (location & ((int64_t{1} << 48) - 1));
}

SharedMemory::Doorbell& SharedMemory::BellOf(int rank) const {
  return *reinterpret_cast<Doorbell*>(control_[rank]->data());
}

// With PrepareWait, an eventcount. The sleeper counts itself and reads `rings`, and only then looks
// for work; the waker stores its change, and only then reads `sleepers`. In the one total order of
// these accesses (sequential consistency), either the waker finds the sleeper and raises `rings`,
// or the change comes first and the sleeper finds it.
void SharedMemory::Ring(int rank) const {
  Doorbell& bell = BellOf(rank);
  if (bell.sleepers.load() == 0) return;
  bell.rings.fetch_add(1);
  syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedMemory::PrepareWait(bool /*in_background*/) {
  Doorbell& bell = BellOf(rank_);
  bell.sleepers.fetch_add(1);
  rings_seen_ = bell.rings.load();
}

void SharedMemory::CommitWait(std::chrono::nanoseconds at_most) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec time = {static_cast<time_t>(at_most.count() / kSecond),
                         static_cast<decltype(timespec::tv_nsec)>(at_most.count() % kSecond)};
  // Returns at once if `rings` has been raised since PrepareWait.
  syscall(SYS_futex, &BellOf(rank_).rings, FUTEX_WAIT, rings_seen_, &time, nullptr, 0);
  BellOf(rank_).sleepers.fetch_sub(1);
}

void SharedMemory::CancelWait() { BellOf(rank_).sleepers.fetch_sub(1); }

}  // namespace tessera::comm::shm

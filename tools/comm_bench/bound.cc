#include "tools/comm_bench/bound.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/types/span.h"

namespace tessera::comm {
namespace {

constexpr int64_t kBytes = int64_t{64} << 20;

}  // namespace

double BytesMoved(Operation operation, int64_t bytes, int ranks, bool in_place) {
  const auto whole = static_cast<double>(bytes);
  const double part = whole / ranks;
  switch (operation) {
    case Operation::kAllReduce:
      return 2 * whole * ranks;
    case Operation::kReduceScatter:
      return whole * ranks + whole;
    case Operation::kAllGather:
      return 2 * ranks * part * (in_place ? ranks - 1 : ranks);
    case Operation::kAllToAll:
    case Operation::kSend:
    case Operation::kReceive:
      return 2 * whole * ranks;
    case Operation::kBroadcast:
      return whole + whole * (in_place ? ranks - 1 : ranks);
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

absl::StatusOr<MemoryPass> MemoryPass::Create(Communicator& group) {
  void* const data =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "no memory to find the bound of memory with");
  }
  madvise(data, kBytes, MADV_HUGEPAGE);
  std::memset(data, 0, kBytes);  // allocates the pages
  return MemoryPass(group, Values(static_cast<float*>(data), [](float* p) { munmap(p, kBytes); }));
}

absl::Status MemoryPass::Run() {
  // The loop interleaves four pages, a cache line of each: prefetchers stop at page boundaries, so
  // one page after another took 1.3 to 1.4 times as long on an Intel Xeon.
  constexpr int64_t kLine = 64 / sizeof(float), kPage = 4096 / sizeof(float), kPages = 4;
  for (float* pages = values_.get(); pages < values_.get() + kBytes / sizeof(float);
       pages += kPages * kPage) {
    for (int64_t line = 0; line < kPage; line += kLine) {
      for (int64_t page = 0; page < kPages; ++page) {
        for (float& value : absl::MakeSpan(pages + page * kPage + line, kLine)) value += 1.0f;
      }
    }
  }
  // Without this barrier, a rank that began late had the memory to itself.
  return group_->Wait(group_->Barrier());
}

double MemoryPass::bytes() const { return 2.0 * kBytes * group_->size(); }

}  // namespace tessera::comm

#include "core/kernels/host/host_memory.h"

#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace tessera {
namespace {

uintptr_t Address(const HostMemory& memory) { return reinterpret_cast<uintptr_t>(memory.data()); }

TEST(HostMemory, IsAlignedAndWritable) {
  for (int64_t bytes : {0, 1, 64, 4096, 4097, 1 << 20}) {
    auto memory = AllocateHostMemory(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ((*memory)->bytes(), bytes);
    EXPECT_EQ(Address(**memory) % 4096, 0u);
    std::memset((*memory)->data(), 1, bytes);
  }
}

TEST(HostMemory, UntouchedPagesAreNotResident) {
  const int64_t bytes = int64_t{64} << 20;
  auto memory = AllocateHostMemory(bytes);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->host_resident_bytes(), 0);
  static_cast<char*>((*memory)->data())[bytes / 2] = 1;
  // A page, or a huge one.
  EXPECT_GE((*memory)->host_resident_bytes(), 4096);
  EXPECT_LE((*memory)->host_resident_bytes(), 2 << 20);
  std::memset((*memory)->data(), 1, bytes);
  EXPECT_EQ((*memory)->host_resident_bytes(), bytes);
}

TEST(HostMemory, GuardedEndsAtAPageThatCannotBeTouched) {
  for (int64_t bytes : {1, 64, 65, 4096, 10000}) {
    auto memory = AllocateHostMemory(bytes, /*guarded=*/true);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(Address(**memory) % kBufferAlignment, 0u);
    char* data = static_cast<char*>((*memory)->data());
    const int64_t rounded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    EXPECT_EQ((Address(**memory) + rounded) % 4096, 0u);
    std::memset(data, 1, rounded);
    EXPECT_DEATH(*static_cast<volatile char*>(data + rounded) = 1, "");
  }
}

TEST(HostMemory, RefusesWhatCannotBe) {
  EXPECT_EQ(AllocateHostMemory(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AllocateHostMemory(INT64_MAX).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(AllocateHostMemory(int64_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tessera

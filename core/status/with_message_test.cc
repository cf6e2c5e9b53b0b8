#include "core/status/with_message.h"

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(WithMessageTest, KeepsCodeAndPayloads) {
  absl::Status status = absl::InvalidArgumentError("no");
  status.SetPayload("a", absl::Cord("b"));
  status.SetPayload("c", absl::Cord(""));
  const absl::Status changed = WithMessage(status, "x: no");
  EXPECT_EQ(changed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(changed.message(), "x: no");
  EXPECT_EQ(changed.GetPayload("a"), absl::Cord("b"));
  EXPECT_EQ(changed.GetPayload("c"), absl::Cord(""));
}

TEST(WithMessageTest, OkStaysOk) { EXPECT_TRUE(WithMessage(absl::OkStatus(), "x: ").ok()); }

}  // namespace
}  // namespace tessera

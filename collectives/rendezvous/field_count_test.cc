#include "collectives/rendezvous/field_count.h"

#include <gtest/gtest.h>

#include <string>

#include "collectives/rendezvous/store.pb.h"

namespace tessera::comm {
namespace {

absl::Status Check(const std::string& message, int64_t max_fields) {
  return CheckFieldCount(message, *StoreRequest::descriptor(), max_fields);
}

TEST(FieldCountTest, CountsTheFieldsOfInnerMessages) {
  StoreRequest request;
  for (int i = 0; i < 5; ++i) request.mutable_wait()->add_keys("key");
  const std::string message = request.SerializeAsString();
  EXPECT_TRUE(Check(message, 6).ok());  // the wait and its keys
  EXPECT_TRUE(absl::IsInvalidArgument(Check(message, 5)));
  EXPECT_TRUE(Check("", 0).ok());
}

TEST(FieldCountTest, ValuesAreNotTakenForMessages) {
  StoreRequest request;
  request.mutable_set()->set_key("key");
  request.mutable_set()->set_value(std::string(1 << 20, '\0'));
  EXPECT_TRUE(Check(request.SerializeAsString(), 3).ok());
}

TEST(FieldCountTest, MalformedMessages) {
  EXPECT_TRUE(absl::IsInvalidArgument(Check("\xff", 100)));
  EXPECT_TRUE(absl::IsInvalidArgument(Check(std::string("\0", 1), 100)));
  EXPECT_TRUE(absl::IsInvalidArgument(Check("\x23\x24", 100)));  // a group
}

}  // namespace
}  // namespace tessera::comm

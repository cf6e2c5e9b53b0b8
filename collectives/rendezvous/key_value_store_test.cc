#include "collectives/rendezvous/key_value_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/limits.h"

namespace tessera::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KeyValueStoreTest : public ::testing::Test {
 protected:
  std::vector<KeyValueStore::Answer> Handle(int rank, const StoreRequest& request) {
    std::vector<KeyValueStore::Answer> answers;
    store_.Handle(rank, request, now_, &answers);
    return answers;
  }
  std::vector<KeyValueStore::Answer> Set(const std::string& key, const std::string& value) {
    StoreRequest request;
    request.mutable_set()->set_key(key);
    request.mutable_set()->set_value(value);
    return Handle(0, request);
  }
  std::vector<KeyValueStore::Answer> Wait(int rank, const std::vector<std::string>& keys,
                                          int64_t timeout_ms) {
    StoreRequest request;
    for (const std::string& key : keys) request.mutable_wait()->add_keys(key);
    request.mutable_wait()->set_timeout_ms(timeout_ms);
    return Handle(rank, request);
  }

  KeyValueStore store_;
  Deadline now_ = std::chrono::steady_clock::now();
};

TEST_F(KeyValueStoreTest, WaitsForAllKeys) {
  EXPECT_THAT(Wait(3, {"b", "a", "b"}, 1000), IsEmpty());
  EXPECT_EQ(Set("a", "1").size(), 1);
  const auto answers = Set("b", "2");
  ASSERT_EQ(answers.size(), 2);
  EXPECT_EQ(answers[0].rank, 3);
  EXPECT_EQ(answers[0].response.code(), 0);
  EXPECT_THAT(answers[0].response.values(), ElementsAre("2", "1", "2"));
  EXPECT_THAT(Wait(3, {"a"}, 0)[0].response.values(), ElementsAre("1"));
  EXPECT_EQ(store_.next_expiry(), Deadline::max());
}

TEST_F(KeyValueStoreTest, TimesOut) {
  Wait(1, {"a", "b", "c"}, 1000);
  Set("b", "");
  EXPECT_EQ(store_.next_expiry(), now_ + std::chrono::milliseconds(1000));
  std::vector<KeyValueStore::Answer> answers;
  store_.Expire(now_ + std::chrono::milliseconds(999), &answers);
  EXPECT_THAT(answers, IsEmpty());
  store_.Expire(now_ + std::chrono::milliseconds(1000), &answers);
  ASSERT_EQ(answers.size(), 1);
  EXPECT_EQ(answers[0].response.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(answers[0].response.error(), HasSubstr("'a'"));
  EXPECT_THAT(answers[0].response.missing(), ElementsAre("a", "c"));
  EXPECT_EQ(Set("a", "").size(), 1);  // one answer
}

TEST_F(KeyValueStoreTest, LostRanksEndWaitsButNotWhatIsThere) {
  Set("a", "1");
  Wait(1, {"b"}, 1000);
  std::vector<KeyValueStore::Answer> answers;
  store_.FailWaits(absl::UnavailableError("rank 2 was lost"), &answers);
  ASSERT_EQ(answers.size(), 1);
  EXPECT_EQ(answers[0].response.code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_THAT(answers[0].response.error(), HasSubstr("rank 2 was lost"));
  EXPECT_EQ(Wait(1, {"b"}, 1000)[0].response.code(),
            static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Wait(1, {"b"}, 0)[0].response.code(),
            static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(Wait(1, {"a"}, 1000)[0].response.values(), ElementsAre("1"));
}

TEST_F(KeyValueStoreTest, ForgetsARank) {
  Wait(1, {"a"}, 1000);
  Wait(2, {"a"}, 1000);
  store_.RemoveWaitOf(1);
  const auto answers = Set("a", "");
  ASSERT_EQ(answers.size(), 2);
  EXPECT_EQ(answers[0].rank, 2);
}

TEST_F(KeyValueStoreTest, Limits) {
  EXPECT_THAT(Set("", "")[0].response.error(), HasSubstr("0 bytes"));
  EXPECT_THAT(Set(std::string(kMaxKeyBytes + 1, 'k'), "")[0].response.error(), HasSubstr("key"));
  EXPECT_THAT(Set("k", std::string(kMaxValueBytes + 1, 'v'))[0].response.error(),
              HasSubstr("at most"));
  EXPECT_THAT(Wait(0, {}, 0)[0].response.error(), HasSubstr("no key"));
  EXPECT_THAT(Wait(0, {""}, 0)[0].response.error(), HasSubstr("0 bytes"));
  // The deadline is computed without overflow.
  EXPECT_THAT(Wait(0, {"k"}, INT64_MAX), IsEmpty());
  EXPECT_EQ(Wait(1, {"k"}, INT64_MIN).size(), 1);
}

TEST_F(KeyValueStoreTest, ARankWaitsForOneRequestAtATime) {
  EXPECT_THAT(Wait(0, {"k"}, 1000), IsEmpty());
  const auto answers = Wait(0, {"other"}, 0);
  ASSERT_EQ(answers.size(), 1);
  EXPECT_EQ(answers[0].response.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(answers[0].response.error(), HasSubstr("rank 0 is waiting already"));
  EXPECT_THAT(Wait(1, {"k"}, 1000), IsEmpty());
  EXPECT_EQ(Set("k", "").size(), 3);  // with that of the first wait
  EXPECT_THAT(Wait(0, {"other"}, 1000), IsEmpty());
}

TEST_F(KeyValueStoreTest, FullStore) {
  const std::string value(kMaxValueBytes, 'v');
  int64_t fits = 0;
  while (Set(std::to_string(fits), value)[0].response.code() == 0) ++fits;
  EXPECT_EQ(fits, kMaxStoreBytes / kMaxValueBytes - 1);
  EXPECT_THAT(Set("more", value)[0].response.error(), HasSubstr("full"));
  EXPECT_EQ(Set("0", "")[0].response.code(), 0);
  EXPECT_EQ(Set("more", value)[0].response.code(), 0);
}

TEST_F(KeyValueStoreTest, AnAnswerThatWouldBeTooLong) {
  const std::string value(kMaxValueBytes, 'v');
  Set("a", value);
  Set("b", value);
  EXPECT_EQ(Wait(0, {"a"}, 0)[0].response.code(), 0);
  EXPECT_THAT(Wait(0, {"a", "b"}, 0)[0].response.error(), HasSubstr("too long"));
}

}  // namespace
}  // namespace tessera::comm

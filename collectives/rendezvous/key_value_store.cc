#include "collectives/rendezvous/key_value_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/limits.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;

absl::Status CheckKey(const std::string& key) {
  if (!key.empty() && static_cast<int64_t>(key.size()) <= kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a key of ", key.size(), " bytes; it must have 1 to ", kMaxKeyBytes));
}

}  // namespace

absl::Status CheckValue(absl::string_view key, absl::string_view value) {
  if (static_cast<int64_t>(value.size()) <= kMaxValueBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the value of '", key, "' has ", value.size(),
                                                   " bytes; at most ", kMaxValueBytes,
                                                   " are allowed"));
}

StoreResponse ResponseOf(const absl::Status& status) {
  StoreResponse response;
  response.set_code(static_cast<int>(status.code()));
  response.set_error(std::string(status.message()));
  return response;
}

void KeyValueStore::Handle(int rank, const StoreRequest& request, Deadline now,
                           std::vector<Answer>* answers) {
  if (request.has_wait()) return StartWait(rank, request.wait(), now, answers);
  const absl::Status status =
      request.has_set() ? Set(request.set().key(), request.set().value(), answers)
                        : absl::UnimplementedError("the store does not know this request");
  answers->push_back({rank, ResponseOf(status)});
}

absl::Status KeyValueStore::Set(const std::string& key, const std::string& value,
                                std::vector<Answer>* answers) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(CheckValue(key, value));
  const auto old = values_.find(key);
  const int64_t old_bytes =
      old == values_.end() ? 0 : static_cast<int64_t>(key.size() + old->second.size());
  const int64_t all_bytes = bytes_ - old_bytes + static_cast<int64_t>(key.size() + value.size());
  if (all_bytes > kMaxStoreBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the store is full with '", key, "': it holds at most ", kMaxStoreBytes, " bytes"));
  }
  bytes_ = all_bytes;
  values_[key] = value;
  for (auto next = waits_.begin(); next != waits_.end();) {
    const auto current = next++;  // erasing it does not invalidate `next`
    auto& [rank, wait] = *current;
    if (wait.keys[wait.present] != key || !Advance(wait)) continue;
    answers->push_back({rank, ValuesOf(wait)});
    waits_.erase(current);
  }
  return absl::OkStatus();
}

absl::Status KeyValueStore::CheckWait(int rank, const WaitRequest& request) const {
  if (waits_.contains(rank)) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " is waiting already: it can wait for one request at a time"));
  }
  if (request.keys().empty()) return absl::InvalidArgumentError("a wait for no key");
  for (const std::string& key : request.keys()) RETURN_IF_ERROR(CheckKey(key));
  return absl::OkStatus();
}

void KeyValueStore::StartWait(int rank, const WaitRequest& request, Deadline now,
                              std::vector<Answer>* answers) {
  const absl::Status status = CheckWait(rank, request);
  if (!status.ok()) return answers->push_back({rank, ResponseOf(status)});
  const milliseconds timeout =
      std::clamp(milliseconds(request.timeout_ms()), milliseconds(0), kMaxTimeout);
  Wait wait;
  wait.keys.assign(request.keys().begin(), request.keys().end());
  wait.deadline = now + timeout;
  if (Advance(wait)) {
    answers->push_back({rank, ValuesOf(wait)});
  } else if (timeout.count() == 0) {
    answers->push_back({rank, ErrorOf(wait, absl::DeadlineExceededError("the key has no value"))});
  } else if (!failure_.ok()) {
    answers->push_back({rank, ErrorOf(wait, failure_)});
  } else {
    waits_.emplace(rank, std::move(wait));
  }
}

bool KeyValueStore::Advance(Wait& wait) const {
  while (wait.present < wait.keys.size() && values_.contains(wait.keys[wait.present])) {
    ++wait.present;
  }
  return wait.present == wait.keys.size();
}

StoreResponse KeyValueStore::ValuesOf(const Wait& wait) const {
  StoreResponse response;
  int64_t bytes = 0;
  for (const std::string& key : wait.keys) {
    const std::string& value = values_.at(key);
    bytes += static_cast<int64_t>(value.size());
    if (bytes > kMaxMessageBytes / 2) {
      return ResponseOf(absl::ResourceExhaustedError(
          absl::StrCat("the values of ", wait.keys.size(),
                       " keys are too long for one answer: wait for fewer keys")));
    }
    response.add_values(value);
  }
  return response;
}

StoreResponse KeyValueStore::ErrorOf(const Wait& wait, const absl::Status& status) const {
  StoreResponse response =
      ResponseOf(absl::Status(status.code(), absl::StrCat(status.message(), " (while waiting for '",
                                                          wait.keys[wait.present], "')")));
  for (const std::string& key : wait.keys) {
    if (!values_.contains(key)) response.add_missing(key);
  }
  return response;
}

Deadline KeyValueStore::next_expiry() const {
  Deadline next = Deadline::max();
  for (const auto& [rank, wait] : waits_) next = std::min(next, wait.deadline);
  return next;
}

void KeyValueStore::Expire(Deadline now, std::vector<Answer>* answers) {
  std::erase_if(waits_, [&](const auto& rank_and_wait) {
    const auto& [rank, wait] = rank_and_wait;
    if (wait.deadline > now) return false;
    answers->push_back({rank, ErrorOf(wait, absl::DeadlineExceededError("timed out"))});
    return true;
  });
}

void KeyValueStore::FailWaits(const absl::Status& why, std::vector<Answer>* answers) {
  if (failure_.ok()) failure_ = why;
  for (const auto& [rank, wait] : waits_) answers->push_back({rank, ErrorOf(wait, failure_)});
  waits_.clear();
}

}  // namespace tessera::comm

#include "collectives/rendezvous/key_value_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/limits.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int64_t kMaxTimeoutMs = int64_t{1000} * 3600 * 24 * 365;

absl::Status CheckKey(const std::string& key) {
  if (!key.empty() && static_cast<int64_t>(key.size()) <= kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a key of ", key.size(), " bytes; it must have 1 to ", kMaxKeyBytes));
}

// A wait stores its keys twice, and each missing key has an entry in waits_for_.
int64_t MemoryOf(const WaitRequest& request) {
  constexpr int64_t kEntryBytes = 3 * sizeof(std::string) + 2 * sizeof(std::set<int64_t>);
  int64_t bytes = 0;
  for (const std::string& key : request.keys()) {
    bytes += kEntryBytes + 3 * static_cast<int64_t>(key.size());
  }
  return bytes;
}

absl::Status WithKey(const absl::Status& status, absl::string_view key) {
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), " (while waiting for '", key, "')"));
}

}  // namespace

StoreResponse ResponseOf(int64_t id, const absl::Status& status) {
  StoreResponse response;
  response.set_id(id);
  response.set_code(static_cast<int>(status.code()));
  response.set_error(std::string(status.message()));
  return response;
}

void KeyValueStore::Handle(int rank, const StoreRequest& request, Deadline now,
                           std::vector<Answer>* answers) {
  if (request.kind_case() == StoreRequest::kWait) {
    StartWait(rank, request, now, answers);
    return;
  }
  absl::Status status = absl::UnimplementedError("the store does not know this request");
  if (request.kind_case() == StoreRequest::kSet) {
    status = Set(request.set().key(), request.set().value(), answers);
  }
  answers->push_back({rank, ResponseOf(request.id(), status)});
}

absl::Status KeyValueStore::Set(const std::string& key, std::string value,
                                std::vector<Answer>* answers) {
  RETURN_IF_ERROR(CheckKey(key));
  const auto bytes = static_cast<int64_t>(value.size());
  if (bytes > kMaxValueBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the value of '", key, "' has ", bytes,
                                                     " bytes; at most ", kMaxValueBytes,
                                                     " are allowed"));
  }
  const auto old = values_.find(key);
  const int64_t old_bytes =
      old == values_.end() ? 0 : static_cast<int64_t>(key.size() + old->second.size());
  const int64_t all_bytes = bytes_ - old_bytes + static_cast<int64_t>(key.size()) + bytes;
  if (all_bytes > kMaxStoreBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the store is full with '", key, "': it holds at most ", kMaxStoreBytes, " bytes"));
  }
  bytes_ = all_bytes;
  values_[key] = std::move(value);

  const auto waiting = waits_for_.find(key);
  if (waiting == waits_for_.end()) return absl::OkStatus();
  const std::set<WaitId> ids = std::move(waiting->second);
  waits_for_.erase(waiting);
  for (const WaitId id : ids) {
    Wait& wait = waits_.at(id);
    wait.missing.erase(key);
    if (wait.missing.empty()) Finish(id, absl::OkStatus(), answers);
  }
  return absl::OkStatus();
}

absl::Status KeyValueStore::CheckWait(int rank, const WaitRequest& request) const {
  if (request.keys().empty()) return absl::InvalidArgumentError("a wait for no key");
  for (const std::string& key : request.keys()) RETURN_IF_ERROR(CheckKey(key));
  int64_t waits = 0, bytes = MemoryOf(request);
  for (const auto& [id, wait] : waits_) {
    if (wait.rank != rank) continue;
    ++waits;
    bytes += wait.bytes;
  }
  if (waits >= kMaxWaitsOfRank) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", rank, " has ", waits, " waits already, the most that are allowed"));
  }
  if (bytes <= kMaxWaitBytesOfRank) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("rank ", rank, " waits for keys of more than ", kMaxWaitBytesOfRank,
                   " bytes together: wait for fewer keys at a time"));
}

void KeyValueStore::StartWait(int rank, const StoreRequest& request, Deadline now,
                              std::vector<Answer>* answers) {
  const absl::Status status = CheckWait(rank, request.wait());
  if (!status.ok()) {
    answers->push_back({rank, ResponseOf(request.id(), status)});
    return;
  }
  Wait wait;
  wait.rank = rank;
  wait.id = request.id();
  wait.bytes = MemoryOf(request.wait());
  wait.keys.assign(request.wait().keys().begin(), request.wait().keys().end());
  for (const std::string& key : wait.keys) {
    if (!values_.contains(key)) wait.missing.insert(key);
  }
  const int64_t timeout_ms = std::clamp<int64_t>(request.wait().timeout_ms(), 0, kMaxTimeoutMs);
  wait.deadline = now + std::chrono::milliseconds(timeout_ms);
  const WaitId id = next_wait_++;
  for (const std::string& key : wait.missing) waits_for_[key].insert(id);
  const bool done = wait.missing.empty();
  waits_.emplace(id, std::move(wait));
  if (done) {
    Finish(id, absl::OkStatus(), answers);
  } else if (timeout_ms == 0) {
    Finish(id, absl::DeadlineExceededError("the key has no value"), answers);
  } else if (!failure_.ok()) {
    Finish(id, failure_, answers);
  }
}

StoreResponse KeyValueStore::ValuesFor(const Wait& wait) const {
  StoreResponse response;
  response.set_id(wait.id);
  int64_t bytes = 0;
  for (const std::string& key : wait.keys) {
    const std::string& value = values_.at(key);
    bytes += static_cast<int64_t>(value.size());
    if (bytes > kMaxMessageBytes / 2) {
      return ResponseOf(wait.id, absl::ResourceExhaustedError(absl::StrCat(
                                     "the values of ", wait.keys.size(),
                                     " keys are too long for one answer: wait for fewer keys")));
    }
    response.add_values(value);
  }
  return response;
}

void KeyValueStore::Finish(WaitId id, const absl::Status& status, std::vector<Answer>* answers) {
  const auto found = waits_.find(id);
  const Wait& wait = found->second;
  if (wait.missing.empty()) {
    answers->push_back({wait.rank, ValuesFor(wait)});
  } else {
    const std::string& first =
        *std::find_if(wait.keys.begin(), wait.keys.end(),
                      [&wait](auto& key) { return wait.missing.contains(key); });
    Answer answer = {wait.rank, ResponseOf(wait.id, WithKey(status, first))};
    for (const std::string& key : wait.keys) {
      if (wait.missing.contains(key)) answer.response.add_missing(key);
    }
    answers->push_back(std::move(answer));
  }
  for (const std::string& key : wait.missing) {
    const auto waiting = waits_for_.find(key);
    waiting->second.erase(id);
    if (waiting->second.empty()) waits_for_.erase(waiting);
  }
  waits_.erase(found);
}

Deadline KeyValueStore::next_expiry() const {
  Deadline next = Deadline::max();
  for (const auto& [id, wait] : waits_) next = std::min(next, wait.deadline);
  return next;
}

void KeyValueStore::Expire(Deadline now, std::vector<Answer>* answers) {
  std::vector<WaitId> expired;
  for (const auto& [id, wait] : waits_) {
    if (wait.deadline <= now) expired.push_back(id);
  }
  for (const WaitId id : expired) {
    Finish(id, absl::DeadlineExceededError("timed out"), answers);
  }
}

void KeyValueStore::FailWaits(const absl::Status& why, std::vector<Answer>* answers) {
  if (failure_.ok()) failure_ = why;
  while (!waits_.empty()) Finish(waits_.begin()->first, failure_, answers);
}

void KeyValueStore::RemoveWaitsOf(int rank) {
  std::vector<WaitId> removed;
  for (const auto& [id, wait] : waits_) {
    if (wait.rank == rank) removed.push_back(id);
  }
  std::vector<Answer> unsent;
  for (const WaitId id : removed) Finish(id, absl::CancelledError("gone"), &unsent);
}

}  // namespace tessera::comm

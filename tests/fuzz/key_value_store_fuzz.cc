// Sends requests of several ranks to the store, over time. Checks that each gets one answer, and
// that a wait gets the values that were set.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/net/socket.h"
#include "collectives/rendezvous/key_value_store.h"
#include "collectives/rendezvous/store.pb.h"
#include "core/status/check.h"
#include "tests/fuzz/input.h"

namespace tessera::comm {
namespace {

constexpr int kRanks = 3;

class Model {
 public:
  void Ask(int rank, const StoreRequest& request) {
    std::vector<KeyValueStore::Answer> answers;
    store_.Handle(rank, request, now_, &answers);
    if (request.has_wait() && (answers.empty() || waits_.count(rank) == 0)) {
      TESSERA_CHECK(waits_.emplace(rank, request.wait()).second) << "it waits for two requests";
      return Check(answers);
    }
    TESSERA_CHECK(!answers.empty() && answers.back().rank == rank) << request.DebugString();
    const int code = answers.back().response.code();
    TESSERA_CHECK(code != 0 || request.has_set()) << request.DebugString();
    if (code == 0) values_[request.set().key()] = request.set().value();
    answers.pop_back();
    Check(answers);
  }
  void Pass(std::chrono::milliseconds time) {
    now_ += time;
    std::vector<KeyValueStore::Answer> answers;
    store_.Expire(now_, &answers);
    Check(answers);
    TESSERA_CHECK(store_.next_expiry() > now_) << "somebody waits for longer";
  }
  void Forget(int rank) {
    store_.RemoveWaitOf(rank);
    waits_.erase(rank);
  }
  void FailWaits() {
    std::vector<KeyValueStore::Answer> answers;
    store_.FailWaits(absl::UnavailableError("rank 0 was lost"), &answers);
    Check(answers);
    TESSERA_CHECK(waits_.empty()) << waits_.size() << " have no answer";
  }

 private:
  // Checks answers to waits.
  void Check(const std::vector<KeyValueStore::Answer>& answers) {
    for (const KeyValueStore::Answer& answer : answers) {
      const auto asked = waits_.find(answer.rank);
      TESSERA_CHECK(asked != waits_.end()) << answer.rank;
      const WaitRequest& wait = asked->second;
      if (answer.response.code() == 0) {
        TESSERA_CHECK(answer.response.values_size() == wait.keys_size()) << wait.DebugString();
        for (int i = 0; i < wait.keys_size(); ++i) {
          const auto value = values_.find(wait.keys(i));
          TESSERA_CHECK(value != values_.end() && value->second == answer.response.values(i))
              << wait.keys(i);
        }
      }
      waits_.erase(asked);
    }
  }

  KeyValueStore store_;
  Deadline now_;
  std::map<int, WaitRequest> waits_;  // not answered yet, by rank
  std::map<std::string, std::string> values_;
};

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  Model model;
  while (!input.empty()) {
    const auto choice = input.Take<uint8_t>();
    const int rank = choice / 8 % kRanks;
    if (choice % 8 == 0) {
      model.Pass(std::chrono::milliseconds(100 * input.Take<uint8_t>()));
    } else if (choice == 1) {
      model.FailWaits();
    } else if (choice % 8 == 1) {
      model.Forget(rank);
    } else {
      StoreRequest request;
      const absl::string_view bytes = input.TakeRecord();
      if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        model.Ask(rank, request);
      }
    }
  }
  model.FailWaits();
  return 0;
}

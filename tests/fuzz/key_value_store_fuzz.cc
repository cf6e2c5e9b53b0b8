// Sends requests of several ranks to the store, over time. Checks that each gets one answer, and
// that a wait gets the values that were set.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
  void Ask(int rank, StoreRequest request) {
    request.set_id(++last_id_);
    asked_[last_id_] = {rank, request};
    std::vector<KeyValueStore::Answer> answers;
    store_.Handle(rank, request, now_, &answers);
    for (const KeyValueStore::Answer& answer : answers) {
      if (answer.response.id() == last_id_ && answer.response.code() == 0) Note(request, answer);
    }
    Check(answers);
    TESSERA_CHECK(request.has_wait() || asked_.count(last_id_) == 0) << request.DebugString();
  }
  void Pass(std::chrono::milliseconds time) {
    now_ += time;
    std::vector<KeyValueStore::Answer> answers;
    store_.Expire(now_, &answers);
    Check(answers);
    TESSERA_CHECK(store_.next_expiry() > now_) << "somebody waits for longer";
  }
  void Forget(int rank) {
    store_.RemoveWaitsOf(rank);
    for (auto each = asked_.begin(); each != asked_.end();) {
      each = each->second.rank == rank ? asked_.erase(each) : std::next(each);
    }
  }
  void FailWaits() {
    std::vector<KeyValueStore::Answer> answers;
    store_.FailWaits(absl::UnavailableError("rank 0 was lost"), &answers);
    Check(answers);
    TESSERA_CHECK(asked_.empty()) << asked_.size() << " have no answer";
  }

 private:
  struct Asked {
    int rank = 0;
    StoreRequest request;
  };

  void Note(const StoreRequest& request, const KeyValueStore::Answer& answer) {
    if (request.has_set()) values_[request.set().key()] = request.set().value();
  }

  void Check(const std::vector<KeyValueStore::Answer>& answers) {
    for (const KeyValueStore::Answer& answer : answers) {
      const auto asked = asked_.find(answer.response.id());
      TESSERA_CHECK(asked != asked_.end() && asked->second.rank == answer.rank)
          << answer.response.id();
      const WaitRequest& wait = asked->second.request.wait();
      if (asked->second.request.has_wait() && answer.response.code() == 0) {
        TESSERA_CHECK(answer.response.values_size() == wait.keys_size()) << wait.DebugString();
        for (int i = 0; i < wait.keys_size(); ++i) {
          const auto value = values_.find(wait.keys(i));
          TESSERA_CHECK(value != values_.end() && value->second == answer.response.values(i))
              << wait.keys(i);
        }
      }
      asked_.erase(asked);
    }
  }

  KeyValueStore store_;
  Deadline now_;
  int64_t last_id_ = 0;
  std::map<int64_t, Asked> asked_;  // not answered yet
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
        model.Ask(rank, std::move(request));
      }
    }
  }
  model.FailWaits();
  return 0;
}

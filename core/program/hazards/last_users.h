// The last user of each byte of an arena.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_LAST_USERS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_LAST_USERS_H_

#include <cstdint>
#include <map>

namespace tessera {

// Keeps for each byte which user has used it last. A user is anything that has an id: a buffer, an
// instruction. Time per operation is logarithmic in the number of ranges, and linear in the number
// of those that it finds. Not thread-safe.
template <typename User>
class LastUsers {
 public:
  // Calls visit(user) for each range of bytes of [begin, end) that one user used last.
  template <typename Visit>
  void ForEachIn(int64_t begin, int64_t end, const Visit& visit) const {
    for (auto it = by_end_.upper_bound(begin); it != by_end_.end() && it->second.begin < end; ++it)
      visit(it->second.user);
  }

  // Does the same, and records `user` as the last one of these bytes.
  template <typename Visit>
  void Use(int64_t begin, int64_t end, User user, const Visit& visit) {
    if (begin >= end) return;
    auto it = by_end_.upper_bound(begin);
    while (it != by_end_.end() && it->second.begin < end) {
      const Range old = it->second;
      const int64_t old_end = it->first;
      visit(old.user);
      it = by_end_.erase(it);
      if (old.begin < begin) by_end_.emplace(begin, Range{old.begin, old.user});
      if (end < old_end) it = by_end_.emplace(old_end, Range{end, old.user}).first;
    }
    by_end_.emplace(end, Range{begin, user});
  }

 private:
  struct Range {
    int64_t begin;
    User user;
  };
  std::map<int64_t, Range> by_end_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_LAST_USERS_H_

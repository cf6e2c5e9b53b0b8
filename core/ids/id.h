// Ids: positions in tables, with a type for each kind of thing, so that the id of a buffer where
// that of a value is expected does not compile.
#ifndef TESSERA_CORE_IDS_ID_H_
#define TESSERA_CORE_IDS_ID_H_

#include <compare>
#include <concepts>
#include <cstdint>
#include <ostream>
#include <utility>

namespace tessera {

// The type of kNone, which stands for "no such thing" in every type of id. As an int (the position
// of a dimension or an axis) it is -1.
struct NoId {
  constexpr operator int32_t() const { return -1; }  // NOLINT(google-explicit-constructor)
};
inline constexpr NoId kNone;

// The position of a `Thing` in its table, or kNone, which comes before all positions. 4 bytes,
// trivially copyable. Like iterators, ids of one type can be compared, moved by a number of
// positions, and subtracted. Thread safety: plain data.
template <typename Thing>
class Id {
 public:
  constexpr Id() = default;
  constexpr Id(NoId) {}  // NOLINT(google-explicit-constructor)
  // For text and messages, where an id is a number.
  template <std::integral Index>
  constexpr explicit Id(Index index) : index_(static_cast<int32_t>(index)) {}

  // Returns the number of things before this one; -1 for kNone.
  constexpr int32_t index() const { return index_; }

  friend constexpr bool operator==(Id a, Id b) { return a.index_ == b.index_; }
  friend constexpr auto operator<=>(Id a, Id b) { return a.index_ <=> b.index_; }

  friend constexpr Id operator+(Id id, int32_t positions) { return Id(id.index_ + positions); }
  friend constexpr Id operator-(Id id, int32_t positions) { return Id(id.index_ - positions); }
  friend constexpr int32_t operator-(Id a, Id b) { return a.index_ - b.index_; }
  constexpr Id& operator+=(int32_t positions) { return *this = *this + positions; }
  constexpr Id& operator-=(int32_t positions) { return *this = *this - positions; }
  constexpr Id& operator++() { return *this += 1; }
  constexpr Id& operator--() { return *this -= 1; }

  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.index_);
  }
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.index_; }

 private:
  int32_t index_ = -1;
};

// The ids from `first` to before `last`, for loops.
template <typename Id>
class IdRange {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(Id id) : id_(id) {}
    constexpr Id operator*() const { return id_; }
    constexpr Iterator& operator++() {
      ++id_;
      return *this;
    }
    friend constexpr bool operator==(Iterator a, Iterator b) { return a.id_ == b.id_; }

   private:
    Id id_;
  };

  constexpr IdRange(Id first, Id last) : first_(first), last_(last) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(last_); }

 private:
  Id first_, last_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_IDS_ID_H_

// A vector that is indexed by an id.
#ifndef TESSERA_CORE_IDS_TABLE_H_
#define TESSERA_CORE_IDS_TABLE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "core/ids/id.h"

namespace tessera {

// A std::vector<T> whose index is an `Id`, so that an id of another kind does not compile. It holds
// the things themselves, or something about each of them: Table<BufferId, bool> is a bool by
// buffer. Otherwise, cost, exceptions and thread safety are those of std::vector.
template <typename Id, typename T>
class Table : private std::vector<T> {
  using Vector = std::vector<T>;

 public:
  using typename Vector::const_iterator;
  using typename Vector::const_reference;
  using typename Vector::const_reverse_iterator;
  using typename Vector::difference_type;
  using typename Vector::iterator;
  using typename Vector::pointer;
  using typename Vector::reference;
  using typename Vector::reverse_iterator;
  using typename Vector::size_type;
  using typename Vector::value_type;

  using Vector::Vector;

  using Vector::assign;
  using Vector::back;
  using Vector::begin;
  using Vector::capacity;
  using Vector::clear;
  using Vector::emplace_back;
  using Vector::empty;
  using Vector::end;
  using Vector::erase;
  using Vector::front;
  using Vector::insert;
  using Vector::pop_back;
  using Vector::rbegin;
  using Vector::rend;
  using Vector::reserve;
  using Vector::resize;
  using Vector::size;

  // The id must be one of ids().
  reference operator[](Id id) { return Vector::operator[](static_cast<size_t>(id.index())); }
  const_reference operator[](Id id) const {
    return Vector::operator[](static_cast<size_t>(id.index()));
  }

  // Return the id of the new element.
  Id push_back(const T& element) {
    Vector::push_back(element);
    return last_id();
  }
  Id push_back(T&& element) {
    Vector::push_back(std::move(element));
    return last_id();
  }

  // Returns the ids of all elements, in order. Elements that are added during a loop over them are
  // not visited.
  IdRange<Id> ids() const { return {Id(0), end_id()}; }
  // Returns the id that the next new element gets. It is one after the last one, which is kNone if
  // there is no element.
  Id end_id() const { return Id(size()); }
  // Returns whether there is an element with this id.
  bool contains(Id id) const { return Id(0) <= id && id < end_id(); }
  // Returns the id of the element at an iterator.
  Id IdOf(const_iterator element) const { return Id(element - begin()); }

  friend bool operator==(const Table& a, const Table& b) {
    return static_cast<const Vector&>(a) == static_cast<const Vector&>(b);
  }

 private:
  Id last_id() const { return Id(size() - 1); }
};

}  // namespace tessera

#endif  // TESSERA_CORE_IDS_TABLE_H_

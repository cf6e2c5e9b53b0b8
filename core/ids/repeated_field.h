// Writes numbers and ids into repeated fields of messages.
#ifndef TESSERA_CORE_IDS_REPEATED_FIELD_H_
#define TESSERA_CORE_IDS_REPEATED_FIELD_H_

namespace tessera {

template <typename Numbers, typename Field>
void AppendNumbers(const Numbers& numbers, Field* field) {
  field->Add(numbers.begin(), numbers.end());
}

template <typename Ids, typename Field>
void AppendIds(const Ids& ids, Field* field) {
  for (const auto id : ids) field->Add(id.index());
}

}  // namespace tessera

#endif  // TESSERA_CORE_IDS_REPEATED_FIELD_H_

// The text form of a Graph and the fingerprints made from it.
#include <xxhash.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/graph/graph.h"

namespace tessera {
namespace {

std::string HashOf(absl::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

std::string InitializerToString(const Initializer& initializer) {
  const Attributes value =
      initializer.kind == Initializer::Kind::kConstant
          ? Attributes{{"constant", initializer.value}}
          : Attributes{{"mean", initializer.value}, {"stddev", initializer.stddev}};
  return value.ToString();
}

}  // namespace

std::string Graph::OpToString(const Op& op) const {
  std::string line = absl::StrJoin(op.outputs, ", ", [this](std::string* out, ValueId id) {
    absl::StrAppend(out, "%", value(id).path, ": ", TypeToString(value(id).type));
  });
  absl::StrAppend(&line, " = ", op.kind->name(), "(",
                  absl::StrJoin(op.inputs, ", ",
                                [this](std::string* out, ValueId id) {
                                  absl::StrAppend(out, "%", value(id).path);
                                }),
                  ")", op.attributes.empty() ? "" : " ", op.attributes.ToString());
  if (!op.after.empty()) {
    absl::StrAppend(&line, " after ",
                    absl::StrJoin(op.after, ", ", [this](std::string* out, OpId id) {
                      absl::StrAppend(out, ops_[id].path);
                    }));
  }
  return line;
}

std::string Graph::ToString() const {
  std::string text = absl::StrCat("graph ", name_, "\n");
  for (const GraphInput& input : inputs_) {
    const Value& v = value(input.value);
    absl::StrAppend(&text, "input %", v.path, ": ", TypeToString(v.type));
    if (input.batch_dim != kNone) absl::StrAppend(&text, " batch_dim=", input.batch_dim);
    absl::StrAppend(&text, "\n");
  }
  for (const State& state : states_) {
    absl::StrAppend(&text, RoleName(state.role), " %", state.path, ": ", TypeToString(state.type),
                    " ", InitializerToString(state.initializer),
                    state.role == Role::kParameter && !state.trainable ? " frozen" : "",
                    state.input == kNone ? " written" : "", "\n");
  }
  for (const Op& op : ops_) absl::StrAppend(&text, OpToString(op), "\n");
  for (const State& state : states_) {
    if (state.updated != state.input) {
      absl::StrAppend(&text, "leave %", state.path, " = %", value(state.updated).path, "\n");
    }
  }
  for (const GraphOutput& output : outputs_) {
    absl::StrAppend(&text, "output ", output.name, " = %", value(output.value).path, "\n");
  }
  return text;
}

std::string Graph::Fingerprint() const {
  const std::string text = ToString();
  return HashOf(absl::string_view(text).substr(text.find('\n') + 1));
}

std::string Graph::BlockFingerprint(absl::string_view block) const {
  absl::flat_hash_map<ValueId, std::string> outside;  // numbered in the order in which they occur
  const auto name = [&](ValueId id) {
    const Value& v = value(id);
    if (InScope(v.path, block)) return v.path.substr(block.size());
    auto [it, inserted] = outside.try_emplace(id, absl::StrCat("#", outside.size()));
    return it->second;
  };
  std::string text;
  for (const Op& op : ops_) {
    if (!InScope(op.path, block)) continue;
    absl::StrAppend(&text, op.kind->name());
    for (const auto& [key, attribute] : op.attributes.entries()) {
      // A draw has its own path, which differs between blocks, but the operator is the same.
      if (key != "random_path") {
        absl::StrAppend(&text, " ", Attributes({{key, attribute}}).ToString());
      }
    }
    for (ValueId id : op.inputs) {
      absl::StrAppend(&text, " %", name(id), ":", TypeToString(value(id).type));
    }
    for (ValueId id : op.outputs) {
      absl::StrAppend(&text, " -> %", name(id), ":", TypeToString(value(id).type));
    }
    absl::StrAppend(&text, "\n");
  }
  return HashOf(text);
}

}  // namespace tessera

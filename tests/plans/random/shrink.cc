#include "tests/plans/random/shrink.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/message.h"

namespace tessera {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

// Called after each change of one field of a message, which is undone afterwards.
using Visit = std::function<void()>;

// Returns the list with one of the texts between `separator` left out, for each of them.
std::vector<std::string> WithoutOne(const std::string& text, const std::string& separator) {
  const std::vector<std::string> parts = absl::StrSplit(text, separator);
  std::vector<std::string> shorter;
  for (size_t i = 0; parts.size() > 1 && i < parts.size(); ++i) {
    std::vector<std::string> rest = parts;
    rest.erase(rest.begin() + static_cast<int64_t>(i));
    shorter.push_back(absl::StrJoin(rest, separator));
  }
  return shorter;
}

// Splits "a: S(0, 2), b: S(1)" into clauses.
std::vector<std::string> WithoutAClause(std::string text) {
  // The comma before each clause becomes a line break.
  for (size_t at = 0; (at = text.find(", ", at)) != std::string::npos; ++at) {
    if (text.find(": ", at) == at + 3) text[at] = '\n';
  }
  std::vector<std::string> shorter = WithoutOne(text, "\n ");
  for (std::string& rest : shorter) rest = absl::StrReplaceAll(rest, {{"\n", ","}});
  return shorter;
}

std::vector<std::string> ShorterTexts(const FieldDescriptor& field, const std::string& text) {
  if (field.name() == "path" || field.name() == "in_f32") return WithoutOne(text, "|");
  if (field.name() == "layout") return WithoutAClause(text);
  if (field.name() == "signature") return WithoutOne(text, "; ");
  if (field.name() == "name" || field.name() == "graph" || text.empty()) return {};
  return {""};
}

void VisitField(Message& message, const FieldDescriptor* field, const Visit& visit);

void VisitSimpler(Message& message, const Visit& visit) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    VisitField(message, message.GetDescriptor()->field(i), visit);
  }
}

// Leaves out elements of a repeated field, and simplifies them.
void VisitRepeated(Message& message, const FieldDescriptor* field, const Visit& visit) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    const std::string before = message.SerializeAsString();
    for (int next = i + 1; next < reflection.FieldSize(message, field); ++next) {
      reflection.SwapElements(&message, field, next - 1, next);
    }
    reflection.RemoveLast(&message, field);
    visit();
    message.ParseFromString(before);
  }
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return;
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    VisitSimpler(*reflection.MutableRepeatedMessage(&message, field, i), visit);
  }
}

void VisitField(Message& message, const FieldDescriptor* field, const Visit& visit) {
  const Reflection& reflection = *message.GetReflection();
  if (field->is_repeated()) {
    // Axes are left out with their clauses, below.
    if (field->name() != "mesh") VisitRepeated(message, field, visit);
    return;
  }
  const std::string before = message.SerializeAsString();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    for (const std::string& text : ShorterTexts(*field, reflection.GetString(message, field))) {
      reflection.SetString(&message, field, text);
      visit();
      message.ParseFromString(before);
    }
    return;
  }
  if (!reflection.HasField(message, field)) return;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    VisitSimpler(*reflection.MutableMessage(&message, field), visit);
  }
  reflection.ClearField(&message, field);
  visit();
  message.ParseFromString(before);
}

// Removes the clause of an axis from a layout or a signature.
std::string WithoutAxis(const std::string& text, const std::string& axis, bool layout) {
  for (const std::string& shorter : layout ? WithoutAClause(text) : WithoutOne(text, "; ")) {
    if (!absl::StrContains(absl::StrCat(" ", shorter), absl::StrCat(" ", axis, ": "))) {
      return shorter;
    }
  }
  return absl::StartsWith(text, absl::StrCat(axis, ": ")) ? "" : text;
}

// Leaves out an axis: choices that say nothing of another one go with it.
void RemoveAxis(int index, PlanCase& from) {
  Stage& stage = from.stage();
  const std::string axis = stage.mesh(index).name();
  from.ranks /= static_cast<int>(stage.mesh(index).size());
  stage.mutable_mesh()->DeleteSubrange(index, 1);
  const auto remove = [&](auto& choices, auto text, bool layout) {
    for (int i = choices.size() - 1; i >= 0; --i) {
      std::string& said = *text(choices[i]);
      said = WithoutAxis(said, axis, layout);
      if (said.empty()) choices.DeleteSubrange(i, 1);
    }
  };
  const auto layout_of = [](auto& choice) { return choice.mutable_layout(); };
  remove(*stage.mutable_store(), layout_of, true);
  for (int i = stage.group_size() - 1; i >= 0; --i) {
    auto& over = *stage.mutable_group(i)->mutable_over();
    over.erase(std::remove(over.begin(), over.end(), axis), over.end());
    if (over.empty()) stage.mutable_group()->DeleteSubrange(i, 1);
  }
  remove(
      *stage.mutable_compute(), [](auto& choice) { return choice.mutable_signature(); }, false);
}

}  // namespace

std::vector<PlanCase> Simpler(const PlanCase& from) {
  std::vector<PlanCase> simpler;
  for (int i = 0; from.stage().mesh_size() > 1 && i < from.stage().mesh_size(); ++i) {
    PlanCase less = from;
    RemoveAxis(i, less);
    simpler.push_back(less);
  }
  PlanCase changed = from;
  VisitSimpler(changed.stage(), [&] { simpler.push_back(changed); });
  for (int i = 0; i < from.stage().mesh_size(); ++i) {
    const int64_t size = from.stage().mesh(i).size();
    if (size <= 2) continue;
    PlanCase smaller = from;
    smaller.stage().mutable_mesh(i)->set_size(2);
    smaller.ranks = static_cast<int>(smaller.ranks / size * 2);
    simpler.push_back(smaller);
  }
  return simpler;
}

PlanCase Shrunk(PlanCase plan, const std::function<bool(const PlanCase&)>& fails) {
  std::set<std::string> tried;
  for (bool shrinks = true; shrinks;) {
    shrinks = false;
    for (const PlanCase& simpler : Simpler(plan)) {
      if (!tried.insert(simpler.ToString()).second || !fails(simpler)) continue;
      plan = simpler;
      shrinks = true;
      break;
    }
  }
  return plan;
}

}  // namespace tessera

// Walks over all strings of the files of a checkpoint, with matching checksums: whatever a string
// is, no library is loaded, no file outside of the run folder is read, written or removed, and no
// control character is printed.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/config/run_config.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.pb.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;

// The fields that lead from a message to a string.
using Path = std::vector<const FieldDescriptor*>;

// Returns a path to each field of type string that a message of this type can have.
std::vector<Path> StringFields(const Descriptor* root) {
  std::vector<Path> strings;
  std::set<const Descriptor*> seen = {root};
  std::deque<std::pair<const Descriptor*, Path>> open = {{root, {}}};
  for (; !open.empty(); open.pop_front()) {
    const auto [type, path] = open.front();
    for (int i = 0; i < type->field_count(); ++i) {
      Path longer = path;
      longer.push_back(type->field(i));
      if (type->field(i)->type() == FieldDescriptor::TYPE_STRING) {
        strings.push_back(longer);
      } else if (const Descriptor* const of = type->field(i)->message_type();
                 of != nullptr && seen.insert(of).second) {
        open.emplace_back(of, longer);
      }
    }
  }
  return strings;
}

// Sets the string at a path, in the first message of each repeated field, and makes what lacks.
void SetString(Message* message, const Path& path, const std::string& value) {
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    const FieldDescriptor* const field = path[i];
    if (!field->is_repeated()) {
      message = reflection.MutableMessage(message, field);
    } else if (reflection.FieldSize(*message, field) > 0) {
      message = reflection.MutableRepeatedMessage(message, field, 0);
    } else {
      message = reflection.AddMessage(message, field);
    }
  }
  const FieldDescriptor* const field = path.back();
  if (!field->is_repeated()) {
    message->GetReflection()->SetString(message, field, value);
  } else if (message->GetReflection()->FieldSize(*message, field) > 0) {
    message->GetReflection()->SetRepeatedString(message, field, 0, value);
  } else {
    message->GetReflection()->AddString(message, field, value);
  }
}

std::string PathName(const Path& path) {
  std::string name;
  for (const FieldDescriptor* field : path) name += "." + field->name();
  return name;
}

// Returns the control characters of a text other than line ends and tabs, in hexadecimal digits.
std::string ControlCharacters(const std::string& text) {
  std::string found;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F || is_c1) {
      found += " " + std::to_string(byte);
    }
  }
  return found;
}

// A folder with a hostile library, files that must stay as they are, and a run of ten steps.
class HostileStringsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + made_, "--steps=10"})).code, 0);
    fs::create_directories(folder_ + "/helper");
    for (const char* name : {"/helper.so", "/helper/helper.so"}) {
      fs::copy_file("strategies/host/testing/leaves_a_mark.so", folder_ + name);
    }
    WriteFile(folder_ + "/victim", "as it was");
    ASSERT_EQ(Shell("mkfifo " + folder_ + "/fifo").code, 0);
    values_ = {
        "\x1b]0;title\x07\x1b[2J\xC2\x9B"
        "31m",
        "helper",
        "helper.so",
        "./helper.so",
        folder_ + "/helper.so",
        "../../../helper.so",
        folder_ + "/victim",
        "../../../victim",
        folder_ + "/fifo",
        "",
        "two\nlines",
    };
  }

  std::string File(const std::string& name) const {
    return folder_ + "/run/checkpoints/step_00000010/" + name;
  }

  // Makes the manifest's checksums match its files and itself.
  void Seal(std::string text) const {
    const auto set = [&](size_t at) {
      text.replace(at, 32, std::string(32, '0'));
      text.replace(at, 32, ChecksumOf(text));
    };
    for (const Manifest::File& file : manifest_.files) {
      const std::string contents = ReadFile(File(file.name));
      const std::regex record("(\"name\": *\"" + file.name +
                              "\", *\"bytes\": *)[0-9]+(, *\"xxh3_128\": *\")[0-9a-f]+");
      text = std::regex_replace(
          text, record, "$01" + std::to_string(contents.size()) + "$02" + ChecksumOf(contents));
    }
    set(text.rfind("\"\n}\n") - 32);
    WriteFile(File("manifest.json"), text);
  }

  // Gives `change` a copy of the run, and runs the program in every mode.
  void Check(const std::string& name, const std::string& value,
             const std::function<void()>& change) {
    static const std::vector<std::vector<std::string>> kModes = {
        {"--steps=12"}, {"--steps=12", "--plan_only"}, {"--mode=sample"}, {"--mode=evaluate"}};
    SCOPED_TRACE(name + " is '" + nlohmann::json(value).dump() + "'");
    const std::vector<std::string>& mode = kModes[checked_++ % kModes.size()];
    fs::remove_all(folder_ + "/run");
    fs::copy(made_, folder_ + "/run", fs::copy_options::recursive);
    manifest_ = *ParseManifest(ReadFile(File("manifest.json")));
    change();
    std::vector<std::string> flags = {"--resume=" + folder_ + "/run"};
    flags.insert(flags.end(), mode.begin(), mode.end());
    const Result result = RunProgram(GptProgram(), flags, {{}, folder_});
    EXPECT_EQ(result.signal, 0) << result.err;
    EXPECT_TRUE(result.code == 0 || result.code == 1) << result.code;
    EXPECT_EQ(ControlCharacters(result.out), "") << result.out;
    EXPECT_EQ(ControlCharacters(result.err), "") << result.err;
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names, (std::set<std::string>{"fifo", "helper", "helper.so", "run", "victim"}));
    EXPECT_EQ(ReadFile(folder_ + "/victim"), "as it was");
    failed_ += result.code;
    if (result.code != 0) last_error_ = result.err;
  }

  // Walks over the strings of a message in a text file of the checkpoint.
  template <typename Of>
  void Walk(const std::string& file) {
    const std::vector<Path> paths = StringFields(Of::descriptor());
    ASSERT_GE(paths.size(), 8);
    for (const Path& path : paths) {
      for (const std::string& value : values_) {
        Check(file + PathName(path), value, [&] {
          Of message;
          ASSERT_TRUE(TextFormat::ParseFromString(ReadFile(File(file)), &message));
          SetString(&message, path, value);
          TextFormat::Printer printer;
          printer.SetExpandAny(true);  // as a configuration has its model
          std::string text;
          ASSERT_TRUE(printer.PrintToString(message, &text));
          WriteFile(File(file), text);
          Seal(ReadFile(File("manifest.json")));
        });
      }
    }
    EXPECT_GT(failed_, 0);
    EXPECT_LT(failed_, checked_) << last_error_;
  }

  const std::string made_ = NewFolder() + "/made";
  const std::string folder_ = NewFolder();
  std::vector<std::string> values_;
  Manifest manifest_;
  size_t checked_ = 0, failed_ = 0;
  std::string last_error_;
};

TEST_F(HostileStringsTest, OfAPlan) { Walk<Plan>("plan.textproto"); }

TEST_F(HostileStringsTest, OfAConfiguration) {
  GptConfig::descriptor();  // the model's settings can be read
  Walk<RunConfig>("config.textproto");
}

TEST_F(HostileStringsTest, OfAManifest) {
  const std::regex string("\"([a-z0-9_]+)\": *\"((?:[^\"\\\\]|\\\\.)*)\"");
  const std::string manifest = ReadFile(made_ + "/checkpoints/step_00000010/manifest.json");
  std::set<std::string> keys;
  for (std::sregex_iterator match(manifest.begin(), manifest.end(), string), end; match != end;
       ++match) {
    if (!keys.insert((*match)[1]).second) continue;
    for (const std::string& value : values_) {
      Check("manifest.json: " + match->str(1), value, [&] {
        std::string text = manifest;
        const std::string quoted = nlohmann::json(value).dump();
        text.replace(match->position(2) - 1, match->length(2) + 2, quoted);
        Seal(std::move(text));
      });
    }
  }
  EXPECT_GE(keys.size(), 8);
  EXPECT_GT(failed_, 0);
}

}  // namespace
}  // namespace tessera

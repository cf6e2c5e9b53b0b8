#include "core/train/config/config_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/text/nearest_name.h"
#include "core/train/config/testing/test_model.pb.h"
#include "core/train/config/text_bounds.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TestModelConfig& ModelOf(const ConfigEditor& editor) {
  return static_cast<const TestModelConfig&>(editor.model());
}

ConfigEditor Editor() {
  RunConfig defaults;
  defaults.set_steps(100);
  defaults.mutable_optimizer()->set_lr(0.5);
  TestModelConfig model;
  model.set_layers(4);
  model.add_hidden(7);
  model.add_hidden(8);
  model.set_dropout(0.1);
  return ConfigEditor(defaults, model);
}

std::string Message(const absl::Status& status) { return absl::StrCat(status.message()); }

TEST(ConfigEditorTest, ATextSetsWhatItNamesAndNothingElse) {
  ConfigEditor editor = Editor();
  ASSERT_TRUE(
      editor
          .MergeText("batch: 3 optimizer { kind: 'sgd' } "
                     "model { [type.googleapis.com/tessera.TestModelConfig] { tied: true } }",
                     "test")
          .ok());
  EXPECT_EQ(editor.config().steps(), 100);
  EXPECT_EQ(editor.config().batch(), 3);
  EXPECT_EQ(editor.config().optimizer().lr(), 0.5);
  EXPECT_EQ(editor.config().optimizer().kind(), "sgd");
  EXPECT_EQ(ModelOf(editor).layers(), 4);
  EXPECT_TRUE(ModelOf(editor).tied());
  EXPECT_THAT(ModelOf(editor).hidden(), ElementsAre(7, 8));
}

TEST(ConfigEditorTest, AByteOrderMarkIsSkipped) {
  ConfigEditor editor = Editor();
  ASSERT_TRUE(editor.MergeText("\xEF\xBB\xBFmodel { layers: 9 } batch: 3", "test").ok());
  EXPECT_EQ(ModelOf(editor).layers(), 9);
  EXPECT_EQ(editor.config().batch(), 3);
}

TEST(ConfigEditorTest, TheModelNeedsNoType) {
  for (const char* text :
       {"model { layers: 9 hidden: [5] }\nbatch: 3", "model: { layers: 9 hidden: [5] } batch: 3",
        "model < layers: 9 hidden: 5 > batch: 3",
        "# model {\nbatch: 3 sample { prompt: \"model { \\\" }\" }\nmodel { # layers\n layers: 9\n"
        "hidden: 5 activation: '}' }",
        "batch: 3 model{layers:9;hidden:5}"}) {
    SCOPED_TRACE(text);
    ConfigEditor editor = Editor();
    const absl::Status status = editor.MergeText(text, "test");
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(editor.config().batch(), 3);
    EXPECT_EQ(ModelOf(editor).layers(), 9);
    EXPECT_THAT(ModelOf(editor).hidden(), ElementsAre(5));
    EXPECT_EQ(ModelOf(editor).dropout(), 0.1);
  }
  ConfigEditor editor = Editor();
  EXPECT_TRUE(editor.MergeText("model { } steps: 4", "test").ok());
  EXPECT_EQ(ModelOf(editor).layers(), 4);
  EXPECT_THAT(Message(editor.MergeText("steps: 3\nmodel {\n leyers: 1 }", "my.textproto")),
              AllOf(HasSubstr("my.textproto:3: "), HasSubstr("leyers")));
  for (const char* text :
       {"model {", "model { layers: 1", "model { 'x", "model }", "model { '\\"}) {
    EXPECT_FALSE(editor.MergeText(text, "test").ok()) << text;
  }
}

TEST(ConfigEditorTest, ATextSetsZerosAndEmptyListsToo) {
  ConfigEditor editor = Editor();
  ASSERT_TRUE(editor
                  .MergeText("steps: 0 optimizer { lr: 0 } "
                             "model { [type.googleapis.com/tessera.TestModelConfig] { "
                             "hidden: [] dropout: 0 } }",
                             "test")
                  .ok());
  EXPECT_EQ(editor.config().steps(), 0);
  EXPECT_EQ(editor.config().optimizer().lr(), 0);
  EXPECT_EQ(ModelOf(editor).dropout(), 0);
  EXPECT_EQ(ModelOf(editor).hidden_size(), 0);
  EXPECT_EQ(ModelOf(editor).layers(), 4);
}

TEST(ConfigEditorTest, AListIsReplacedNotAppendedTo) {
  ConfigEditor editor = Editor();
  ASSERT_TRUE(
      editor
          .MergeText(
              "model { [type.googleapis.com/tessera.TestModelConfig] { hidden: 1 hidden: 2 } }",
              "test")
          .ok());
  EXPECT_THAT(ModelOf(editor).hidden(), ElementsAre(1, 2));
  ASSERT_TRUE(editor.Set("model.hidden", "[64;32;16]").ok());
  EXPECT_THAT(ModelOf(editor).hidden(), ElementsAre(64, 32, 16));
  ASSERT_TRUE(editor.Set("model.hidden", "5").ok());
  EXPECT_THAT(ModelOf(editor).hidden(), ElementsAre(5));
  ASSERT_TRUE(editor.Set("model.hidden", "[]").ok());
  EXPECT_EQ(ModelOf(editor).hidden_size(), 0);
}

TEST(ConfigEditorTest, SetsEveryKindOfField) {
  ConfigEditor editor = Editor();
  for (const auto& [path, value] :
       std::vector<std::pair<std::string, std::string>>{{"steps", "12"},
                                                        {"seed", "18446744073709551615"},
                                                        {"threads", "3"},
                                                        {"optimizer.lr", "1e-3"},
                                                        {"sample.prompt", "a = \"b\""},
                                                        {"model.tied", "true"},
                                                        {"model.kind", "FANCY"},
                                                        {"model.dropout", "0.25"}}) {
    const absl::Status status = editor.Set(path, value);
    EXPECT_TRUE(status.ok()) << status;
  }
  const RunConfig config = editor.config();
  EXPECT_EQ(config.steps(), 12);
  EXPECT_EQ(config.seed(), 18446744073709551615u);
  EXPECT_EQ(config.optimizer().lr(), 1e-3);
  EXPECT_EQ(config.sample().prompt(), "a = \"b\"");
  TestModelConfig model;
  ASSERT_TRUE(config.model().UnpackTo(&model));
  EXPECT_EQ(model.kind(), TestModelConfig::FANCY);
  EXPECT_EQ(editor.Get("model.hidden"), "[7;8]");
  EXPECT_EQ(editor.Get("sample.prompt"), "a = \"b\"");
  EXPECT_EQ(editor.Get("model.kind"), "FANCY");
}

TEST(ConfigEditorTest, RefusesWhatDoesNotFit) {
  ConfigEditor editor = Editor();
  const auto message = [&editor](const std::string& path, const std::string& value) {
    const absl::Status status = editor.Set(path, value);
    EXPECT_FALSE(status.ok()) << path << " " << value;
    return Message(status);
  };
  EXPECT_EQ(message("model.leyers", "1"),
            "there is no field 'model.leyers'; did you mean 'model.layers'?");
  EXPECT_EQ(message("layers", "1"), "there is no field 'layers'; did you mean 'model.layers'?");
  EXPECT_THAT(message("optimizer", "1"), HasSubstr("is a group of fields"));
  EXPECT_THAT(message("steps.more", "1"), HasSubstr("there is no field 'steps.more'"));
  EXPECT_THAT(message("", "1"), HasSubstr("there is no field ''"));
  EXPECT_EQ(message("steps", "1.5"), "steps: '1.5' is not a whole number that fits");
  EXPECT_THAT(message("seed", "-1"), HasSubstr("0 or more"));
  EXPECT_THAT(message("threads", "99999999999"), HasSubstr("that fits"));
  EXPECT_EQ(message("optimizer.lr", "fast"), "optimizer.lr: 'fast' is not a number");
  EXPECT_THAT(message("model.tied", "maybe"), HasSubstr("true or false"));
  EXPECT_EQ(message("sample.prompt", "\xff"), "sample.prompt: this is not UTF-8 text");
  EXPECT_THAT(message("model.kind", "ODD"), HasSubstr("one of PLAIN, FANCY"));
  EXPECT_THAT(message("model.hidden", "[1;x]"), HasSubstr("'x' is not a whole number"));
  EXPECT_THAT(message("model.hidden", "[1;2"), HasSubstr("a list such as [64;32]"));
  EXPECT_EQ(editor.config().steps(), 100) << "nothing was changed";
  EXPECT_THAT(ModelOf(editor).hidden(), ElementsAre(7, 8));
}

TEST(ConfigEditorTest, RefusesTextsThatAreNoConfiguration) {
  ConfigEditor editor = Editor();
  const auto message = [&editor](const std::string& text) {
    const absl::Status status = editor.MergeText(text, "my.textproto");
    EXPECT_FALSE(status.ok()) << text;
    return Message(status);
  };
  EXPECT_THAT(message("batch: 3\nstepps: 4"), HasSubstr("my.textproto:2: "));
  EXPECT_EQ(message("data { file: '\xff' }"), "my.textproto: is not UTF-8 text");
  EXPECT_THAT(message("batch: three"), HasSubstr("my.textproto:1: "));
  EXPECT_THAT(message("model { [type.googleapis.com/tessera.Nothing] { } }"),
              HasSubstr("This program's model has the type "
                        "type.googleapis.com/tessera.TestModelConfig"));
  EXPECT_THAT(message("model { [type.googleapis.com/tessera.DataConfig] { } }"),
              HasSubstr("its model is a tessera.DataConfig, and this program trains a "
                        "tessera.TestModelConfig"));
  EXPECT_THAT(message("model { [type.googleapis.com/tessera.TestModelConfig] { leyers: 1 } }"),
              HasSubstr("leyers"));
  EXPECT_EQ(editor.config().batch(), 0);
}

// Protobuf's parser recurses for every message inside an Any: 20,000 of them overflow the stack.
TEST(ConfigEditorTest, RefusesDeepNesting) {
  ConfigEditor editor = Editor();
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text = "model {\n";
    for (int i = 0; i < depth; ++i) text += open;
    for (int i = 0; i < depth; ++i) text += close;
    return text + "}";
  };
  for (const auto& [open, close] : {std::pair("[type.googleapis.com/google.protobuf.Any] {", "}"),
                                    std::pair("[type.googleapis.com/google.protobuf.Any]: <", ">"),
                                    std::pair("[a.b/google.protobuf.DescriptorProto] {", "}")}) {
    EXPECT_EQ(Message(editor.MergeText(nested(20000, open, close), "my.textproto")),
              "my.textproto:2: is nested more than 16 messages deep");
  }
  EXPECT_TRUE(editor
                  .MergeText("steps: 1 # {{{{{{{{{{{{{{{{{{{{\nsample { prompt: "
                             "'{{{{{{{{{{{{{{{{{{{{<<<<<<<<<<<<<<' }",
                             "test")
                  .ok());
  EXPECT_EQ(editor.config().steps(), 1);
}

TEST(ConfigEditorTest, RefusesTextsThatAreTooLong) {
  ConfigEditor editor = Editor();
  std::string text = "steps: 1 ";
  text.resize(kMaxConfigBytes, ' ');
  EXPECT_TRUE(editor.MergeText(text, "my.textproto").ok());
  EXPECT_EQ(Message(editor.MergeText(text + " ", "my.textproto")),
            "my.textproto: is no configuration: it has more than 1048576 bytes");
  // Regression: a mark made room for 3 more, at which MergeFile (config_sources.h) had cut the
  // file.
  const auto with_mark = [&](int64_t bytes) { return "\xEF\xBB\xBF" + text.substr(0, bytes - 3); };
  EXPECT_FALSE(editor.MergeText(with_mark(kMaxConfigBytes + 1), "my.textproto").ok());
  EXPECT_TRUE(editor.MergeText(with_mark(kMaxConfigBytes), "my.textproto").ok());
}

TEST(ConfigEditorTest, TheTextOfAConfigurationGivesItAgainOverAnything) {
  ConfigEditor editor = Editor();
  ASSERT_TRUE(editor.Set("model.hidden", "[]").ok());
  ASSERT_TRUE(editor.Set("model.dropout", "0").ok());
  ASSERT_TRUE(editor.Set("sample.prompt", "\xC3\xA9 \"quoted\"\n").ok());
  const std::string text = editor.ToText();
  EXPECT_THAT(text, HasSubstr("    dropout: 0\n"));
  EXPECT_THAT(text, HasSubstr("    hidden: []\n"));

  ConfigEditor other = Editor();
  ASSERT_TRUE(other.Set("steps", "7").ok());
  ASSERT_TRUE(other.Set("model.layers", "9").ok());
  ASSERT_TRUE(other.MergeText(text, "text").ok());
  EXPECT_EQ(other.ToText(), text);
  EXPECT_EQ(other.config().sample().prompt(), "\xC3\xA9 \"quoted\"\n");
}

TEST(ConfigEditorTest, ListsEveryField) {
  const std::vector<std::string> paths = Editor().FieldPaths();
  EXPECT_THAT(paths, Contains("model.hidden"));
  EXPECT_THAT(paths, Contains("optimizer.clip_norm"));
  EXPECT_THAT(paths, Contains("steps"));
  EXPECT_THAT(paths, ::testing::Not(Contains("model")));
}

TEST(NearestNameTest, FindsMisspeltNames) {
  const std::vector<std::string> names = {"steps", "batch", "model.layers"};
  EXPECT_EQ(NearestName("step", names), "steps");
  EXPECT_EQ(NearestName("bacth", names), "batch");
  EXPECT_EQ(NearestName("layers", names), "model.layers");
  EXPECT_EQ(NearestName("temperature", names), "");
  EXPECT_EQ(DidYouMean("x", names), "");
}

}  // namespace
}  // namespace tessera

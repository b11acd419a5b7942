// Rules in nvdlfw_inspect's words, and what is said about those that are wrong.
#include "diagnostics/probe_rules.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace minite::diagnostics {
namespace {

ProbeRule only(const std::string& yaml) {
  const std::vector<ProbeRule> rules = parse_probe_rules(yaml, "rules.yaml");
  EXPECT_EQ(rules.size(), 1u);
  return rules.at(0);
}

void refused(const std::string& yaml, const std::string& message) {
  SCOPED_TRACE(yaml);
  test_support::expect_error(ErrorCode::invalid_argument, {message},
                             [&] { (void)parse_probe_rules(yaml, "rules.yaml"); });
}

std::string feature(const std::string& settings, const std::string& name = "LogTensorStats") {
  return "a:\n  enabled: True\n  transformer_engine:\n    " + name + ": {" + settings + "}\n";
}

TEST(ProbeRules, DefaultTakesTheUsualOfEverythingEveryTenthStep) {
  const ProbeRule rule = only(std::string(default_probe_rules()));
  EXPECT_TRUE(rule.matches("layers.11.experts.down"));
  EXPECT_TRUE(rule.matches("lm_head"));
  EXPECT_EQ(rule.tensors.size(), 6u);
  EXPECT_TRUE(rule.stats.contains("underflows%") && rule.stats.contains("std"));
  EXPECT_FALSE(rule.stats.contains("l1_norm"));
  EXPECT_TRUE(rule.acts_at(1) && rule.acts_at(11) && !rule.acts_at(10));
  EXPECT_FALSE(rule.dump_values);
}

TEST(ProbeRules, OperandsByColumnsAreAGroupBesideAll) {
  const auto tensors = [](const std::string& words) { return only(feature("tensors: " + words)).tensors; };
  const std::set<TensorKind> operands = {TensorKind::activation_wgrad, TensorKind::weight_dgrad,
                                         TensorKind::gradient_wgrad};
  EXPECT_EQ(tensors("operands"), operands);
  EXPECT_EQ(tensors("[all, operands]").size(), 9u);
  EXPECT_EQ(tensors("gradient_wgrad"), std::set{TensorKind::gradient_wgrad});
  for (const TensorKind kind : tensors("all")) EXPECT_FALSE(operands.contains(kind));
  EXPECT_EQ(tensor_kinds().size(), 9u);
  for (const TensorKind kind : tensor_kinds()) EXPECT_EQ(tensors(std::string(tensor_name(kind))).size(), 1u);
}

TEST(ProbeRules, LayersByRegexTypeAndGlob) {
  const auto with = [](const std::string& layers) {
    return only("a:\n  layers: " + layers + "\n  transformer_engine: {LogTensorStats: {freq: 2}}\n");
  };
  const ProbeRule regex = with("{layer_name_regex_pattern: '.*\\.(qkv|o)'}");
  EXPECT_TRUE(regex.matches("layers.0.qkv"));
  EXPECT_FALSE(regex.matches("layers.0.qkv2"));  // the whole name
  EXPECT_FALSE(regex.matches("layers.0.down"));
  const ProbeRule types = with("{layer_types: [gate_up, router]}");
  EXPECT_TRUE(types.matches("layers.0.experts.gate_up"));
  EXPECT_FALSE(types.matches("layers.0.o"));
  EXPECT_TRUE(with("'layers.?.o'").matches("layers.1.o"));
  EXPECT_FALSE(with("['layers.?.o', lm_head]").matches("layers.10.o"));
  EXPECT_TRUE(with("{glob: lm_*}").matches("lm_head"));
}

TEST(ProbeRules, StepsAreThoseOfNvdlfwInspect) {
  const ProbeRule rule = only(feature("freq: 5, start_step: 0, end_step: 12"));
  for (int64_t step = 1; step < 20; ++step) EXPECT_EQ(rule.acts_at(step), step == 5 || step == 10) << step;
  const ProbeRule list = only(feature("freq: 2, start_end_list: [[1, 3], [10, 11]]"));
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(list.acts_at(step), step == 1 || step == 3 || step == 10) << step;
}

TEST(ProbeRules, TensorsStructAndDumps) {
  const auto rules = parse_probe_rules(
      "a:\n"
      "  transformer_engine:\n"
      "    LogFp8TensorStats:\n"
      "      freq: 3\n"
      "      tensors_struct:\n"
      "        - {tensor: activation, stats: [underflows%]}\n"
      "        - {tensor: weight, stats: [overflow, mse], freq: 7}\n"
      "    DumpTensors: {tensors: [fprop, wgrad], quantized_tensor: False, sides: sampler}\n"
      "off: {enabled: false, transformer_engine: {LogTensorStats: {}}}\n",
      "rules.yaml");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].stats, (std::set<std::string_view>{"underflows%"}));
  EXPECT_EQ(rules[0].freq, 3);
  EXPECT_EQ(rules[1].stats, (std::set<std::string_view>{"overflows%", "mse"}));
  EXPECT_EQ(rules[1].tensors, (std::set<TensorKind>{TensorKind::weight}));
  EXPECT_EQ(rules[1].freq, 7);
  EXPECT_TRUE(rules[2].dump_values && !rules[2].dump_codes && rules[2].stats.empty());
  EXPECT_EQ(rules[2].tensors, (std::set<TensorKind>{TensorKind::output, TensorKind::wgrad}));
  EXPECT_EQ(rules[2].sides, (std::set<Side>{Side::sampler}));
  EXPECT_TRUE(only(feature("dump: true")).dump_codes);
}

TEST(ProbeRules, ErrorsNameLineWordAndNearestWord) {
  refused(feature("stats: [min, undrflows%]"),
          "rules.yaml:4: unknown statistic of LogTensorStats 'undrflows%'");
  refused(feature("stats: [min, undrflows%]"), "did you mean 'underflows%'?");
  refused(feature("stats: [min]", "LogFp8TensorStats"), "unknown statistic of LogFp8TensorStats 'min'");
  refused(feature("", "LogTensorStat"), "rules.yaml:4: unknown key 'LogTensorStat'");
  refused(feature("tensors: [activations]"), "unknown tensor 'activations'");
  refused(feature("tensors: gradient_wgrad", "DumpTensors"), "rules.yaml:4: gradient_wgrad has statistics");
  refused(feature("tensors: [all, operands], dump: true"), "minite quantize --columnwise");
  refused(feature("tensors_struct: [{tensor: weight_dgrad, dump: true}]"), "weight_dgrad has statistics");
  refused(feature("tensors: [activations]"), "did you mean 'activation'?");
  refused(feature("freq: 0"), "rules.yaml:4: freq is '0', expected a whole number from 1");
  refused(feature("start_step: 9, end_step: 3"), "the steps 9 to 3 hold none");
  refused(feature("sides: learnr"), "unknown side 'learnr'");
  refused(feature("enabled: yes"), "enabled is 'yes'; use true or false");
  refused("a:\n  layers: {layer_name_regex_pattern: '(' }\n  transformer_engine: {LogTensorStats: {}}\n",
          "rules.yaml:2: layer_name_regex_pattern '(' is no regular expression");
  refused("a:\n  layer: x\n", "rules.yaml:2: unknown key 'layer'");
  refused("a:\n  enabled: true\n", "section a has no feature");
  refused("- a\n", "probe rules are a map of named sections");
  refused("a: {enabled: false}\n", "every section is disabled");
  test_support::expect_error(ErrorCode::corrupt_data, {"rules.yaml:"},
                             [] { (void)parse_probe_rules("a: [", "rules.yaml"); });
}

TEST(ProbeRules, ARuleThatMatchesNothingIsRefused) {
  const auto rules =
      parse_probe_rules("a:\n  layers: fc1\n  transformer_engine: {LogTensorStats: {}}\n", "r.yaml");
  const std::vector<std::string> modules = {"layers.0.qkv", "lm_head"};
  test_support::expect_error(ErrorCode::invalid_argument,
                             {"r.yaml:3: section a matches no module; modules are layers.0.qkv, lm_head"},
                             [&] { check_probe_rules(rules, modules); });
}

}  // namespace
}  // namespace minite::diagnostics

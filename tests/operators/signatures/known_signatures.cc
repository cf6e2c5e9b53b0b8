#include "tests/operators/signatures/known_signatures.h"

#include <algorithm>

namespace tessera::operator_tests {
namespace {

const Reason kUnmade = {
    "unmade",
    "Nothing makes such partial values: gradients are sums, never maxima or log-sum-exps, and "
    "activations, weights and statistics are complete where they are read with others."};
const Reason kState = {"state", "A state, and what is updated with it, is never partial."};
const Reason kInput = {"input", "Pictures are an input, which is never partial."};
const Reason kRounded = {
    "rounded",
    "Terms that are rounded one by one have another sum. `terms` says whether they are; the "
    "reference computes in double and does not see it."};
const Reason kLowered = {"lowered", "Only lowering makes this operator, to make partial sums."};

}  // namespace

const std::vector<const Reason*>& AllReasons() {
  static const auto* const reasons =
      new std::vector<const Reason*>{&kUnmade, &kState, &kInput, &kRounded, &kLowered};
  return *reasons;
}

const std::vector<KnownMissing>& AllKnownMissing() {
  static const auto* const missing = new std::vector<KnownMissing>{
      {{"cast"}, {"P -> P", "P(lse) -> P(lse)"}, &kRounded},
      {{"embedding"},
       {"P(max), B -> P(max)", "P(min), B -> P(min)", "P(lse), B -> P(lse)"},
       &kUnmade},
      {{"relu_grad"}, {"P(max), B -> P(max)", "P(min), B -> P(min)"}, &kUnmade},
      {{"dropout"}, {"P(max), B, B -> P(max)", "P(min), B, B -> P(min)"}, &kUnmade},
      {{"reduce_max_grad"}, {"P(max), B, B -> P(max)", "P(min), B, B -> P(min)"}, &kUnmade},
      {{"zero_elsewhere"},
       {"S(0) -> S(0)", "S(1) -> S(1)", "P(max) -> P(max)", "P(min) -> P(min)", "P(lse) -> P(lse)"},
       &kLowered},
      {{"random_crop_flip"},
       {"P, B, B -> P", "P(max), B, B -> P(max)", "P(min), B, B -> P(min)"},
       &kInput},
      {{"layer_norm"},
       {"B, B, P(max) -> P(max), B, B", "B, B, P(min) -> P(min), B, B",
        "B, B, P(lse) -> P(lse), B, B", "B, P, P -> P, B, B"},
       &kUnmade},
      {{"layer_norm_grad"}, {"B, B, P, B, B -> P, B, B"}, &kUnmade},
      {{"layer_norm_apply"},
       {"B, B, B, B, P(max) -> P(max)", "B, B, B, B, P(min) -> P(min)",
        "B, B, B, B, P(lse) -> P(lse)", "B, B, B, P, P -> P", "B, B, P, B, P -> P",
        "P, P, B, B, P -> P"},
       &kUnmade},
      {{"layer_norm_grad_sums"},
       {"B, B, B, B, P -> B, P", "B, B, P, B, B -> P, P", "B, P, B, P, B -> B, P"},
       &kUnmade},
      {{"layer_norm_grad_apply"},
       {"B, B, B, B, B, P(max), B -> P(min), B, B", "B, B, B, B, B, P(min), B -> P(max), B, B",
        "B, B, P, B, B, P, P -> P, B, B", "B, P, P, P, B, P, B -> P, P, B"},
       &kUnmade},
      {{"batch_norm_sum"}, {"P -> P, B", "P, B -> P, B"}, &kUnmade},
      {{"batch_norm"},
       {"B, B, B, B, P(max) -> P(max)", "B, B, B, B, P(min) -> P(min)",
        "B, B, B, B, P(lse) -> P(lse)", "B, B, B, P, P -> P", "B, B, P, B, P -> P",
        "P, P, B, B, P -> P", "B, B, B, B, P(max), B -> P(max)", "B, B, B, B, P(min), B -> P(min)",
        "B, B, B, B, P(lse), B -> P(lse)", "B, B, B, P, P, B -> P", "B, B, P, B, P, B -> P",
        "P, P, B, B, P, B -> P", "B, B, B, B, P(max), B, B -> P(max)",
        "B, B, B, B, P(min), B, B -> P(min)", "B, B, B, B, P(lse), B, B -> P(lse)",
        "B, B, B, P, P, B, B -> P", "B, B, P, B, P, B, B -> P", "P, P, B, B, P, B, B -> P"},
       &kUnmade},
      {{"batch_norm_grad_sums"}, {"B, B, B, P -> B, P", "B, P, P, B -> B, P"}, &kUnmade},
      {{"batch_norm_grad"},
       {"B, B, P -> P", "B, P, B -> P", "B, B, P, B, B, B, B, B -> P",
        "P, B, B, P, P, P, B, B -> P", "B, B, P, B, B, B, B, B, B -> P",
        "P, B, B, P, P, P, B, B, B -> P"},
       &kUnmade},
      {{"attention"}, {"B, B, P -> P, B"}, &kUnmade},
      {{"attention_grad"}, {"B, B, B, P, P, B -> P, P, B"}, &kUnmade},
      {{"attention_decode"},
       {"B, B, P, B, P, B -> P, B, P", "B, B, P(max), B, B, B -> P(max), B, P(max)",
        "B, B, P(min), B, B, B -> P(min), B, P(min)"},
       &kUnmade},
      {{"linear_log_sum_exp_grad"},
       {"B, B, B, P, B, B, B -> P, B", "B, B, P, B, B, B, B -> B, P", "B, B, P, P, B, B, B -> P, P",
        "B, P, B, B, B, B, P(lse) -> P, P"},
       &kUnmade},
      {{"log_sum_exp_grad"},
       {"B, P, P(lse), B, B -> P", "P(max), B, B, B, B -> P(max)", "P(min), B, B, B, B -> P(min)",
        "B, P(max), B, B, B -> P(max)", "B, P(min), B, B, B -> P(min)"},
       &kUnmade},
      {{"sgd_update"},
       {"P, B, B, P, B -> P", "P, P, B, B, B -> P", "P, B, P, B, P, B -> P, P",
        "P, P, P, B, B, B -> P, P"},
       &kState},
  };
  return *missing;
}

const std::vector<NeedsCommunication>& AllNeedingCommunication() {
  static const std::string statistics =
      "The statistics are of all elements of a row: in parts, they are completed between two "
      "operators.";
  static const std::string halo = "A window reads rows of the next rank.";
  static const std::string strided =
      "Consecutive elements of one dimension are not consecutive in the other one: a strided "
      "split, which no layout is. What is to be split comes first among joined dimensions "
      "(writing-a-model.md).";
  static const std::string own_axis =
      "A rank's parts of the result come from other ranks. With a dimension of their own, parts of "
      "one size need no communication (writing-a-model.md).";
  static const auto* const needing = new std::vector<NeedsCommunication>{
      {"add", "[R, C], [C]", "P, B", "Each rank would add the bias."},
      {"reshape", "[B, T, C] to [R, C], R = B*T", "S(1)", strided},
      {"reshape", "[R, H, D] to [R, C], C = H*D", "S(2)", strided},
      {"split", "[R, C] to [R, a], [R, b]", "S(1)", own_axis},
      {"concat", "[R, a], [R, b]", "S(1), S(1)", own_axis},
      {"convolution", "[B, H, W, C], [O, h, w, C]", "S(1), B", halo},
      {"convolution", "[B, H, W, C], [O, h, w, C]", "S(2), B", halo},
      {"max_pool", "[B, H, W, C]", "S(1)", halo},
      {"average_pool", "[B, H, W, C]", "S(1)", halo},
      {"softmax", "[R, C] along C", "S(1)", statistics},
      {"softmax_grad", "[R, C], [R, C] along C", "S(1), S(1)", statistics},
      {"layer_norm", "[R, C], [C], [C]", "S(1), S(0), S(0)", statistics},
      {"layer_norm_grad", "[R, C], [R, C], [C], [R], [R]", "S(1), S(1), S(0), B, B", statistics},
      {"attention", "[B, T, H, D], [B, T, H, D], [B, T, H, D] causal", "S(1), S(1), S(1)",
       "A query reads the keys and values of earlier ranks."},
      {"attention", "[B, T, H, D], [B, S, H, D], [B, S, H, D]", "B, S(1), S(1)",
       "The softmax is over all keys: no layout of outputs joins parts with weights."},
      {"attention_decode",
       "[B, 1, H, D], [B, 1, H, D], [B, 1, H, D], [B, T, H, D], [B, T, H, D], []",
       "B, B, B, S(1), S(1), B",
       "The softmax is over all rows of the cache: in parts, it is completed."},
      {"linear_log_sum_exp", "[R, C], [V, C], [R]", "S(1), S(1), B",
       "Logits are partial sums, of which no log-sum-exp can be taken: in parts, they are "
       "completed."},
      {"linear_log_sum_exp_grad", "[R], [R], [R, C], [V, C], [R], [R]", "B, B, S(1), S(1), B, B",
       "Logits, which are made again, are partial sums: in parts, they are completed."},
      {"log_sum_exp", "[R, V], [R]", "P, B",
       "A log-sum-exp of terms of logits is not made of theirs."},
      {"top_k", "[R, V]", "S(1)", "Positions are in all of the row."},
      {"top_k_correct", "[R, V], [R]", "S(1), B", "Ranks are counted in all of the row."},
  };
  return *needing;
}

const Reason* ReasonOfMissing(absl::string_view op, absl::string_view signature) {
  for (const KnownMissing& known : AllKnownMissing()) {
    const auto has = [](const std::vector<std::string>& texts, absl::string_view text) {
      return std::find(texts.begin(), texts.end(), text) != texts.end();
    };
    if (has(known.ops, op) && has(known.signatures, signature)) return known.reason;
  }
  return nullptr;
}

}  // namespace tessera::operator_tests

// A model of sequences of tokens: it predicts the next token, and generates text.
#ifndef TESSERA_CORE_MODEL_LANGUAGE_MODEL_H_
#define TESSERA_CORE_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/model/token_fields.h"

namespace tessera {

// Thread safety: const methods may run concurrently, on different Graphs.
class LanguageModel : public Model {
 public:
  // Tokens are in [0, vocabulary()).
  virtual int64_t vocabulary() const = 0;
  // The longest sequence that it accepts.
  virtual int64_t max_sequence() const = 0;

  // Records the logits of every position of a batch, from the input "tokens" alone: f32 [batch,
  // sequence, vocabulary], or [batch, vocabulary] if the model predicts only the last position.
  virtual Tensor RecordLogits(Graph& graph, int64_t batch, int64_t sequence) const = 0;

  // Records the generation of one token: declares the inputs "token" (i32 [1]) and "position" (i64
  // []: how many tokens came before it), the caches (Role::kCache), and the parameters; returns the
  // logits of the next token, f32 [vocabulary]. Positions run from 0 to length - 1.
  virtual Tensor RecordNextToken(Graph& graph, int64_t length) const = 0;

  std::vector<BatchField> BatchFields(int64_t sequence) const override {
    return TokenFields(sequence, vocabulary(), "model.vocabulary");
  }
  SampleUnit Unit(int64_t sequence) const override { return {"sequence", "token", sequence}; }
  const LanguageModel* AsLanguageModel() const override { return this; }
};

}  // namespace tessera

#endif  // TESSERA_CORE_MODEL_LANGUAGE_MODEL_H_

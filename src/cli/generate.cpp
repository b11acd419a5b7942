// minite generate CKPT --prompt TEXT: samples with their log-probabilities.
#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <optional>

#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "io/chat_template.h"

namespace minite::cli {
namespace {

struct GenerateArgs {
  LoadOptions load;
  std::string prompt;
  bool chat = false;
  std::optional<std::string> system;
  SampleParams sample;
  int64_t samples = 1;
  ReportStyle style = ReportStyle::text;
};

/// What the model continues: the prompt, or the chat that begins with it.
std::vector<int32_t> prompt_of(const GenerateArgs& args, const io::Tokenizer& tokenizer,
                               const io::ChatTemplate* chat) {
  if (chat == nullptr) return tokenizer.encode_prompt(args.prompt);
  std::vector<io::ChatMessage> messages;
  if (args.system) messages.push_back({"system", *args.system});
  messages.push_back({"user", args.prompt});
  const io::ChatText text = render_chat(*chat, messages, tokenizer.token_text(tokenizer.bos_id()));
  return tokenizer.encode(text.text, text.special);
}

int generate(const GenerateArgs& args) {
  require(args.chat || !args.system, "--system is part of a chat; add --chat");
  LoadedModel model(args.load);
  const io::ChatTemplate* chat = nullptr;
  if (args.chat) chat = &io::chat_template_of(model.tokenizer().chat_template(), args.load.checkpoint);
  const std::vector<int32_t> prompt = prompt_of(args, model.tokenizer(), chat);
  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < args.samples; ++i) requests.push_back({prompt, static_cast<uint64_t>(i)});
  const std::vector<Sample> samples = model.generate(requests, args.sample);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Sample& s : samples) {
    const double logp = std::accumulate(s.logp.begin(), s.logp.end(), 0.0);
    const std::string response = model.tokenizer().decode(s.tokens);
    if (args.style == ReportStyle::json) {
      list.push_back({{"text", response}, {"tokens", s.tokens}, {"logp", s.logp}, {"finished", s.finished}});
    } else {
      print(fmt::format("{}{}   (log p {:.4f}, {} tokens{})\n", args.chat ? "" : args.prompt, response, logp,
                        s.tokens.size(), s.finished ? "" : ", cut"));
    }
  }
  if (args.style == ReportStyle::json) {
    print_json(
        {{"prompt", args.prompt},
         {"chat", chat == nullptr ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(chat->name)},
         {"prompt_tokens", prompt},
         {"recipe", model.recipe()},
         {"kv_cache", model.kv_cache()},
         {"samples", list}});
  }
  return kOk;
}

}  // namespace

std::function<int()> add_generate(CLI::App& app) {
  auto args = std::make_shared<GenerateArgs>();
  add_load_options(app, args->load);
  app.add_option("--prompt", args->prompt, "text to continue, or with --chat to answer")->required();
  app.add_flag("--chat", args->chat, "the prompt is a user's message, in the checkpoint's chat template");
  app.add_option("--system", args->system, "system message (default: the template's own, if it has one)");
  app.add_option("-n,--samples", args->samples, "responses")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", args->sample.temperature, "0: greedy")->capture_default_str();
  app.add_option("--top-k", args->sample.top_k, "0: all tokens")->capture_default_str();
  app.add_option("--top-p", args->sample.top_p, "1: all tokens")->capture_default_str();
  app.add_option("--max-new-tokens", args->sample.max_new_tokens, "longest response")->capture_default_str();
  app.add_option("--seed", args->sample.seed, "seed of the draws")->capture_default_str();
  add_json_flag(app, args->style);
  return [args] { return generate(*args); };
}

}  // namespace minite::cli

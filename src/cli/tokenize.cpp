// minite tokenize CKPT: what a checkpoint's tokenizer makes of texts, and back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "io/json_file.h"
#include "io/tokenizer.h"

namespace minite::cli {
namespace {

struct TokenizeArgs {
  std::string checkpoint, data, output;
  std::vector<std::string> texts;
  bool special = false;
  ReportStyle style = ReportStyle::text;
};

/// The texts of a JSONL file of {"text": "..."}.
std::vector<std::string> read_texts(const std::string& path) {
  const io::JsonLines lines = io::read_json_lines(path);
  std::vector<std::string> texts;
  for (size_t i = 0; i < lines.rows.size(); ++i) {
    const nlohmann::json& row = lines.rows[i];
    const bool good = row.contains("text") && row.at("text").is_string();
    if (!good) fail(ErrorCode::corrupt_data, "{}:{}: has no \"text\"", path, lines.numbers[i]);
    texts.push_back(row.at("text").get<std::string>());
  }
  return texts;
}

int tokenize(const TokenizeArgs& args) {
  const std::unique_ptr<io::Tokenizer> tokenizer = io::load_tokenizer(args.checkpoint);
  if (!args.output.empty()) tokenizer->save(args.output);
  const std::vector<std::string> texts = args.data.empty() ? args.texts : read_texts(args.data);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& text : texts) {
    const io::TextRange all{0, text.size()};
    const std::vector<int32_t> ids =
        args.special ? tokenizer->encode(text, {&all, 1}) : tokenizer->encode(text);
    if (args.style == ReportStyle::json) {
      rows.push_back({{"text", text}, {"ids", ids}, {"decoded", tokenizer->decode(ids)}});
    } else {
      print(fmt::format("{}\n", fmt::join(ids, " ")));
    }
  }
  if (args.style == ReportStyle::json) {
    print_json({{"vocab_size", tokenizer->vocab_size()},
                {"prefix", tokenizer->prefix()},
                {"bos", tokenizer->bos_id()},
                {"eos", tokenizer->eos_id()},
                {"pad", tokenizer->pad_id()},
                {"rows", rows}});
  }
  return kOk;
}

}  // namespace

std::function<int()> add_tokenize(CLI::App& app) {
  auto args = std::make_shared<TokenizeArgs>();
  app.add_option("CKPT", args->checkpoint, "checkpoint: a folder or a GGUF file")->required();
  CLI::Option* text =
      app.add_option("--text", args->texts, "a text; may be given again")->allow_extra_args(false);
  app.add_option("--data", args->data, "JSONL of {\"text\": \"...\"}")->excludes(text);
  app.add_flag("--special", args->special, "text that spells a special token is that token");
  app.add_option("-o,--output", args->output,
                 "also write the tokenizer's files into this folder, as the `tokenizers` library reads them");
  add_json_flag(app, args->style);
  return [args] { return tokenize(*args); };
}

}  // namespace minite::cli

// Checkpoints that do not fit are refused: by --init, eval and generate.
#include "support/edit_checkpoint.h"
#include "support/refused.h"

namespace minite {
namespace {

using test_support::edit_tensor;
using test_support::EditedTensor;
using test_support::expect_refused;
using test_support::slurp;
using test_support::spill;
using test_support::TinyRuns;
namespace fs = std::filesystem;

/// A run that ends with SFT, and copies of its product.
class Models : public testing::Test {
 protected:
  Models() { (void)runs.finish(runs.start("run", {"--set", "rl.steps=0", "--set", "contrast.steps=0"})); }

  fs::path copy(const std::string& name) const {
    fs::copy(runs.checkpoint("run", test_support::kTinySft), runs / name, fs::copy_options::recursive);
    return runs / name;
  }
  void replace(const fs::path& file, const std::string& what, const std::string& with) const {
    std::string text = slurp(file);
    const size_t at = text.find(what);
    ASSERT_NE(at, text.npos) << what << " is not in " << text;
    spill(file, text.replace(at, what.size(), with));
  }
  /// --init, generate and eval refuse `model` with the same reason.
  void refuse(const fs::path& model, const std::vector<std::string>& parts) const {
    expect_refused(runs, runs.start("new", {"--init", model.string()}), parts);
    expect_refused(runs, {"generate", model.string(), "--prompt", "1+1="}, parts);
  }

  TinyRuns runs;
};

TEST_F(Models, OfAnotherShape) {
  const fs::path config = copy("config");
  replace(config / "config.json", "\"hidden_size\": 32", "\"hidden_size\": 64");
  refuse(config, {"model.embed_tokens.weight", "32]", "the model needs", "64]"});

  const fs::path tensor = copy("tensor");
  edit_tensor(tensor, "model.layers.1.mlp.down_proj.weight", [](EditedTensor& t) {
    t.info.shape = {t.info.shape[1], t.info.shape[0]};
  });
  refuse(tensor, {"model.layers.1.mlp.down_proj.weight is BF16 [64, 32], the model needs BF16 [32, 64]"});

  const fs::path type = copy("type");
  edit_tensor(type, "model.norm.weight", [](EditedTensor& t) { t.info.type = io::StoredType::f16; });
  refuse(type, {"model.norm.weight is F16", "BF16"});
}

TEST_F(Models, CutShortOrIncomplete) {
  const fs::path cut = copy("cut");
  fs::resize_file(cut / "model.safetensors", 4000);
  refuse(cut, {(cut / "model.safetensors").string(), "is cut short"});

  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const fs::path missing = copy(std::string("no_") + file);
    fs::remove(missing / file);
    refuse(missing, {(missing / file).string(), "o such file"});
  }
  refuse(runs / "nowhere", {runs.text("nowhere"), "no such file"});

  const fs::path config = copy("bad_json");
  spill(config / "config.json", "{\"hidden_size\": ");
  refuse(config, {(config / "config.json").string()});
}

TEST_F(Models, WhoseTokenizerIsLarger) {
  const fs::path model = copy("model");
  replace(model / "tokenizer.json", "\"=\": 16", "\"=\": 16,\n      \"x\": 17");
  refuse(model, {"the tokenizer has 18 tokens", "vocab_size=17"});
}

TEST_F(Models, ACharacterWithoutAToken) {
  const fs::path model = copy("model");
  spill(runs / "x.jsonl",
        "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"1x1=\", \"answer\": \"1\"}\n");
  const std::vector<std::string> parts = {"'x' (U+0078)", "byte 1 of '1x1='", "not in the vocabulary"};
  for (const char* verb : {"sft", "rl"}) {
    expect_refused(runs,
                   {verb, "--data", runs.text("x.jsonl"), "--init", model.string(), "-o", runs.text("new"),
                    "--steps", "1", "--set", "max_length=32"},
                   parts);
  }
  expect_refused(runs, {"eval", model.string(), "--data", runs.text("x.jsonl")}, parts);
  expect_refused(runs, {"generate", model.string(), "--prompt", "1x1="}, parts);
}

TEST_F(Models, RoomAndOptions) {
  const fs::path model = copy("model");
  const std::string name = model.string();
  expect_refused(runs, runs.start("new", {"--init", name, "--set", "max_length=64"}),
                 {"max_length=64", "max_position_embeddings=32"});
  expect_refused(runs, {"generate", name, "--prompt", std::string(40, '1')}, {"41 tokens", "max_length=32"});
  expect_refused(runs, {"generate", name, "--prompt", "1", "--temperature", "nan"}, {"temperature=nan"});
  expect_refused(runs, {"generate", name, "--prompt", "1", "--recipe", "bf61"}, {"did you mean 'bf16'?"});
  expect_refused(runs, {"generate", name, "--prompt", "1", "--recipe", "nvfp4_per_tensor"}, {"layers.0.qkv"});
  expect_refused(runs, {"generate", name, "--prompt", "1", "--threads", "99999"}, {"--threads", "99999"});
  const std::string data = runs.text("data.jsonl");
  spill(data, "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  expect_refused(runs, {"eval", name, "--data", data, "--k", "0"}, {"--k"});
  expect_refused(runs, {"eval", name, "--data", data, "--k", "4", "--samples", "2"},
                 {"--samples 2", "--k 4"});
  expect_refused(runs, {"eval", name, "--data", data, "--k", "4", "--temperature", "0"}, {"--temperature 0"});
  expect_refused(runs, {"eval", name, "--data", runs.text("none.jsonl")}, {"none.jsonl", "no such file"});
}

}  // namespace
}  // namespace minite

// minite matmul IN.safetensors -o OUT.safetensors --recipe R: one product of a linear layer.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/op_runner.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "io/float_values.h"
#include "minite/convention.h"
#include "modules/product.h"

namespace minite::cli {
namespace {

struct Args {
  std::string input, output, recipe, pass = "fprop", epilogue = "minite";
  uint64_t seed = 0;
  RunnerOptions runner;
  ReportStyle style = ReportStyle::text;
};

/// One product: what it is called, and the two tensors that it reads.
struct PassRow {
  LinearPass pass;
  std::string_view name, output, formula;
  std::array<const char*, 2> reads;
};
constexpr std::array<PassRow, 3> kPasses = {{
    {LinearPass::fprop, "fprop", "y", "y = x w^T", {"x", "w"}},
    {LinearPass::dgrad, "dgrad", "dx", "dx = dy w", {"dy", "w"}},
    {LinearPass::wgrad, "wgrad", "dw", "dw = dy^T x", {"dy", "x"}},
}};

const PassRow& pass_named(const std::string& name) {
  std::vector<std::string_view> names;
  for (const PassRow& row : kPasses) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::invalid_argument, "--pass {}: expected {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

/// How outer scales act on the accumulator.
Epilogue epilogue_named(const std::string& name) {
  for (const Epilogue epilogue : {Epilogue::minite, Epilogue::te}) {
    if (to_string(epilogue) == name) return epilogue;
  }
  fail(ErrorCode::invalid_argument, "--epilogue {}: expected minite or te", name);
}

/// The two tensors of a pass, loaded, and the sizes that they agree on.
struct Problem {
  std::array<io::FloatValues, 2> values;
  ProductTensors tensors;
  int64_t m = -1, n = -1, k = -1;
  int64_t rounded = 0;
};

TensorView load(const io::SafetensorsFile& file, const std::string& name, io::FloatValues& values) {
  const io::TensorInfo& tensor = file.at(name);
  require(tensor.shape.size() == 2, "{}: tensor \"{}\" has shape [{}]; a product takes matrices",
          file.path().string(), name, fmt::join(tensor.shape, ", "));
  require(io::is_wide_float(tensor.type), "{}: tensor \"{}\" is {}; expected F64, F32, F16 or BF16",
          file.path().string(), name, io::stored_type(tensor.type).name);
  values = io::load_floats(tensor);
  return values.view(tensor.shape[0], tensor.shape[1]);
}

/// Sets a size, or checks that it is the one that another tensor has.
void agree(int64_t& size, int64_t value, const char* dimension, const std::string& name,
           const PassRow& pass) {
  require(value > 0, "{}: {} of \"{}\" is 0; a product needs elements", pass.name, dimension, name);
  require(size < 0 || size == value,
          "{}: {} is {} in \"{}\" and {} in the other tensor; {} with x [M,K], w "
          "[N,K], dy [M,N]",
          pass.name, dimension, value, name, size, pass.formula);
  size = value;
}

Problem read_problem(const io::SafetensorsFile& file, const PassRow& pass) {
  Problem problem;
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = pass.reads[i];
    const TensorView view = load(file, name, problem.values[i]);
    problem.rounded += problem.values[i].rounded;
    const bool is_x = name == "x", is_w = name == "w";
    (is_x ? problem.tensors.x : is_w ? problem.tensors.w : problem.tensors.dy) = view;
    agree(is_w ? problem.n : problem.m, view.rows, is_w ? "N" : "M", name, pass);
    agree(is_x || is_w ? problem.k : problem.n, view.cols, is_x || is_w ? "K" : "N", name, pass);
  }
  return problem;
}

/// What is said when the contracted dimension is cut; "" otherwise.
std::string padding_text(const Problem& problem, const PassRow& pass, const MatmulSpec& spec) {
  const bool fprop = pass.pass == LinearPass::fprop, dgrad = pass.pass == LinearPass::dgrad;
  const int64_t depth = fprop ? problem.k : dgrad ? problem.n : problem.m;
  for (const QuantSpec& operand : {spec.a, spec.b}) {
    const int block = format(operand.format).block;
    if (block > 0 && depth % block != 0)
      return fmt::format("{}={} is not a multiple of {}: the last block is padded with zeros",
                         fprop   ? "K"
                         : dgrad ? "N"
                                 : "M",
                         depth, block);
  }
  return {};
}

int run(const Args& args) {
  const PassRow& pass = pass_named(args.pass);
  const Epilogue epilogue = epilogue_named(args.epilogue);
  const RecipeSpec& recipe = get_recipe(args.recipe);
  const io::SafetensorsFile file(args.input);
  std::error_code ignored;
  require(!std::filesystem::equivalent(args.input, args.output, ignored),
          "-o {} is the input itself; name another file", args.output);
  const Problem problem = read_problem(file, pass);
  OpRunner runner(args.runner);
  const LinearProduct product(recipe.params, pass.pass, problem.m, problem.n, problem.k, runner.table(),
                              "matmul", epilogue);
  const Buffer out(product.out_rows() * product.out_cols() * int64_t{sizeof(float)});
  product.run(*runner.context().pool, problem.tensors, args.seed,
              TensorView(reinterpret_cast<float*>(out.data()), product.out_rows(), product.out_cols()));
  const std::string name(pass.output);
  io::write_safetensors(args.output,
                        {{name,
                          {io::StoredType::f32,
                           {product.out_rows(), product.out_cols()},
                           {out.data(), static_cast<size_t>(out.size())}}}},
                        {{"minite.recipe", std::string(recipe.name)},
                         {"minite.pass", std::string(pass.name)},
                         {"minite.epilogue", args.epilogue}});
  const std::string padding = padding_text(problem, pass, product.spec());
  if (args.style == ReportStyle::json) {
    print_json({{"file", args.output},
                {"tensor", name},
                {"shape", {product.out_rows(), product.out_cols()}},
                {"recipe", recipe.name},
                {"pass", pass.name},
                {"a", to_string(product.spec().a)},
                {"b", to_string(product.spec().b)},
                {"epilogue", args.epilogue},
                {"plan", to_string(product.plan())},
                {"rounded_to_f32", problem.rounded},
                {"padding", padding}});
    return kOk;
  }
  std::string text =
      fmt::format("{}: {} [{}, {}], {}, recipe {}: {} times {}\n{}\n", args.output, name, product.out_rows(),
                  product.out_cols(), pass.formula, recipe.name, to_string(product.spec().a),
                  to_string(product.spec().b), to_string(product.plan()));
  if (!padding.empty()) text += padding + "\n";
  if (problem.rounded > 0)
    text += fmt::format("{} F64 values are not exact in FP32 and were rounded to nearest even\n",
                        problem.rounded);
  print(text);
  return kOk;
}

}  // namespace

std::function<int()> add_matmul(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("IN", args->input, "safetensors file with x [M,K], w [N,K], dy [M,N], as the pass needs")
      ->required();
  app.add_option("-o,--output", args->output, "safetensors file with y, dx or dw, F32")->required();
  app.add_option("--recipe", args->recipe, "a name from `minite recipes`")->required();
  app.add_option("--pass", args->pass, "fprop: y = x w^T; dgrad: dx = dy w; wgrad: dw = dy^T x")
      ->capture_default_str();
  app.add_option("--epilogue", args->epilogue, "how outer scales act: minite")->capture_default_str();
  app.add_option("--seed", args->seed, "of stochastic rounding")->capture_default_str();
  add_runner_options(app, args->runner);
  add_json_flag(app, args->style);
  return [args] { return run(*args); };
}

}  // namespace minite::cli

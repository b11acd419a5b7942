#pragma once
// A verb of the command: one file per verb, one row in main.cpp.
#include <CLI/CLI.hpp>
#include <functional>

namespace minite::cli {

/// What a verb returns to the shell; Error::exit_code() covers the rest.
enum ExitCode { kOk = 0, kCheckFailed = 1, kUsage = 2, kRunFailed = 3 };

/// Adds options to `app` (already named) and returns the function to run when the verb was chosen.
using AddVerb = std::function<int()> (*)(CLI::App& app);

// The verbs, one file each; main.cpp has the table.
std::function<int()> add_bench(CLI::App& app);
std::function<int()> add_capture(CLI::App& app);
std::function<int()> add_compare(CLI::App& app);
std::function<int()> add_convert(CLI::App& app);
std::function<int()> add_describe(CLI::App& app);
std::function<int()> add_doctor(CLI::App& app);
std::function<int()> add_eval(CLI::App& app);
std::function<int()> add_explore(CLI::App& app);
std::function<int()> add_formats(CLI::App& app);
std::function<int()> add_gap(CLI::App& app);
std::function<int()> add_generate(CLI::App& app);
std::function<int()> add_inspect(CLI::App& app);
std::function<int()> add_matmul(CLI::App& app);
std::function<int()> add_metrics(CLI::App& app);
std::function<int()> add_perplexity(CLI::App& app);
std::function<int()> add_profile(CLI::App& app);
std::function<int()> add_quantize(CLI::App& app);
std::function<int()> add_recipes(CLI::App& app);
std::function<int()> add_report(CLI::App& app);
std::function<int()> add_rl(CLI::App& app);
std::function<int()> add_sft(CLI::App& app);
std::function<int()> add_stats(CLI::App& app);
std::function<int()> add_sweep(CLI::App& app);
std::function<int()> add_synth(CLI::App& app);
std::function<int()> add_tasks(CLI::App& app);
std::function<int()> add_tokenize(CLI::App& app);

}  // namespace minite::cli

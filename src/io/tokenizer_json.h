#pragma once
// The Hugging Face files of a character tokenizer: a WordLevel model behind a Split into single characters.
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace minite::io {

/// Ids 0, 1, 2 of every character tokenizer.
inline constexpr std::array<std::string_view, 3> kSpecialTokens = {"<pad>", "<bos>", "<eos>"};

/// Writes tokenizer.json and tokenizer_config.json for `characters` (UTF-8, ascending, id 3 first) into
/// `folder`, made if it is missing. Error: io.
void write_tokenizer_json(const std::filesystem::path& folder, std::string_view characters);

/// tokenizer.json in `path`, or `path` itself when it is no folder.
[[nodiscard]] std::filesystem::path tokenizer_file(const std::filesystem::path& path);
/// Its bytes. Errors: (not_found), (io).
[[nodiscard]] std::string read_tokenizer_text(const std::filesystem::path& file);
/// The document in them; `file` stands for it in errors. Error: (corrupt_data).
[[nodiscard]] nlohmann::json parse_tokenizer_json(const std::string& text, const std::filesystem::path& file);
/// As read_tokenizer_json() for a document that was parsed; `file` stands for it in errors.
[[nodiscard]] std::string characters_of(const nlohmann::json& document, const std::string& file);
/// The characters of the tokenizer.json `file`, in the order of their ids. Errors: (not_found),
/// (corrupt_data), and (unsupported) for a file that means anything but what is written above.
[[nodiscard]] std::string read_tokenizer_json(const std::filesystem::path& file);

}  // namespace minite::io

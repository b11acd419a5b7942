#pragma once
// The Hugging Face files of a character tokenizer: a WordLevel model behind a Split into single characters.
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace minite::io {

/// Ids 0, 1, 2 of every character tokenizer.
inline constexpr std::array<std::string_view, 3> kSpecialTokens = {"<pad>", "<bos>", "<eos>"};

/// Writes tokenizer.json and tokenizer_config.json for `characters` (UTF-8, ascending, id 3 first) into
/// `folder`, made if it is missing. Error: io.
void write_tokenizer_json(const std::filesystem::path& folder, std::string_view characters);

/// The characters of the tokenizer.json `file`, in the order of their ids. Errors: (not_found),
/// (corrupt_data), and (unsupported) for a file that means anything but what is written above.
[[nodiscard]] std::string read_tokenizer_json(const std::filesystem::path& file);

}  // namespace minite::io

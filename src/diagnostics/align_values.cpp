#include "diagnostics/align_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "minite/tensor.h"

namespace minite::diagnostics {
namespace {

/// Element `i` at `row` as a number, where the type holds one.
double number(io::StoredType type, const std::byte* row, int64_t i) {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, row + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  };
  switch (type) {
    case io::StoredType::f64:
      return load(0.0);
    case io::StoredType::f32:
      return static_cast<double>(load(0.0f));
    case io::StoredType::bf16:
      return static_cast<double>(static_cast<float>(bf16::from_bits(load(uint16_t{0}))));
    default:
      return 0.0;
  }
}

bool is_number(io::StoredType type) {
  return type == io::StoredType::f64 || type == io::StoredType::f32 || type == io::StoredType::bf16;
}

std::string shown(io::StoredType type, const std::byte* row, int64_t i, int64_t size) {
  if (is_number(type)) return fmt::format("{}", static_cast<float>(number(type, row, i)));
  uint64_t value = 0;
  std::memcpy(&value, row + i * size, static_cast<size_t>(size));
  return size == 1 ? fmt::format("0x{:02x}", value) : fmt::format("{:x}", value);
}

/// Differing codes of one byte, and the first of them.
int64_t nibbles(uint8_t x, uint8_t y) { return ((x ^ y) & 0x0F ? 1 : 0) + ((x ^ y) & 0xF0 ? 1 : 0); }

class Comparer {
 public:
  Comparer(const io::TensorInfo& a, const io::TensorInfo& b, bool four_bit)
      : a_(a), b_(b), four_bit_(four_bit), size_(io::stored_type(a.type).bytes), cols_(row_elements(a)) {
    d_.numbers = is_number(a.type);
  }

  void row(int64_t place, int64_t i, int64_t j) {
    const std::byte* x = a_.bytes.data() + i * cols_ * size_;
    const std::byte* y = b_.bytes.data() + j * cols_ * size_;
    ++d_.rows;
    d_.elements += four_bit_ ? 2 * cols_ : cols_;
    if (is_number(a_.type)) {
      for (int64_t c = 0; c < cols_; ++c) {
        const double value = number(a_.type, x, c);
        norm_ += value * value;
      }
    }
    if (std::memcmp(x, y, static_cast<size_t>(cols_ * size_)) == 0) return;
    ++d_.differing_rows;
    for (int64_t c = 0; c < cols_; ++c) element(place, x, y, c);
  }

  ValueDifference finish() {
    const bool unknown = std::isnan(error_);
    d_.relative_l2 = unknown         ? error_
                     : error_ == 0.0 ? 0.0
                     : norm_ == 0.0  ? std::numeric_limits<double>::infinity()
                                     : std::sqrt(error_ / norm_);
    if (unknown) d_.max_abs = error_;
    return d_;
  }

 private:
  void element(int64_t place, const std::byte* x, const std::byte* y, int64_t c) {
    if (std::memcmp(x + c * size_, y + c * size_, static_cast<size_t>(size_)) == 0) return;
    for (int64_t k = 0; k < size_; ++k)
      d_.bits += std::popcount(static_cast<uint8_t>(x[c * size_ + k] ^ y[c * size_ + k]));
    const auto left = static_cast<uint8_t>(x[c]), right = static_cast<uint8_t>(y[c]);
    d_.differing += four_bit_ ? nibbles(left, right) : 1;
    if (is_number(a_.type)) {
      const double diff = number(a_.type, x, c) - number(a_.type, y, c);
      error_ += diff * diff;
      d_.max_abs = std::max(d_.max_abs, std::abs(diff));
    }
    if (d_.row >= 0) return;
    d_.row = place;
    const bool high = four_bit_ && (left & 0x0F) == (right & 0x0F);
    d_.column = four_bit_ ? 2 * c + (high ? 1 : 0) : c;
    const int shift = high ? 4 : 0;
    d_.a = four_bit_ ? fmt::format("0x{:x}", left >> shift & 0x0F) : shown(a_.type, x, c, size_);
    d_.b = four_bit_ ? fmt::format("0x{:x}", right >> shift & 0x0F) : shown(a_.type, y, c, size_);
  }

  const io::TensorInfo &a_, &b_;
  bool four_bit_;
  int64_t size_, cols_;
  double norm_ = 0, error_ = 0;
  ValueDifference d_;
};

}  // namespace

int64_t row_elements(const io::TensorInfo& tensor) {
  int64_t count = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) count *= tensor.shape[i];
  return count;
}

RowPairs same_rows(int64_t rows) {
  RowPairs pairs;
  for (int64_t i = 0; i < rows; ++i) pairs.emplace_back(i, i);
  return pairs;
}

ValueDifference compare_values(const io::TensorInfo& a, const io::TensorInfo& b, const RowPairs& pairs,
                               bool four_bit) {
  Comparer comparer(a, b, four_bit);
  for (size_t i = 0; i < pairs.size(); ++i)
    comparer.row(static_cast<int64_t>(i), pairs[i].first, pairs[i].second);
  return comparer.finish();
}

}  // namespace minite::diagnostics

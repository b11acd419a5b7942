#pragma once
// A probe that remembers where the first NaN or infinity appeared.
#include <string>

#include "core/probe.h"

namespace minite {

class NonFiniteProbe : public Probe {
 public:
  void value(const Tap& at, const TensorView& value) override;
  /// "layers.3.down, row 17, column 5: nan"; "" when everything was finite.
  [[nodiscard]] const std::string& found() const { return found_; }

 private:
  std::string found_;
};

}  // namespace minite

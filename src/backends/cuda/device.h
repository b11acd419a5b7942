#pragma once
// What this process can use of device 0, asked once.
#include <cstdint>
#include <string>

namespace minite::cuda {

struct Device {
  std::string problem;   ///< why nothing can run, one sentence with the numbers; "" when kernels can
  std::string name;      ///< "NVIDIA H200"
  int architecture = 0;  ///< compute capability as 90, 100, ...
  int multiprocessors = 0;
  int64_t shared_memory = 0;  ///< bytes a block may ask for
  int64_t memory = 0;         ///< bytes of the device
  int driver = 0;             ///< CUDA version that the driver knows, 1000 major + 10 minor
  int runtime = 0;            ///< CUDA version of this build
};

/// Never throws.
[[nodiscard]] const Device& device();

/// "will use NVIDIA H200 (compute capability 9.0, 132 multiprocessors, 139.8 GiB, driver for CUDA 13.0)".
[[nodiscard]] std::string description(const Device& device);

/// "" when the device has what kernels for sm_90a need, else a sentence with the numbers.
[[nodiscard]] std::string hopper_problem(const Device& device);

}  // namespace minite::cuda

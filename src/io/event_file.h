#pragma once
// Event files as TensorBoard reads them: records of the TFRecord format, each an Event message of protocol
// buffers with scalars. Two small formats (tensorflow/core/lib/io/record_writer.h, core/util/event.proto and
// core/framework/summary.proto name every byte), so they are written here.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78); "123456789" gives 0xE3069283.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);

struct EventScalar {
  std::string tag;  ///< "GROUP/NAME": TensorBoard makes a section of each group
  float value = 0;
  friend bool operator==(const EventScalar&, const EventScalar&) = default;
};

struct Event {
  double wall_time = 0;      ///< seconds since 1970
  int64_t step = 0;          ///< >= 0
  std::string file_version;  ///< of the first record of a file only
  std::vector<EventScalar> scalars;
};

/// The file_version that the first record must hold.
inline constexpr std::string_view kEventFileVersion = "brain.Event:2";

/// One record of a file: length (8 bytes), its checksum (4), `message`, its checksum (4), little endian.
[[nodiscard]] std::string tf_record(std::string_view message);
[[nodiscard]] std::string event_record(const Event& event);

/// A file read back, as far as it is whole.
struct EventFile {
  std::vector<Event> events;
  std::vector<uint64_t> ends;  ///< byte behind each record
  std::string fault;           ///< why reading stopped before the last byte; empty when it did not
};

/// Stops at the first record that is cut, whose checksums do not hold or that is no Event; fields of an Event
/// other than those above are skipped.
[[nodiscard]] EventFile parse_events(std::string_view bytes);

}  // namespace minite::io

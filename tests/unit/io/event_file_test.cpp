// The event files of TensorBoard: bytes against its own writer, damage, and what a reader must skip.
#include "io/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/temp_folder.h"

namespace minite::io {
namespace {
using minite::test_support::holds;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

const Event kHead = {1.5, 0, std::string(kEventFileVersion), {}};
const Event kStep = {1.5, 300, "", {{"rl/reward", 0.25f}, {"rl/gap_max", 0.0f}}};

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
}

// Written by tensorboard 2.21.0: RecordWriter over Event.SerializeToString().
TEST(EventFile, BytesOfTensorBoardsOwnWriter) {
  EXPECT_EQ(event_record(kHead),
            from_hex("1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"));
  EXPECT_EQ(event_record(kStep),
            from_hex("33000000000000000ca7205609000000000000f83f10ac022a250a100a09726c2f726577617264150000803"
                     "e0a110a0a726c2f6761705f6d617815000000006fb72e6b"));
}

TEST(EventFile, ReadsBackWhatItWrote) {
  const float inf = std::numeric_limits<float>::infinity();
  const Event odd = {-2.25, int64_t{1} << 40, "", {{"", std::nanf("")}, {"a/\xC3\xA4", -inf}}};
  const std::string bytes = event_record(kHead) + event_record(kStep) + event_record(odd);
  const EventFile file = parse_events(bytes);
  EXPECT_EQ(file.fault, "");
  ASSERT_EQ(file.events.size(), 3u);
  EXPECT_EQ(file.ends.back(), bytes.size());
  EXPECT_EQ(file.events[0].file_version, kEventFileVersion);
  EXPECT_TRUE(file.events[0].scalars.empty());
  EXPECT_EQ(file.events[1].wall_time, 1.5);
  EXPECT_EQ(file.events[1].step, 300);
  EXPECT_EQ(file.events[1].scalars, kStep.scalars);
  EXPECT_EQ(file.events[2].step, odd.step);
  EXPECT_TRUE(std::isnan(file.events[2].scalars[0].value));
  EXPECT_EQ(file.events[2].scalars[1], odd.scalars[1]);
  EXPECT_TRUE(parse_events("").events.empty());
}

TEST(EventFile, StopsAtACutAnywhere) {
  const std::string head = event_record(kHead), bytes = head + event_record(kStep);
  for (size_t size = 1; size < bytes.size(); ++size) {
    const EventFile file = parse_events(std::string_view(bytes).substr(0, size));
    EXPECT_EQ(file.events.size(), size < head.size() ? 0u : 1u) << size;
    EXPECT_EQ(file.fault.empty(), size == head.size()) << size << file.fault;
  }
}

TEST(EventFile, StopsAtAnyFlippedBit) {
  const std::string head = event_record(kHead), bytes = head + event_record(kStep);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const EventFile file = parse_events(damaged);
    EXPECT_EQ(file.events.size(), bit < 8 * head.size() ? 0u : 1u) << bit;
    EXPECT_TRUE(holds(file.fault, "record")) << bit;
  }
}

TEST(EventFile, AMalformedMessageIsNoEvent) {
  for (const char* hex :
       {"0A", "09000000", "1A7F61", "10FFFFFFFFFFFFFFFFFFFF01", "0B", "2A030A0512", "2A030A0115"}) {
    const EventFile file = parse_events(event_record(kHead) + tf_record(from_hex(hex)));
    EXPECT_EQ(file.events.size(), 1u) << hex;
    EXPECT_TRUE(holds(file.fault, "is no Event")) << hex << file.fault;
  }
}

TEST(EventFile, OtherFieldsAreSkipped) {
  // 4: graph_def, 6: log_message; a summary with a value of another kind (5: histogram) between two scalars.
  const std::string step = event_record(kStep);
  std::string message = step.substr(12, step.size() - 16);
  message += from_hex("2202ABCD") + from_hex("3200") +
             from_hex(
                 "2A0A"
                 "0A08"
                 "0A0168"
                 "2A03"
                 "010203");
  const EventFile file = parse_events(tf_record(message));
  EXPECT_EQ(file.fault, "");
  ASSERT_EQ(file.events.size(), 1u);
  EXPECT_EQ(file.events[0].scalars, kStep.scalars);
}

}  // namespace
}  // namespace minite::io

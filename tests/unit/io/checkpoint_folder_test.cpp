// Sharded folders: what is read, what is refused, and that an interrupted writer goes on to the same bytes.
#include "io/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/fail.h"
#include "io/sharded_folder.h"
#include "support/temp_folder.h"
#include "support/tensor_file.h"

namespace minite::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::error_of;
using test_support::holds;
using test_support::raw;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using test_support::TensorFile;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

void write_index(const fs::path& folder, const json& map) {
  spill(folder / kIndexName, json{{"weight_map", map}}.dump());
}
/// Two shards, "a" in the first, "b" (F8_E4M3) and "c" (U8) in the second.
void write_pair(const fs::path& folder) {
  TensorFile().f32("a", {2}, {1, 2}).write(folder / kFirst);
  TensorFile().add("b", "F8_E4M3", {3}, "\x38\x40\x7f").add("c", "U8", {2, 1}, "xy").write(folder / kSecond);
  write_index(folder, {{"a", kFirst}, {"b", kSecond}, {"c", kSecond}});
}
/// The error of opening `folder`, which must be about data.
std::string refused(const fs::path& folder) {
  const Error error = error_of([&] { (void)CheckpointFolder(folder); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << error.what();
  return error.what();
}

TEST(CheckpointFolder, ReadsShardsAndSingleFiles) {
  const TempFolder folder;
  write_pair(folder.path());
  const CheckpointFolder found(folder.path());
  EXPECT_EQ(found.shards().size(), 2u);
  EXPECT_EQ(found.bytes(), 13);
  EXPECT_EQ(found.tensors().at("c").shard, 1u);
  EXPECT_EQ(found.at("b").type, StoredType::f8_e4m3);
  EXPECT_EQ(test_support::values_of<uint8_t>(found.at("b")), (std::vector<uint8_t>{0x38, 0x40, 0x7f}));
  EXPECT_EQ(found.find("d"), nullptr);
  EXPECT_TRUE(holds(error_of([&] { (void)found.at("aa"); }).what(), "has no tensor \"aa\""));

  const TempFolder single;
  TensorFile().f32("a", {2}, {1, 2}).write(single / kSingleName);
  EXPECT_EQ(CheckpointFolder(single.path()).tensors().size(), 1u);
  const TempFolder empty;
  EXPECT_EQ(error_of([&] { (void)CheckpointFolder(empty.path()); }).code(), ErrorCode::not_found);
}

TEST(CheckpointFolder, DroppedPagesAreReadAgain) {
  const TempFolder folder;
  std::vector<float> values(1 << 16);
  std::iota(values.begin(), values.end(), 0.0f);
  TensorFile().f32("a", {1 << 16}, values).write(folder / kSingleName);
  const CheckpointFolder found(folder.path());
  EXPECT_EQ(test_support::values_of<float>(found.at("a")), values);
  drop_mapped(found.at("a").bytes);
  EXPECT_EQ(test_support::values_of<float>(found.at("a")), values);
}

TEST(CheckpointFolder, IndexThatLiesIsRefused) {
  const TempFolder folder;
  const auto refused_with = [&](const json& map) {
    write_pair(folder.path());
    write_index(folder.path(), map);
    return refused(folder.path());
  };
  EXPECT_TRUE(holds(refused_with({{"a", kFirst}, {"b", kSecond}, {"c", kSecond}, {"z", kFirst}}), "\"z\""));
  EXPECT_TRUE(holds(refused_with({{"a", kSecond}, {"b", kSecond}, {"c", kSecond}}), "is in no shard"));
  EXPECT_TRUE(holds(refused_with({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}}), "\"b\" should be in"));
  EXPECT_TRUE(holds(refused_with({{"a", kFirst}, {"b", kSecond}}), "\"c\" is not in"));
  EXPECT_TRUE(holds(refused_with({{"a", "model-00007.safetensors"}, {"b", kSecond}, {"c", kSecond}}),
                    "which is missing"));
}

TEST(CheckpointFolder, PathsOutOfTheFolderAreRefused) {
  const TempFolder folder;
  for (const char* shard : {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "", ".safetensors",
                            "..\\x.safetensors", "model.bin"}) {
    write_index(folder.path(), {{"a", shard}});
    EXPECT_TRUE(holds(refused(folder.path()), "no name of a .safetensors file")) << shard;
  }
  write_index(folder.path(), {{"a", 7}});
  EXPECT_TRUE(holds(refused(folder.path()), "\"a\""));
}

TEST(CheckpointFolder, DamagedIndexIsRefused) {
  for (const char* text : {"", "[]", "{}", "{\"weight_map\": []}",
                           "{\"weight_map\": {\"a\": \"m.safetensors\"", "[[[[[[[[[[[[[[[["}) {
    const Error error = error_of([&] { (void)parse_weight_index(text, "INDEX"); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << text;
    EXPECT_TRUE(holds(error.what(), "INDEX")) << error.what();
  }
  const char* twice = "{\"weight_map\": {\"a\": \"m.safetensors\", \"a\": \"n.safetensors\"}}";
  EXPECT_TRUE(holds(error_of([&] { (void)parse_weight_index(twice, "INDEX"); }).what(), "names \"a\" twice"));
}

TEST(CheckpointFolder, TensorInTwoShardsAndTwoModelsAreRefused) {
  const TempFolder folder;
  write_pair(folder.path());
  TensorFile().f32("a", {1}, {1}).f32("b", {1}, {1}).write(folder / kSecond);
  EXPECT_TRUE(holds(refused(folder.path()), "\"a\" is also in"));
  write_pair(folder.path());
  TensorFile().f32("a", {1}, {1}).write(folder / kSingleName);
  EXPECT_TRUE(holds(refused(folder.path()), "two models"));
}

TEST(NaturalLess, OrdersLayersByNumber) {
  std::vector<std::string> names = {"l.10.a", "l.2.b", "l.2.a", "embed", "l.1", "l.02.a", "l"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "l", "l.1", "l.02.a", "l.2.a", "l.2.b", "l.10.a"}));
  EXPECT_FALSE(natural_less("a1", "a1"));
}

// --- writing ---------------------------------------------------------------------------------------

std::vector<ShardUnit> some_units() {
  std::vector<ShardUnit> units;
  for (int64_t u = 0; u < 5; ++u)
    units.push_back({{fmt::format("w.{}", u), {StoredType::u8, {u + 1, 10}}},
                     {fmt::format("s.{}", u), {StoredType::f32, {}}}});
  return units;
}
void produce(const std::vector<ShardUnit>& units, size_t u, SafetensorsWriter& writer) {
  for (const NamedShape& tensor : units[u])
    writer.put(tensor.name, std::vector<std::byte>(static_cast<size_t>(tensor.bytes()), std::byte(u + 65)));
}
/// Writes up to `most` shards of `units`; commits when all are there.
size_t write_some(const fs::path& target, const json& identity, size_t most) {
  const std::vector<ShardUnit> units = some_units();
  ShardedFolder folder(target, identity, units, 60);
  const size_t before = folder.done_count();
  for (size_t s = 0; s < folder.shards().size() && most > 0; ++s) {
    if (folder.done(s)) continue;
    folder.write(s, [&](size_t u, SafetensorsWriter& writer) { produce(units, u, writer); });
    --most;
  }
  if (folder.done_count() == folder.shards().size()) folder.commit();
  return before;
}
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = slurp(entry.path());
  return files;
}

TEST(ShardedFolder, PlansBySizeAndKeepsUnitsTogether) {
  const std::vector<Shard> shards = plan_shards(some_units(), 60);
  ASSERT_EQ(shards.size(), 4u);  // 14 + 24, 34, 44, 54
  EXPECT_EQ(shards[0].file, "model-00001-of-00004.safetensors");
  EXPECT_EQ(shards[0].end, 2u);
  EXPECT_EQ(shards[3].bytes, 54);
  EXPECT_EQ(plan_shards(some_units(), 1).size(), 5u) << "a unit alone may be too large";
  EXPECT_EQ(plan_shards(some_units(), 1000).front().file, "model.safetensors");
  EXPECT_EQ(plan_shards({}, 10).size(), 1u);
  std::vector<ShardUnit> twice = some_units();
  twice.push_back(twice.front());
  EXPECT_TRUE(holds(error_of([&] { (void)plan_shards(twice, 60); }).what(), "two tensors"));
}

TEST(ShardedFolder, ReadsBackAndRepeats) {
  const TempFolder folder;
  write_some(folder / "a", {{"source", "x"}}, 99);
  write_some(folder / "b", {{"source", "x"}}, 99);
  const CheckpointFolder found(folder / "a");
  EXPECT_EQ(found.tensors().size(), 10u);
  EXPECT_EQ(found.shards().size(), 4u);
  EXPECT_EQ(contents(folder / "a"), contents(folder / "b"));
  EXPECT_FALSE(fs::exists(folder / "a/work.json"));
  EXPECT_FALSE(fs::exists(folder / "a.partial"));
}

TEST(ShardedFolder, GoesOnAfterAnInterruptionToTheSameBytes) {
  const TempFolder folder;
  write_some(folder / "whole", {{"source", "x"}}, 99);
  EXPECT_EQ(write_some(folder / "cut", {{"source", "x"}}, 2), 0u);
  EXPECT_FALSE(fs::exists(folder / "cut"));
  // What a killed writer leaves of the shard that it was at.
  spill(folder / "cut.partial/model-00003-of-00004.safetensors.tmp77.1", "half");
  const auto kept = fs::last_write_time(folder / "cut.partial/model-00001-of-00004.safetensors");
  EXPECT_EQ(write_some(folder / "cut", {{"source", "x"}}, 99), 2u);
  EXPECT_EQ(contents(folder / "whole"), contents(folder / "cut"));
  EXPECT_EQ(fs::last_write_time(folder / "cut/model-00001-of-00004.safetensors"), kept);
}

TEST(ShardedFolder, RefusesWhatBelongsToSomethingElse) {
  const TempFolder folder;
  write_some(folder / "a", {{"options", {{"format", "nvfp4"}}}}, 1);
  const auto second = [&](const json& identity) {
    return std::string(error_of([&] { write_some(folder / "a", identity, 1); }).what());
  };
  const std::string other = second({{"options", {{"format", "mxfp8"}}}});
  EXPECT_TRUE(holds(other, "belongs_to.options.format is \"nvfp4\" there and \"mxfp8\" here")) << other;
  json more;
  more["more"] = 1;
  EXPECT_TRUE(holds(second(more), "belongs_to.more is missing there")) << second(more);

  fs::create_directories(folder / "b.partial");
  spill(folder / "b.partial/notes.txt", "mine");
  EXPECT_TRUE(holds(error_of([&] { write_some(folder / "b", {}, 1); }).what(), "nobody's unfinished work"));
  fs::create_directories(folder / "c");
  EXPECT_TRUE(holds(error_of([&] { write_some(folder / "c", {}, 1); }).what(), "exists already"));
}

TEST(ShardedFolder, OneWriterAtATime) {
  const TempFolder folder;
  const ShardedFolder first(folder / "a", {}, some_units(), 60);
  EXPECT_TRUE(holds(error_of([&] { ShardedFolder(folder / "a", {}, some_units(), 60); }).what(),
                    "being written by another process"));
}

}  // namespace
}  // namespace minite::io

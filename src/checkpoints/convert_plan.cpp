#include "checkpoints/convert_plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "checkpoints/fused.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/float_values.h"
#include "io/json_file.h"
#include "recipes/glob.h"

namespace minite::checkpoints {
namespace {

using io::StoredType;
using io::TensorInfo;

constexpr std::string_view kWeight = ".weight";
constexpr std::array<std::string_view, 4> kNoLinear = {"*embed*", "*norm*", "*.wte", "*.wpe"};

/// Layers that a configuration has to leave out by name when they are not quantized.
bool is_linear(std::string_view module) {
  return std::ranges::none_of(kNoLinear, [&](std::string_view p) { return glob_match(p, module); });
}

std::vector<int64_t> last_dim(std::vector<int64_t> shape, int64_t last) {
  shape.back() = last;
  return shape;
}

class Planner {
 public:
  Planner(const std::filesystem::path& source, const ConvertOptions& options)
      : plan_{options, open_quantized(source, OnFault::thrown), nullptr, {}, {}, {}, {}, {}},
        ignore_(Container::plain, options.ignore),
        originals_(read_originals(source)) {}

  ConvertPlan run() {
    choose_layout();
    choose_activations();
    plan_.source.modules.empty() ? plan_dense() : plan_stored();
    std::stable_sort(plan_.units.begin(), plan_.units.end(), [](const ConvertUnit& a, const ConvertUnit& b) {
      return io::natural_less(a.members.front().name, b.members.front().name);
    });
    std::sort(plan_.ignore.begin(), plan_.ignore.end(), io::natural_less);
    std::stable_sort(plan_.fates.begin(), plan_.fates.end(), [](const TensorFate& a, const TensorFate& b) {
      return io::natural_less(a.from, b.from);
    });
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string where() const { return plan_.source.folder.path().string(); }

  // --- what is written -----------------------------------------------------------------------------

  void choose_layout() {
    const ConvertOptions& options = plan_.options;
    if (options.to == Container::plain) return;
    FormatId wanted = options.spec.format;
    OuterScale outer = options.spec.outer;
    if (!plan_.source.modules.empty()) {
      const StoredModule& first = plan_.source.modules.begin()->second;
      wanted = first.layout->format;
      outer = first.layout->outer;
      for (const auto& [name, module] : plan_.source.modules) {
        if (module.layout != first.layout)
          fail(ErrorCode::unsupported,
               "{}: {} is {} and {} is {}; folders of mixed layouts are decoded only "
               "(--to bf16)",
               where(), first.name, first.layout->name, name, module.layout->name);
      }
    }
    plan_.layout = find_layout(options.to, wanted, outer);
    if (plan_.layout == nullptr)
      fail(ErrorCode::unsupported, "{} stores no {}{}; it has {}", to_string(options.to), format(wanted).name,
           outer == OuterScale::row ? " with an outer scale a row" : "", formats_of(options.to));
  }

  void choose_activations() {
    if (plan_.layout == nullptr) return;
    const Layout& layout = *plan_.layout;
    const bool calibrated = layout.stored != StoredGlobal::none;
    if (plan_.options.activations) {
      plan_.activations = *plan_.options.activations;
    } else if (!plan_.source.modules.empty()) {
      plan_.activations = plan_.source.modules.begin()->second.activations;
    } else {
      plan_.activations = calibrated && plan_.options.input_amax.empty() ? Activations::a16 : layout.narrow;
    }
    const bool none = plan_.activations == Activations::a16;
    if (none ? layout.label_weights_only.empty() : plan_.activations != layout.narrow)
      fail(ErrorCode::unsupported, "{} has no variant with activations {}; it has {}{}", layout.name,
           to_string(plan_.activations), to_string(layout.narrow),
           layout.label_weights_only.empty() ? "" : " and a16");
  }

  // --- from BF16 -----------------------------------------------------------------------------------

  void plan_dense() {
    std::vector<Member> members;
    std::vector<FusedMember> fused;
    for (const std::string& name : plan_.source.plain) {
      const TensorInfo& info = plan_.source.folder.at(name);
      const std::string module(stem_of(name, kWeight));
      if (!takes(name, module, info)) {
        copy(name, module);
        continue;
      }
      members.push_back({module, {}, &info, nullptr, info.shape[0], info.shape[1], {}, {}, {}});
      fused.push_back({module, info.shape[1]});
      plan_.fates.push_back({name, module + std::string(plan_.layout->codes), Fate::quantized, {}});
    }
    if (plan_.layout != nullptr && members.empty())
      fail(ErrorCode::invalid_argument, "{}: nothing is left to quantize; --ignore takes every linear layer",
           where());
    for (const std::vector<size_t>& group : unit_groups(fused)) quantize(members, group);
  }

  /// Whether a tensor is quantized. Errors for one that should be and cannot.
  bool takes(const std::string& name, const std::string& module, const TensorInfo& info) const {
    if (plan_.layout == nullptr || !io::is_wide_float(info.type) || ignore_.matches(name)) return false;
    if (info.shape.size() == 3 && name.find("experts") != std::string::npos && !ignore_.matches(module))
      fail(ErrorCode::unsupported,
           "{}: {} [{}] holds the experts of a layer packed; loaders of {} want them "
           "one by one: split them, or leave them in BF16 with --ignore '{}'",
           where(), printable(name), fmt::join(info.shape, ", "), plan_.layout->name, name);
    if (module.empty() || info.shape.size() != 2 || !is_quantizable(module) || ignore_.matches(module))
      return false;
    const int block = format(plan_.layout->format).block;
    require(info.shape[1] % block == 0,
            "{}: {} is [{}, {}], and K = {} is no multiple of the {} elements of a block of {}; leave it in "
            "BF16 with --ignore '{}'",
            where(), printable(name), info.shape[0], info.shape[1], info.shape[1], block,
            format(plan_.layout->format).name, module);
    return true;
  }

  /// Groups that share an outer scale; one each where there is none to share.
  std::vector<std::vector<size_t>> unit_groups(const std::vector<FusedMember>& members) const {
    if (plan_.layout != nullptr && plan_.layout->stored != StoredGlobal::none &&
        plan_.layout->outer == OuterScale::tensor)
      return fused_groups(members);
    std::vector<std::vector<size_t>> groups;
    for (size_t i = 0; i < members.size(); ++i) groups.push_back({i});
    return groups;
  }

  void quantize(const std::vector<Member>& members, const std::vector<size_t>& group) {
    ConvertUnit unit{Making::quantize, {}, {}};
    float amax = 0;
    for (const size_t i : group) amax = std::max(amax, input_amax(members[i].name));
    for (const size_t i : group) {
      Member member = members[i];
      if (amax > 0) member.input = {stored_amax(amax)};
      announce(unit, member.name, {member.rows, member.cols}, member.input.size());
      unit.members.push_back(std::move(member));
    }
    plan_.units.push_back(std::move(unit));
  }

  /// 0: none is needed.
  float input_amax(const std::string& module) const {
    if (plan_.activations == Activations::a16 || plan_.layout->stored == StoredGlobal::none) return 0;
    const auto it = plan_.options.input_amax.find(module);
    require(it != plan_.options.input_amax.end(),
            "{}: {} with activations {} needs the amax of the input of {}, which weights do not tell; "
            "calibrate and give it with --input-amax FILE.json, or take --activations a16",
            where(), plan_.layout->name, to_string(plan_.activations), module);
    // An input that calibration never saw: a finite scale, as for an amax of 1.
    require(std::isfinite(it->second) && it->second >= 0,
            "--input-amax: {} is {}; expected a number from 0 up", module, it->second);
    return it->second == 0 ? 1.0f : it->second;
  }
  float stored_amax(float amax) const {
    return plan_.layout->stored == StoredGlobal::multiplier ? amax / 2688.0f : 2688.0f / amax;
  }

  /// The outputs of a module of `shape` elements.
  void announce(ConvertUnit& unit, const std::string& module, const std::vector<int64_t>& shape,
                size_t inputs, size_t globals = 1) {
    const Layout& layout = *plan_.layout;
    const Format& row = format(layout.format);
    const auto add = [&](std::string_view suffix, StoredType type, std::vector<int64_t> dims) {
      unit.outputs.push_back({module + std::string(suffix), {type, std::move(dims)}});
    };
    add(layout.codes, layout.codes_type, last_dim(shape, shape.back() * row.bits / 8));
    add(layout.scales, layout.scales_type, last_dim(shape, shape.back() / row.block));
    if (layout.stored == StoredGlobal::none) return;
    if (layout.outer == OuterScale::row) globals = static_cast<size_t>(shape[0]);
    const auto dims = [&](size_t count) {
      return layout.scalar && count == 1 ? std::vector<int64_t>{}
                                         : std::vector<int64_t>{static_cast<int64_t>(count)};
    };
    add(layout.global, StoredType::f32, dims(globals));
    if (inputs > 0) add(layout.input_global, StoredType::f32, dims(inputs));
  }

  // --- copies --------------------------------------------------------------------------------------

  void copy(const std::string& name, const std::string& module) {
    const TensorInfo& info = plan_.source.folder.at(name);
    const std::string out = kv_scale_name(name, plan_.options.to);
    plan_.units.push_back(
        {Making::copy, {{name, out, &info, nullptr, 0, 0, {}, {}, {}}}, {{out, {info.type, info.shape}}}});
    plan_.fates.push_back({name, out, out == name ? Fate::copied : Fate::renamed, {}});
    if (plan_.layout != nullptr && !module.empty() && info.shape.size() == 2 && is_linear(module))
      plan_.ignore.push_back(module);
  }

  // --- from codes ----------------------------------------------------------------------------------

  void plan_stored() {
    for (const std::string& name : plan_.source.plain) copy(name, std::string(stem_of(name, kWeight)));
    std::vector<const StoredModule*> modules;
    std::vector<FusedMember> fused;
    for (const auto& [name, module] : plan_.source.modules) {
      modules.push_back(&module);
      fused.push_back({name, module.cols});
    }
    for (const std::vector<size_t>& group : unit_groups(fused)) {
      if (plan_.layout == nullptr) {
        for (const size_t i : group) decode(*modules[i]);
        continue;
      }
      std::vector<Member> members;
      for (const size_t i : group) members.push_back(transferred(*modules[i]));
      share_globals(members);
      for (Member& member : members) transfer(std::move(member));
    }
  }

  void decode(const StoredModule& m) {
    const std::string out = m.tensor(kWeight);
    plan_.units.push_back({Making::decode,
                           {{m.name, out, nullptr, &m, m.rows, m.cols, {}, {}, {}}},
                           {{out, {StoredType::bf16, m.shape}}}});
    plan_.fates.push_back({m.tensor(m.layout->codes), out, Fate::decoded, {}});
    plan_.fates.push_back({m.tensor(m.layout->scales), out, Fate::decoded, {}});
    if (!m.global.empty()) plan_.fates.push_back({m.tensor(m.layout->global), out, Fate::decoded, {}});
    if (!m.input.empty())
      plan_.fates.push_back(
          {m.tensor(m.layout->input_global), "", Fate::dropped, "BF16 activations have no scale"});
  }

  /// A module with its outer scales as the output stores them.
  Member transferred(const StoredModule& m) {
    Member member{m.name, {}, nullptr, &m, m.rows, m.cols, {}, {}, {}};
    member.global = converted(m, m.layout->global, plan_.layout->global, m.global);
    if (plan_.activations != Activations::a16 && plan_.layout->stored != StoredGlobal::none) {
      require(
          !m.input.empty(),
          "{}: {} has no {}, which {} with activations {} needs; calibrate and convert from BF16, or take "
          "--activations a16",
          where(), m.name, m.layout->input_global, plan_.layout->name, to_string(plan_.activations));
      member.input = converted(m, m.layout->input_global, plan_.layout->input_global, m.input);
    }
    return member;
  }

  /// Outer scales of the source in the output's way: as they are, the number they came from, or reciprocals.
  std::vector<float> converted(const StoredModule& m, std::string_view from, std::string_view to,
                               const std::vector<float>& values) {
    if (m.layout->stored == plan_.layout->stored) return values;
    const auto kept = originals_.find(m.tensor(from));
    std::vector<float> result;
    for (size_t i = 0; i < values.size(); ++i) {
      const float reciprocal = 1.0f / values[i];
      require(std::isfinite(reciprocal) && reciprocal > 0, "{}: {}{} is {}, whose reciprocal is {}", where(),
              m.name, from, values[i], reciprocal);
      if (kept != originals_.end() && i < kept->second.size() && kept->second[i] &&
          1.0f / *kept->second[i] == values[i]) {
        result.push_back(*kept->second[i]);
        continue;
      }
      result.push_back(reciprocal);
      if (1.0f / reciprocal != values[i])
        plan_.originals.push_back({m.name + std::string(to), static_cast<int64_t>(i), values[i]});
    }
    return result;
  }

  // --- fused groups --------------------------------------------------------------------------------

  static bool all_equal(const std::vector<Member>& members, std::vector<float> Member::*values) {
    float first = 0;
    bool any = false;
    for (const Member& member : members) {
      // Experts of a packed tensor are not fused with each other.
      if (member.stored->shape.size() == 3) continue;
      for (const float x : member.*values) {
        if (any && x != first) return false;
        first = x;
        any = true;
      }
    }
    return true;
  }

  void share_globals(std::vector<Member>& members) {
    if (plan_.layout->outer == OuterScale::row) return;
    const bool parts = fused_parts(members.front().name) > 1 && members.front().stored->shape.size() == 2;
    if (members.size() == 1 && !parts) return;
    const bool equal = all_equal(members, &Member::global), inputs = all_equal(members, &Member::input);
    if ((equal && inputs) || (plan_.options.fused == FusedPolicy::keep && !parts)) {
      if (parts) one_each(members.front());
      return;
    }
    require(plan_.options.fused == FusedPolicy::rescale, "{}", unequal_text(members, equal));
    const bool multiplier = plan_.layout->stored == StoredGlobal::multiplier;
    if (!inputs) set_all(members, &Member::input, multiplier);
    if (parts) members.front().input.resize(std::min<size_t>(1, members.front().input.size()));
    if (equal) {
      if (parts) one_each(members.front());
      return;
    }
    const float shared = widest(members, &Member::global, multiplier);
    for (Member& member : members) {
      for (const float own : member.global)
        member.ratio.push_back(multiplier ? double{own} / double{shared} : double{shared} / double{own});
      member.global = {shared};
    }
  }
  /// Of a module that holds all parts: equal values are one.
  static void one_each(Member& member) {
    member.global.resize(1);
    member.input.resize(std::min<size_t>(1, member.input.size()));
  }
  /// The outer scale of the largest amax.
  static float widest(const std::vector<Member>& members, std::vector<float> Member::*values,
                      bool multiplier) {
    float result = (members.front().*values).front();
    for (const Member& member : members) {
      for (const float x : member.*values) result = multiplier ? std::max(result, x) : std::min(result, x);
    }
    return result;
  }
  static void set_all(std::vector<Member>& members, std::vector<float> Member::*values, bool multiplier) {
    const float shared = widest(members, values, multiplier);
    for (Member& member : members) member.*values = {shared};
  }

  std::string unequal_text(const std::vector<Member>& members, bool globals_equal) const {
    std::string list;
    for (const Member& member : members) {
      for (const float x : globals_equal ? member.input : member.global)
        list += fmt::format("{}{} {}", list.empty() ? "" : ", ", member.name, x);
    }
    return fmt::format(
        "{}: servers fuse these modules and take one {} for all of them, but theirs differ: {}; convert from "
        "BF16, which shares it without loss, or set block scales to the largest (--fused rescale), or keep "
        "them for a loader that does not fuse (--fused keep)",
        where(), globals_equal ? "input scale" : "outer scale", list);
  }

  void transfer(Member member) {
    const StoredModule& m = *member.stored;
    ConvertUnit unit{Making::transfer, {}, {}};
    announce(unit, m.name, m.shape, member.input.size(), member.global.size());
    const auto fate = [&](std::string_view from, std::string_view to, bool changed, std::string note) {
      const std::string source = m.tensor(from), out = m.tensor(to);
      plan_.fates.push_back({source, out,
                             changed         ? Fate::recomputed
                             : source == out ? Fate::copied
                                             : Fate::renamed,
                             std::move(note)});
    };
    const Layout& layout = *plan_.layout;
    fate(m.layout->codes, layout.codes, false, {});
    fate(m.layout->scales, layout.scales, false, {});
    if (!member.ratio.empty()) plan_.fates.back().fate = Fate::rescaled;
    if (!m.global.empty())
      fate(m.layout->global, layout.global, member.global != m.global,
           !member.ratio.empty()       ? "the group's largest"
           : member.global != m.global ? "reciprocal"
                                       : "");
    if (!m.input.empty() && member.input.empty()) {
      plan_.fates.push_back({m.tensor(m.layout->input_global), "", Fate::dropped, "activations are 16 bits"});
    } else if (!m.input.empty()) {
      fate(m.layout->input_global, layout.input_global, member.input != m.input,
           member.input != m.input ? "reciprocal" : "");
    }
    unit.members.push_back(std::move(member));
    plan_.units.push_back(std::move(unit));
  }

  ConvertPlan plan_;
  NameList ignore_;
  std::map<std::string, std::vector<std::optional<float>>> originals_;
};

}  // namespace

ConvertPlan plan_conversion(const std::filesystem::path& source, const ConvertOptions& options) {
  return Planner(source, options).run();
}

std::map<std::string, std::vector<std::optional<float>>> read_originals(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path path = folder / kConversionName;
  if (!std::filesystem::exists(path, ignored)) return {};
  const nlohmann::json document = io::read_json_file(path);
  std::map<std::string, std::vector<std::optional<float>>> result;
  const auto damaged = [&](const std::string& what) {
    fail(ErrorCode::corrupt_data, "{}: {}; remove the file to go on without it", path.string(), what);
  };
  if (!document.is_object() || !document.contains("originals")) return {};
  if (!document["originals"].is_object()) damaged("originals is no object");
  for (const auto& [name, values] : document["originals"].items()) {
    if (!values.is_array()) damaged(fmt::format("the originals of {} are no list", printable(name)));
    for (const nlohmann::json& value : values) {
      if (!value.is_null() && !value.is_number())
        damaged(fmt::format("an original of {} is no number", printable(name)));
      result[name].push_back(value.is_null() ? std::nullopt : std::optional<float>(value.get<float>()));
    }
  }
  return result;
}

}  // namespace minite::checkpoints

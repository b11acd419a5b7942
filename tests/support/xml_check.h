#pragma once
// A small well-formedness check for SVG: tags balance, attributes are quoted, entities are known.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace minite::test_support {

class XmlCheck {
 public:
  /// "" when `xml` is well-formed, else what is wrong and where.
  static std::string fault(std::string_view xml) {
    XmlCheck check(xml);
    check.run();
    return check.fault_;
  }

 private:
  explicit XmlCheck(std::string_view xml) : xml_(xml) {}

  void run() {
    while (at_ < xml_.size() && fault_.empty()) {
      if (xml_[at_] == '<') {
        tag();
      } else {
        text(xml_.find('<', at_));
      }
    }
    if (fault_.empty() && !open_.empty()) bad("<" + open_.back() + "> is not closed");
    if (fault_.empty() && roots_ != 1) bad("there must be one root element");
  }

  void text(size_t end) {
    const std::string_view part = xml_.substr(at_, std::min(end, xml_.size()) - at_);
    if (open_.empty() && part.find_first_not_of(" \n") != std::string_view::npos)
      return bad("text outside the root");
    entities(part);
    at_ += part.size();
  }

  void entities(std::string_view part) {
    constexpr std::array<std::string_view, 5> kKnown = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = part.find('&'); i != std::string_view::npos; i = part.find('&', i + 1)) {
      const bool known = std::any_of(kKnown.begin(), kKnown.end(),
                                     [&](std::string_view k) { return part.substr(i, k.size()) == k; });
      if (!known) return bad("a bare &");
    }
  }

  std::string name() {
    const size_t begin = at_;
    while (at_ < xml_.size() && (std::isalnum(static_cast<unsigned char>(xml_[at_])) || xml_[at_] == '-'))
      ++at_;
    return std::string(xml_.substr(begin, at_ - begin));
  }

  void tag() {
    ++at_;
    if (peek() == '/') {
      ++at_;
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) return bad("</" + closed + "> closes nothing");
      open_.pop_back();
      return expect('>');
    }
    const std::string element = name();
    if (element.empty()) return bad("a bare <");
    if (open_.empty()) ++roots_;
    std::vector<std::string> seen;
    while (fault_.empty() && peek() == ' ') attribute(seen);
    if (peek() == '/') {
      ++at_;
      return expect('>');
    }
    expect('>');
    open_.push_back(element);
  }

  void attribute(std::vector<std::string>& seen) {
    ++at_;
    const std::string key = name();
    if (key.empty() || std::find(seen.begin(), seen.end(), key) != seen.end())
      return bad("attribute '" + key + "'");
    seen.push_back(key);
    expect('=');
    expect('"');
    const size_t end = xml_.find('"', at_);
    if (end == std::string_view::npos) return bad("an unfinished attribute");
    const std::string_view value = xml_.substr(at_, end - at_);
    if (value.find('<') != std::string_view::npos) return bad("< in an attribute");
    entities(value);
    at_ = end + 1;
  }

  [[nodiscard]] char peek() const { return at_ < xml_.size() ? xml_[at_] : '\0'; }
  void expect(char c) {
    if (peek() != c) return bad(std::string("expected '") + c + "'");
    ++at_;
  }
  void bad(const std::string& what) {
    if (!fault_.empty()) return;
    fault_ = what + " at byte " + std::to_string(at_) + ": " +
             std::string(xml_.substr(at_ > 30 ? at_ - 30 : 0, 60));
  }

  std::string_view xml_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  int roots_ = 0;
  std::string fault_;
};

}  // namespace minite::test_support

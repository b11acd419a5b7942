#pragma once
// The elements of the simulated formats, chosen once a row.
#include "formats/codecs.h"
#include "minite/format.h"

namespace minite {

/// Calls body with the codec of a simulated element; returns what it returns.
template <class Body>
[[gnu::always_inline]] inline auto with_sim_element(Element element, const Body& body) {
  switch (element) {
    case Element::e3m1:
      return body(ExMy<3, 1>{});
    case Element::e4m1:
      return body(ExMy<4, 1>{});
    case Element::e5m1:
      return body(ExMy<5, 1>{});
    case Element::e2m2:
      return body(ExMy<2, 2>{});
    case Element::e2m3:
      return body(ExMy<2, 3>{});
    case Element::e2m4:
      return body(ExMy<2, 4>{});
    default:
      return body(ExMy<2, 1>{});
  }
}

}  // namespace minite

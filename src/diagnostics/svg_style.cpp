// The look of the figures. Colours have a contrast of at least 4.5:1 against their background, so that labels
// may take the colour of their line.
#include "diagnostics/svg.h"

namespace minite::diagnostics {

const std::string_view kFigureStyle = R"css(
:root{--bg:#ffffff;--ink:#16202e;--muted:#566274;--grid:#e6eaf0;--axis:#9aa5b4;
--c0:#0b62c4;--c1:#c2410c;--c2:#0b7a6b;--c3:#6d3fd1;--c4:#8a6100;--c5:#b3246d}
@media (prefers-color-scheme:dark){:root{--bg:#0f141b;--ink:#e7ecf3;--muted:#9aa7b8;--grid:#232b36;
--axis:#5b6878;
--c0:#6db3ff;--c1:#ff9d66;--c2:#4fd0bd;--c3:#b9a0ff;--c4:#e4bd62;--c5:#ff8fc0}}
.fig{background:var(--bg);display:block}
.fig text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Noto Sans",sans-serif;
font-size:12.5px;fill:var(--muted);font-variant-numeric:tabular-nums}
.fig .grid{stroke:var(--grid);stroke-width:1;fill:none}
.fig .axis{stroke:var(--axis);stroke-width:1;fill:none}
.fig .zero{stroke:var(--axis);stroke-width:1;stroke-dasharray:2 3;fill:none}
.fig .line{stroke:var(--c);stroke-width:2.25;fill:none;stroke-linejoin:round;stroke-linecap:round}
.fig .dashed{stroke-dasharray:6 5;stroke-width:1.75}
.fig .dotted{stroke-dasharray:.1 5;stroke-width:2.75}
.fig .dashdot{stroke-dasharray:10 5 .1 5}
.fig .longdash{stroke-dasharray:16 6}
.fig .dashdotdot{stroke-dasharray:11 5 .1 5 .1 5}
.fig .raw{stroke:var(--c);stroke-width:3.5;stroke-linecap:round;fill:none;opacity:.26}
.fig .end{fill:var(--c)}
.fig text.label{fill:var(--c);font-weight:600}
.fig .value{fill:var(--ink);font-weight:400}
.fig text.group{fill:var(--ink);font-weight:600}
.fig .bar{fill:var(--c);opacity:.88}
.fig .heat{fill:var(--c1);stroke:var(--grid);stroke-width:1}
.fig .k0{--c:var(--c0)}.fig .k1{--c:var(--c1)}.fig .k2{--c:var(--c2)}
.fig .k3{--c:var(--c3)}.fig .k4{--c:var(--c4)}.fig .k5{--c:var(--c5)}
)css";

}  // namespace minite::diagnostics

// The look of the report page; colours come from kFigureStyle.
#include "diagnostics/report.h"

namespace minite::diagnostics {

const std::string_view kReportStyle = R"css(
:root{color-scheme:light dark;--panel:#f6f8fb;--mark:#eaf2fd}
@media (prefers-color-scheme:dark){:root{--panel:#161d27;--mark:#15263b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Noto Sans",sans-serif}
main,footer{max-width:1040px;margin:0 auto;padding:0 24px}
article{padding-top:36px}
.eyebrow{margin:0;color:var(--muted);font-size:13px;letter-spacing:.02em}
h1{margin:2px 0 0;font-size:34px;line-height:1.2;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{margin:52px 0 4px;font-size:22px;letter-spacing:-.01em}
h3{margin:0;font-size:16px}
p{margin:0}
a{color:var(--c0);text-underline-offset:3px}
a:focus-visible,summary:focus-visible,pre:focus-visible{outline:3px solid var(--c0);outline-offset:2px;
border-radius:3px}
.skip{position:absolute;left:-9999px}
.skip:focus{left:12px;top:12px;background:var(--bg);padding:8px 12px}
nav{margin-top:14px;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
.cards{display:flex;flex-wrap:wrap;gap:1px;margin:26px 0 0;
background:var(--grid);border:1px solid var(--grid);border-radius:12px;overflow:hidden}
.cards div{flex:1 1 180px;background:var(--bg);padding:15px 18px 14px}
.cards dt{color:var(--muted);font-size:13px}
.cards dd{margin:1px 0 0;font-size:25px;font-weight:650;letter-spacing:-.015em;line-height:1.25;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.cards .small{font-size:17px;line-height:1.5;padding-top:5px;letter-spacing:0}
.cards dd.under{font-size:13px;font-weight:400;color:var(--muted);letter-spacing:0;margin-top:2px}
.note{margin-top:14px;padding:10px 16px;border-left:3px solid var(--axis);background:var(--panel);
font-size:14.5px;
border-radius:0 8px 8px 0}
.panels{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:30px 36px;margin-top:14px}
figure{margin:0;min-width:0;display:flex;flex-direction:column}
figure.wide{grid-column:1/-1}
figure figcaption{margin-bottom:8px}
.about{color:var(--muted);font-size:14px;max-width:76ch}
.verdict{margin:8px 0 0;padding:12px 16px;background:var(--mark);border-radius:10px;font-size:15.5px}
.draw{overflow-x:auto}
.draw svg{width:100%;height:auto}
.wide .draw svg{min-width:780px}
.get{margin-top:4px;font-size:13px;display:flex;gap:14px}
.missing{margin-top:14px;color:var(--muted);font-size:14px}
.tablewrap{overflow-x:auto;margin-top:14px}
table{border-collapse:collapse;font-size:14.5px;min-width:420px}
th,td{text-align:left;padding:6px 28px 6px 0;border-bottom:1px solid var(--grid);vertical-align:top;
overflow-wrap:anywhere}
th{font-weight:500;color:var(--muted);white-space:nowrap}
details{margin-top:18px;border:1px solid var(--grid);border-radius:10px}
summary{cursor:pointer;padding:11px 16px;font-weight:600}
pre{margin:0;padding:2px 16px 16px;overflow-x:auto;font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,
"Liberation Mono",monospace}
footer{margin-top:56px;padding-top:16px;padding-bottom:40px;color:var(--muted);font-size:13px}
@media screen and (max-width:760px){.panels{grid-template-columns:minmax(0,1fr)}h1{font-size:27px}
main,footer{padding-left:16px;padding-right:16px}}
@media print{
:root{--bg:#fff;--ink:#000;--muted:#444;--grid:#ddd;--axis:#777;--panel:#f6f6f6;--mark:#f0f0f0;
color-scheme:light;
--c0:#0b62c4;--c1:#c2410c;--c2:#0b7a6b;--c3:#6d3fd1;--c4:#8a6100;--c5:#b3246d}
@page{margin:16mm}
body{font-size:11pt;-webkit-print-color-adjust:exact;print-color-adjust:exact}
main,footer{max-width:none;padding:0}
.get,nav,.skip{display:none}
figure,.cards,table,.note{break-inside:avoid}
h2{break-after:avoid;margin-top:26px}
.wide .draw svg{min-width:0}
.panels{gap:18px 26px}
details::details-content{content-visibility:visible;height:auto}
pre{white-space:pre-wrap}
}
)css";

}  // namespace minite::diagnostics

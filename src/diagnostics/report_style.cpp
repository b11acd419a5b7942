// The look of the report page; colours come from kFigureStyle.
#include "diagnostics/page.h"

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
a:focus-visible,summary:focus-visible,pre:focus-visible,.tablewrap:focus-visible{outline:3px solid var(--c0);outline-offset:2px;
border-radius:3px}
.skip{position:absolute;left:-9999px}
.skip:focus{left:12px;top:12px;background:var(--bg);padding:8px 12px}
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
.runs{min-width:0}
.runs thead th{color:var(--ink);font-weight:650;white-space:normal;vertical-align:bottom;min-width:104px}
.runs thead td{border-bottom:1px solid var(--grid)}
.runs td,.runs th{overflow-wrap:normal}
.runs td,.runs thead th{padding-right:22px;font-variant-numeric:tabular-nums;max-width:300px}
.runs tbody th{position:sticky;left:0;background:var(--bg)}
.runs .zero{font-weight:650}
.swatch{display:inline-block;width:44px;height:10px;vertical-align:middle;margin-right:8px;background:none}
.runs .swatch{display:block;margin-bottom:3px}
.letter{font-weight:750}
.key{list-style:none;margin:18px 0 0;padding:0;display:grid;
grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:6px 24px;font-size:15px}
.key li{overflow-wrap:anywhere}
.path{color:var(--muted);font-size:13px}
.note h2{margin:0;font-size:15px;letter-spacing:0}
.note ul{margin:4px 0 0;padding-left:20px}
.bad{border-left-color:var(--c1)}
details{margin-top:18px;border:1px solid var(--grid);border-radius:10px}
summary{cursor:pointer;padding:11px 16px;font-weight:600}
pre{margin:0;padding:2px 16px 16px;overflow-x:auto;font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,
"Liberation Mono",monospace}
.equal pre{columns:300px 3;white-space:pre-wrap;overflow-wrap:anywhere}
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
.get,.skip,.screen{display:none}
figure,.cards,table,.note{break-inside:avoid}
h2,.about{break-after:avoid}
h2{margin-top:26px}
.wide .draw svg{min-width:0}
.panels{gap:18px 26px}
details::details-content{content-visibility:visible;height:auto}
pre{white-space:pre-wrap}
.tablewrap{overflow:visible}
.runs{font-size:9pt}
.runs td,.runs thead th{padding-right:8px;min-width:0}
.runs th{white-space:normal}
}
)css";

}  // namespace minite::diagnostics

// The style of the page of a comparison.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAGE_STYLE_H_
#define LONGSTREAM_CLIENT_COMPARE_PAGE_STYLE_H_

#include <string_view>

namespace longstream::client {

// Colours of text have a contrast of at least 4.5 to their background, lines of at least 3, in both
// modes (WCAG 2.2). The colours of arms are those of Okabe and Ito, darker on white and lighter on
// black; lines also differ by their dashes. Wide tables scroll inside their box, not with the page.
inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --text: #1b1f24; --soft: #59636e; --back: #fff; --box: #f4f6f8;
  --rule: #d0d7de; --good: #11652f; --bad: #a40e26; --open: #7a4d00;
  --c0: #0072b2; --c1: #c24e00; --c2: #007a58; --c3: #a8447f; --c4: #8a6a00; --c5: #2b7fb8;
  --c6: #333; --c7: #6b4fa0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #9da7b1; --back: #0d1117; --box: #161b22; --rule: #3a424c;
    --good: #56d37b; --bad: #ff8a92; --open: #e3b341;
    --c0: #56b4e9; --c1: #ff9a52; --c2: #2fc999; --c3: #e59ac6; --c4: #e6b833; --c5: #8fd0f7;
    --c6: #e0e0e0; --c7: #bda5f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; color: var(--text); background: var(--back);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; border-top: 1px solid var(--rule);
  padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { background: var(--box); border-left: .3rem solid var(--rule); padding: .6rem .8rem;
  margin: .6rem 0; max-width: none; }
.lead.better { border-color: var(--good); } .lead.worse { border-color: var(--bad); }
.lead.too_few, .lead.interim { border-color: var(--open); }
.lead.neutral { border-color: var(--soft); }
.note { color: var(--soft); font-size: .9rem; }
.verdict { font-weight: 600; white-space: normal; }
.verdict.better { color: var(--good); } .verdict.worse { color: var(--bad); }
.verdict.too_few, .verdict.interim { color: var(--open); }
.scroll { overflow-x: auto; margin: .5rem 0 1.25rem; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); overflow-wrap: normal; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 600; }
@media (min-width: 44rem) { tbody th { white-space: nowrap; } }
td.n, th.n { text-align: right; white-space: nowrap; }
td.n small { display: block; color: var(--soft); font-size: .8125rem; }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
figure { margin: .5rem 0; max-width: 36rem; }
figcaption { font-weight: 600; font-size: .9375rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke-width: 2; } .mark { stroke: none; } .band { stroke: none; opacity: .18; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .2rem 0;
  padding: 0; font-size: .875rem; }
.legend svg { display: inline-block; width: 26px; height: 10px; margin-right: .4rem; }
)css"
                                               R"css(
.line.c0 { stroke: var(--c0); } .mark.c0, .band.c0 { fill: var(--c0); }
.line.c1 { stroke: var(--c1); stroke-dasharray: 7 3; } .mark.c1, .band.c1 { fill: var(--c1); }
.line.c2 { stroke: var(--c2); stroke-dasharray: 2 3; } .mark.c2, .band.c2 { fill: var(--c2); }
.line.c3 { stroke: var(--c3); stroke-dasharray: 9 3 2 3; } .mark.c3, .band.c3 { fill: var(--c3); }
.line.c4 { stroke: var(--c4); stroke-dasharray: 12 4; } .mark.c4, .band.c4 { fill: var(--c4); }
.line.c5 { stroke: var(--c5); stroke-dasharray: 4 2; } .mark.c5, .band.c5 { fill: var(--c5); }
.line.c6 { stroke: var(--c6); stroke-dasharray: 1 3; } .mark.c6, .band.c6 { fill: var(--c6); }
.line.c7 { stroke: var(--c7); stroke-dasharray: 6 2 1 2; } .mark.c7, .band.c7 { fill: var(--c7); }
.flip { margin: .6rem 0; padding: .5rem .7rem; background: var(--box); }
.flip p { margin: .15rem 0; max-width: none; }
.text { font-family: ui-monospace, monospace; font-size: .875rem; }
.text bdi { white-space: pre-wrap; }
mark { background: none; color: inherit; border-bottom: 2px solid var(--c0); }
mark.other { border-bottom: 2px dashed var(--c1); }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; }
summary { cursor: pointer; padding: .3rem 0; }
@media print { .scroll { overflow: visible; } details > * { display: block; } }
)css";

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAGE_STYLE_H_

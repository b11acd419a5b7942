// Metrics of several runs over their steps.
"use strict";
(() => {
  const runs = data.runs;
  if (runs.length === 0) return;
  const kDash = ["", "dashed", "dotted", "dashdot", "longdash", "dashdotdot"];
  const metricsOf = (stage) => [...new Set(runs.flatMap((r) => Object.keys(r.stages[stage] || {})))].sort();
  const stages = [...new Set(runs.flatMap((r) => Object.keys(r.stages)))];
  const preferred = ["reward_mean", "reward", "gap_abs_mean", "train_rollout_logprob_abs_diff", "entropy", "loss"];

  function fill(select, names, wanted) {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(wanted)) select.value = wanted;
  }
  const stage = byId("dynamics-stage"), metric = byId("dynamics-metric");
  fill(stage, stages, stages.includes("rl") ? "rl" : stages[0]);
  const refill = () => {
    const names = metricsOf(stage.value), keep = metric.value;
    fill(metric, names, names.includes(keep) ? keep : preferred.find((m) => names.includes(m)));
  };
  refill();
  stage.addEventListener("input", refill);
  byId("dynamics-runs").innerHTML = runs.map((r, i) =>
    `<label class="k${i % 6}"><input type="checkbox" checked data-run="${i}"> <span class="name">${escapeText(r.name)}</span></label>`).join("");

  function draw() {
    const window = Number(byId("dynamics-window").value), log = byId("dynamics-log").checked;
    const first = byId("dynamics-first").value, last = byId("dynamics-last").value;
    const inside = (s) => (first === "" || s >= Number(first)) && (last === "" || s <= Number(last));
    const shown = [...byId("dynamics-runs").querySelectorAll("input:checked")].map((box) => Number(box.dataset.run));
    const series = shown.map((i) => {
      const column = (runs[i].stages[stage.value] || {})[metric.value] || {step: [], value: []};
      const rows = column.step.map((s, k) => [s, column.value[k] === null ? NaN : column.value[k]]).filter(([s]) => inside(s));
      return {run: i, step: rows.map((r) => r[0]), raw: rows.map((r) => r[1])};
    });
    for (const s of series) s.mean = runningMean(s.raw, window);
    const usable = (v) => Number.isFinite(v) && (!log || v > 0);
    const all = series.flatMap((s) => s.raw.filter(usable)), steps = series.flatMap((s) => s.step);
    byId("dynamics-text").textContent = all.length ? "" : "no value of this metric in this range";
    if (!all.length) return;
    const low = least(all), high = most(all), pad = log ? 0 : (high - low || Math.abs(high) || 1) * 0.05;
    const p = plot(900, 340, [least(steps), most(steps)], [low - pad, high + pad], ["step", metric.value], log);
    let body = p.body;
    for (const s of series) {
      const at = (values) => s.step.map((x, i) => [p.px(x), usable(values[i]) ? p.py(values[i]) : NaN]);
      if (window > 1) body += `<g opacity="0.3">${path(at(s.raw), s.run % 6)}</g>`;
      body += path(at(s.mean), s.run % 6, kDash[Math.floor(s.run / 6) % 6]);
    }
    show("dynamics", svg(900, 340, `${metric.value} over steps`, body),
         csvOf(["run", "stage", "metric", "step", "value", `mean_of_${window}`],
               series.flatMap((s) => s.step.map((x, i) => [runs[s.run].name, stage.value, metric.value, x, s.raw[i], s.mean[i]]))));
  }
  live("dynamics", draw);
})();

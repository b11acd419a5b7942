// Signs of advantage and gap: which updates widen the gap of their own token.
"use strict";
(() => {
  const kRegions = {
    pos_neg: ["A > 0, gap < 0", "The learner gives the token less than the sampler did, and the update raises it: the gap narrows. " +
              "TRIAGE's repair pulls such windows up."],
    pos_pos: ["A > 0, gap > 0", "The learner gives the token more, and the update raises it further: the gap widens. TRIAGE's gate leaves it alone."],
    neg_neg: ["A < 0, gap < 0", "The learner gives the token less, and the update lowers it further: the gap widens. This is the direction " +
              "that TRIAGE's gate attenuates, in windows with enough risk."],
    neg_pos: ["A < 0, gap > 0", "The learner gives the token more, and the update lowers it: the gap narrows."],
  };
  const sets = data.tokens;
  const chosen = {a: 1, gap: -1};

  function tokensOf(learner, sampler) {
    const list = [];
    for (const s of sets.sequences) {
      for (const t of s.tokens)
        list.push({sequence: s.sequence, position: t.position, text: t.text, advantage: s.advantage,
                   gap: t.learner[learner] - t.sampler[sampler]});
    }
    return list.filter((t) => Number.isFinite(t.gap));
  }

  function drawTokens() {
    const learner = Number(byId("quadrant-learner").value), sampler = Number(byId("quadrant-sampler").value);
    const tokens = tokensOf(learner, sampler), {shares, counts} = regionShares(tokens);
    const wide = most(tokens.map((t) => Math.abs(t.gap))) || 1, high = most(tokens.map((t) => Math.abs(t.advantage))) || 1;
    const p = plot(900, 360, [-wide * 1.05, wide * 1.05], [-high * 1.2, high * 1.2], ["gap: log-prob of the learner - of the sampler", "advantage A"]);
    let body = p.body + line(p.px(0), p.top, p.px(0), p.bottom, "zero") + line(p.left, p.py(0), p.right, p.py(0), "zero");
    const amplifies = (t) => t.advantage * t.gap > 0;
    for (const t of tokens) body += `<g class="k${amplifies(t) ? 1 : 0}"><circle class="end" opacity="0.4" cx="${p.px(t.gap).toFixed(1)}" cy="${p.py(t.advantage).toFixed(1)}" r="2.5"/></g>`;
    const at = {pos_neg: [p.left + 8, p.top + 14, "start"], pos_pos: [p.right - 8, p.top + 14, "end"],
                neg_neg: [p.left + 8, p.bottom - 8, "start"], neg_pos: [p.right - 8, p.bottom - 8, "end"]};
    for (const [name, [x, y, anchor]] of Object.entries(at))
      body += text(x, y, `${kRegions[name][0]}: ${counts[name]} tokens, ${(100 * shares[name]).toFixed(1)} % of |A|`, `text-anchor="${anchor}" class="group"`);
    byId("quadrant-text").textContent = `${tokens.length} tokens; widening: ${(100 * (shares.pos_pos + shares.neg_neg)).toFixed(1)} % of |A|, ` +
      `of which the gate's direction (A < 0, gap < 0): ${(100 * shares.neg_neg).toFixed(1)} %`;
    show("quadrant", svg(900, 360, "Advantage against gap, one point a token", body),
         csvOf(["sequence", "position", "text", "advantage", "gap"], tokens.map((t) => [t.sequence, t.position, t.text, t.advantage, t.gap])));
  }

  function drawSigns() {
    const name = (chosen.a > 0 ? "pos" : "neg") + (chosen.gap > 0 ? "_pos" : "_neg");
    let body = "";
    const cell = {pos_neg: [0, 0], pos_pos: [1, 0], neg_neg: [0, 1], neg_pos: [1, 1]};
    for (const [key, [cx, cy]] of Object.entries(cell)) {
      const x = 60 + cx * 400, y = 16 + cy * 100, widens = key === "pos_pos" || key === "neg_neg";
      body += `<g class="k${widens ? 1 : 0}"><rect class="bar" x="${x}" y="${y}" width="388" height="90" rx="8" style="opacity:${key === name ? 0.35 : 0.1}"/>` +
        `${text(x + 16, y + 34, kRegions[key][0], 'class="label"')}${text(x + 16, y + 62, widens ? "widens the gap" : "narrows the gap", 'class="value"')}` +
        `${key === "neg_neg" ? text(x + 200, y + 62, "TRIAGE's gate acts here", 'class="value"') : ""}</g>`;
    }
    byId("quadrant-text").textContent = `${kRegions[name][0]}. ${kRegions[name][1]}`;
    show("quadrant", svg(900, 220, "The four regions of advantage and gap", body),
         csvOf(["region", "effect"], Object.values(kRegions).map(([a, b]) => [a, b])));
  }

  if (sets) {
    for (const side of ["learner", "sampler"])
      sets[side + "s"].forEach((s, i) => byId("quadrant-" + side).add(new Option(`${s.recipe}, KV ${s.kv}` +
        (s.router_replay ? `, ${s.router_replay} of ${sets.samplers[s.experts_of].recipe}` : ""), i)));
    if (sets.samplers.length > 1) byId("quadrant-sampler").value = String(sets.samplers.length - 1);
    live("quadrant", drawTokens);
  } else {
    for (const [id, field] of [["quadrant-a", "a"], ["quadrant-gap", "gap"]]) {
      byId(id).addEventListener("click", () => {
        chosen[field] = -chosen[field];
        byId(id).textContent = chosen[field] > 0 ? "positive" : "negative";
        byId(id).setAttribute("aria-pressed", String(chosen[field] > 0));
        drawSigns();
      });
    }
    drawSigns();
  }
})();

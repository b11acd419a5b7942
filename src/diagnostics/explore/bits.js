// One NVFP4 value, bit by bit, and a block of sixteen as the quantizer sees it.
"use strict";
(() => {
  const state = {code: 5, scale: 0x3a};
  const kFields = {
    code: {bits: 4, names: ["sign", "exponent", "exponent", "mantissa"]},
    scale: {bits: 8, names: ["sign", "exponent", "exponent", "exponent", "exponent", "mantissa", "mantissa", "mantissa"]},
  };
  const outer = () => f32(Number(byId("bits-outer").value));

  function buttons(field) {
    const {bits, names} = kFields[field], host = byId(`bits-${field}`);
    names.forEach((name, i) => {
      const bit = bits - 1 - i, button = document.createElement("button");
      button.type = "button";
      button.className = `bit ${name}`;
      button.addEventListener("click", () => { state[field] ^= 1 << bit; draw(); });
      button.addEventListener("keydown", (event) => {
        const step = {ArrowUp: 1, ArrowDown: -1}[event.key];
        if (!step) return;
        event.preventDefault();
        state[field] = (state[field] + step + (1 << bits)) % (1 << bits);
        draw();
      });
      host.append(button);
    });
  }
  function refresh(field) {
    const {bits, names} = kFields[field];
    byId(`bits-${field}`).querySelectorAll("button").forEach((button, i) => {
      const on = (state[field] >> (bits - 1 - i)) & 1;
      button.textContent = on;
      button.setAttribute("aria-pressed", String(on === 1));
      button.setAttribute("aria-label", `${field === "code" ? "E2M1" : "E4M3"} bit ${bits - 1 - i}, ${names[i]}: ${on}`);
    });
  }

  function draw() {
    refresh("code");
    refresh("scale");
    const q = decodeE2M1(state.code), s = decodeE4M3(state.scale), g = outer();
    const inner = f32(q * s), value = f32(inner * g);
    const rows = [["element q (E2M1)", hex(state.code, 1), number(q)],
                  ["block scale s_b (E4M3)", hex(state.scale, 2), number(s)],
                  ["outer scale s_g (FP32)", "", number(g)],
                  ["q s_b, exact", "", number(inner)],
                  ["q s_b s_g", "", number(value)]];
    byId("bits-values").innerHTML = rows.map(([name, code, v]) =>
      `<tr><th scope="row">${escapeText(name)}</th><td class="code">${code}</td><td>${v}</td></tr>`).join("");
    const step = f32(f32(s) * g), known = Number.isFinite(step) && step !== 0;
    const width = 900, middle = 450, half = 400, unit = half / 6;
    let body = line(50, 60, 850, 60);
    for (let code = 0; code < 16; ++code) {
      const v = decodeE2M1(code), x = middle + v * unit * (known && step < 0 ? -1 : 1), chosen = code === state.code;
      body += `<g class="k${chosen ? 1 : 0}"><circle class="end" cx="${x}" cy="60" r="${chosen ? 8 : 4}"/></g>`;
      // Small values stand close: every other label one line lower.
      if (code !== 8) body += text(x, 90 + (code % 2) * 15, known ? number(f32(v * step)) : number(v * step), 'text-anchor="middle"');
      if (code !== 8) body += text(x, 38, hex(code, 1), 'text-anchor="middle"');
    }
    const csv = csvOf(["code", "q", "block_scale_byte", "block_scale", "outer_scale", "value"],
      Array.from({length: 16}, (_, c) => [hex(c, 1), number(decodeE2M1(c)), hex(state.scale, 2), number(s), g,
                                          f32(f32(decodeE2M1(c) * s) * g)]));
    show("bits", svg(width, 112, "The sixteen values that share this block scale", body), csv);
  }

  function drawBlock() {
    const words = byId("block-values").value.split(/[\s,;]+/).filter((w) => w !== "");
    const values = words.map(Number), wrong = words.find((w) => !Number.isFinite(Number(w)));
    byId("block-error").textContent = wrong === undefined ? "" : `"${wrong}" is not a number`;
    if (wrong !== undefined || values.length === 0) return;
    const typed = byId("block-amax").value, own = amaxOf(values), amax = typed === "" ? own : f32(Number(typed));
    const q = quantizeNvfp4(values, amax), error = relativeL2(values, q.decoded);
    const rows = values.map((x, i) => [i, f32(x), hex(q.scales[i >> 4], 2), hex(q.codes[i], 1), q.decoded[i], f32(q.decoded[i] - f32(x))]);
    byId("block-table").innerHTML = rows.map((r) =>
      `<tr><td>${r[0]}</td><td>${number(r[1])}</td><td class="code">${r[2]}</td><td class="code">${r[3]}</td>` +
      `<td>${number(r[4])}</td><td>${number(r[5])}</td></tr>`).join("");
    byId("block-summary").textContent = `outer amax ${number(amax)}, block scales ${q.scales.map((s) => number(decodeE4M3(s))).join(", ")}` +
      `, relative L2 ${number(error)}`;
    const top = Math.max(own, amaxOf(q.decoded), 1e-30);
    const p = plot(900, 240, [0, values.length], [-top, top], ["element", "value"]);
    let body = p.body;
    values.forEach((x, i) => {
      const left = p.px(i + 0.15), right = p.px(i + 0.5), w = p.px(i + 0.35) - p.px(i);
      for (const [at, v, color] of [[left, f32(x), 0], [right, q.decoded[i], 1]])
        body += `<g class="k${color}"><rect class="bar" x="${at}" y="${Math.min(p.py(v), p.py(0))}" width="${w}" height="${Math.abs(p.py(v) - p.py(0))}"/></g>`;
    });
    body += `<g class="k0">${text(70, 12, "input", 'class="label"')}</g><g class="k1">${text(112, 12, "decoded", 'class="label"')}</g>`;
    show("block", svg(900, 240, "Inputs and what their codes decode to", body),
         csvOf(["element", "input", "block_scale_byte", "code", "decoded", "error"], rows));
  }

  buttons("code");
  buttons("scale");
  live("bits", draw);
  live("block", drawBlock);
})();

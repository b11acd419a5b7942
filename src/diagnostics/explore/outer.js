// What another token's amax does to this token: one outer scale a tensor against one a token.
"use strict";
(() => {
  // 32 fixed inputs, two blocks of 16 of different size; a golden-ratio sequence, rounded to BF16-like steps.
  const token = Array.from({length: 32}, (_, i) => {
    const u = ((i + 1) * 0.6180339887498949) % 1;
    return Math.round((u - 0.5) * (i < 16 ? 512 : 64)) / 128;
  });
  const own = amaxOf(token);
  const sweep = Array.from({length: 105}, (_, i) => 2 ** (-2 + i / 4));
  const error = (amax) => relativeL2(token, quantizeNvfp4(token, amax).decoded);
  const single = error(own);
  const shared = sweep.map((other) => error(f32(Math.max(own, other))));

  function draw() {
    const other = f32(2 ** Number(byId("outer-amax").value)), amax = Math.max(own, other);
    const mine = quantizeNvfp4(token, own), all = quantizeNvfp4(token, amax), now = relativeL2(token, all.decoded);
    byId("outer-now").textContent = `other token's amax ${number(other)}: relative L2 ${number(now)} with one outer scale a tensor, ` +
      `${number(single)} with one a token`;
    byId("outer-scales").innerHTML = [["a token", own, mine], ["a tensor", amax, all]].map(([name, a, q]) =>
      `<tr><th scope="row">one outer scale ${name}</th><td>${number(a)}</td><td class="code">${q.scales.map((s) => hex(s, 2)).join(" ")}</td>` +
      `<td>${q.scales.map((s) => number(decodeE4M3(s))).join(", ")}</td><td>${q.decoded.filter((v) => v === 0).length}</td>` +
      `<td>${number(relativeL2(token, q.decoded))}</td></tr>`).join("");
    const logs = sweep.map(Math.log2);
    const p = plot(900, 300, [logs[0], logs[logs.length - 1]], [0, most([...shared, single]) * 1.05],
                   ["log2 of the other token's amax", "relative L2 of this token"]);
    let body = p.body + path(sweep.map((_, i) => [p.px(logs[i]), p.py(shared[i])]), 1);
    body += path([[p.left, p.py(single)], [p.right, p.py(single)]], 0, "dashed");
    body += `<g class="k1"><circle class="end" cx="${p.px(Math.log2(other))}" cy="${p.py(now)}" r="6"/>${text(p.left + 12, 34, "one outer scale a tensor", 'class="label"')}</g>`;
    body += `<g class="k0">${text(p.left + 12, 52, "one a token (dashed)", 'class="label"')}</g>`;
    const rows = token.map((x, i) => [i, x, mine.decoded[i], all.decoded[i], hex(mine.codes[i], 1), hex(all.codes[i], 1)]);
    byId("outer-values").innerHTML = rows.map((r) => `<tr><td>${r[0]}</td><td>${number(r[1])}</td><td>${number(r[2])}</td><td>${number(r[3])}</td></tr>`).join("");
    show("outer", svg(900, 300, "Relative L2 of this token against the other token's amax", body),
         csvOf(["other_amax", "relative_l2_tensor", "relative_l2_token"], sweep.map((v, i) => [v, shared[i], single])) +
         csvOf(["element", "input", "decoded_token", `decoded_tensor_amax_${number(amax)}`, "code_token", "code_tensor"], rows));
  }
  live("outer", draw);
})();

// The three products of a linear layer under a recipe, drawn from what `describe` says.
"use strict";
(() => {
  const recipes = data.recipes, select = byId("paths-recipe");
  recipes.forEach((r) => select.add(new Option(r.name, r.name)));
  if (recipes.some((r) => r.name === "nvfp4_per_token")) select.value = "nvfp4_per_token";
  let chosen = null;

  const quantized = (spec) => !["bf16", "fp32"].includes(spec.format);
  function box(x, y, width, title, under, key, color) {
    return `<g class="k${color} box" tabindex="0" role="button" data-key="${key}" aria-label="${escapeText(title + " " + under)}">` +
      `<rect class="bar" x="${x}" y="${y}" width="${width}" height="46" rx="7" style="opacity:${chosen === key ? 0.4 : 0.14}"/>` +
      `${text(x + 10, y + 20, title, 'class="label"')}${text(x + 10, y + 37, under)}</g>`;
  }
  const arrow = (x1, y1, x2, y2) => line(x1, y1, x2, y2) + `<path class="axis" d="M${x2 - 6} ${y2 - 4}L${x2} ${y2}L${x2 - 6} ${y2 + 4}"/>`;

  function details(recipe) {
    const map = {};
    for (const p of recipe.products) {
      map[p.pass] = `${p.pass}: ${p.equation}, contracted over ${p.contracted}, FP32 accumulation, outer scales applied to the sum.`;
      p.operands.forEach((o, i) => {
        const s = o.spec;
        const how = quantized(s)
          ? `${s.text}: ${o.scale_domain}. ${s.block === "2d" ? "2D blocks. " : ""}${s.rotation !== "none" ? "Hadamard rotation first. " : ""}` +
            `Rounding ${s.rounding === "sr" ? "stochastic" : "to nearest even"}, block scale by ${s.scale_search}. Stored as ${o.layout}.`
          : `${s.format}, not quantized.`;
        map[`${p.pass}.${i}`] = `${p.pass}, operand ${o.operand} ${o.shape}, ${o.source}. ${how}`;
      });
    }
    return map;
  }

  function draw() {
    const recipe = recipes.find((r) => r.name === select.value), words = details(recipe);
    let body = "";
    recipe.products.forEach((p, row) => {
      const top = 20 + row * 136;
      body += text(8, top + 4, p.pass, 'class="group"') + text(70, top + 4, p.equation);
      p.operands.forEach((o, i) => {
        const y = top + 14 + i * 54, s = o.spec;
        body += box(8, y, 150, o.operand, `${o.shape} bf16`, `${p.pass}.${i}`, 2) + arrow(158, y + 23, 190, y + 23);
        body += box(190, y, 360, quantized(s) ? `quantize: ${s.text}` : `${s.format} as it is`,
                    quantized(s) ? o.scale_domain.slice(0, 52) : o.source, `${p.pass}.${i}`, quantized(s) ? 1 : 0);
        body += arrow(550, y + 23, 590, top + 64);
      });
      body += box(590, top + 41, 170, `${p.operands[0].spec.format} x ${p.operands[1].spec.format}`, "FP32 accumulation", p.pass, 3) +
        arrow(760, top + 64, 792, top + 64);
      body += box(792, top + 41, 100, p.equation.split("[")[0], p.equation.slice(p.equation.indexOf("["), p.equation.indexOf("]") + 1), p.pass, 2);
    });
    byId("paths-text").textContent = (chosen && words[chosen]) || `${recipe.purpose}. Batch-invariant: ${recipe.batch_invariance}.`;
    show("paths", svg(900, 20 + recipe.products.length * 136, `Products of a linear layer under ${recipe.name}`, body),
         csvOf(["recipe", "pass", "equation", "operand", "shape", "spec", "scale_domain", "source", "layout"],
               recipe.products.flatMap((p) => p.operands.map((o) => [recipe.name, p.pass, p.equation, o.operand, o.shape, o.spec.text,
                                                                     o.scale_domain, o.source, o.layout]))));
    for (const node of byId("paths").querySelectorAll(".box")) {
      const pick = () => {
        chosen = node.dataset.key;
        draw();
        byId("paths").querySelector(`.box[data-key="${chosen}"]`).focus();
      };
      node.addEventListener("click", pick);
      node.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pick();
      });
    }
  }
  select.addEventListener("input", () => { chosen = null; });
  live("paths", draw);
})();

// Drawing and downloads that all figures share. A figure is SVG text whose colours are CSS variables.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const escapeText = (text) =>
  String(text).replace(/[&<>"']/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})[c]);
const byId = (id) => document.getElementById(id);
const hex = (value, digits) => "0x" + value.toString(16).toUpperCase().padStart(digits, "0");

/// About six significant digits; exact for what the formats can hold.
function number(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (Object.is(x, -0)) return "-0";
  const text = Math.abs(x) !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e6) ? x.toExponential(4) : x.toPrecision(6);
  return text.includes("e") ? text : String(Number(text));
}

const least = (list) => list.reduce((a, b) => Math.min(a, b), Infinity);
const most = (list) => list.reduce((a, b) => Math.max(a, b), -Infinity);

function svg(width, height, title, body) {
  return `<svg xmlns="http://www.w3.org/2000/svg" class="fig" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}" role="img" aria-label="${escapeText(title)}"><title>${escapeText(title)}</title>${body}</svg>`;
}
const text = (x, y, words, attributes = "") => `<text x="${x}" y="${y}" ${attributes}>${escapeText(words)}</text>`;
const line = (x1, y1, x2, y2, kind = "axis") => `<line class="${kind}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;

/// Steps of 1, 2 or 5 times a power of ten over [low, high].
function ticks(low, high, count = 6) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
  const list = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); ++i) list.push(i * step + 0);
  return list;
}

/// Axes of a plot and its two maps from values to pixels. `log` is for y.
function plot(width, height, x, y, labels, log = false) {
  const left = 62, right = width - 16, top = 14, bottom = height - 40;
  const lift = (v) => (log ? Math.log10(v) : v);
  const [low, high] = log ? [Math.floor(lift(y[0])), Math.ceil(lift(y[1]))] : y;
  const px = (v) => left + (right - left) * (x[1] > x[0] ? (v - x[0]) / (x[1] - x[0]) : 0.5);
  const py = (v) => bottom - (bottom - top) * (high > low ? (lift(v) - low) / (high - low) : 0.5);
  let body = "";
  const marks = log ? Array.from({length: high - low + 1}, (_, i) => 10 ** (low + i)) : ticks(low, high);
  for (const v of marks) body += line(left, py(v), right, py(v), "grid") + text(left - 8, py(v) + 4, number(v), 'text-anchor="end"');
  for (const v of ticks(x[0], x[1])) body += text(px(v), bottom + 18, number(v), 'text-anchor="middle"');
  body += line(left, bottom, right, bottom) + text((left + right) / 2, height - 4, labels[0], 'text-anchor="middle"');
  body += text(14, (top + bottom) / 2, labels[1], `text-anchor="middle" transform="rotate(-90 14 ${(top + bottom) / 2})"`);
  return {body, px, py, left, right, top, bottom};
}
function path(points, color, kind = "") {
  let d = "", open = false;
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) { open = false; continue; }
    d += (open ? "L" : "M") + x.toFixed(2) + " " + y.toFixed(2);
    open = true;
  }
  return `<g class="k${color}"><path class="line ${kind}" d="${d}"/></g>`;
}

/// Puts a drawing into the figure `id` and lets its links give what is drawn now.
function show(id, drawing, csv) {
  byId(id).querySelector(".draw").innerHTML = drawing;
  const style = document.querySelector("style").textContent;
  const alone = drawing.replace(/<title>/, `<style>${style.replace(/</g, "&lt;")}</style><title>`);
  for (const [kind, type, content] of [["svg", "image/svg+xml", alone], ["csv", "text/csv", csv]]) {
    const link = byId(id).querySelector(`a[download$=".${kind}"]`);
    link.href = `data:${type};charset=utf-8,` + encodeURIComponent(content);
  }
}
const csvOf = (header, rows) => [header, ...rows].map((r) => r.map((cell) =>
  /[",\n]/.test(String(cell)) ? `"${String(cell).replace(/"/g, '""')}"` : cell).join(",")).join("\n") + "\n";

/// Runs `draw` now and whenever one of the controls of figure `id` changes.
function live(id, draw) {
  for (const control of byId(id).querySelectorAll("input,select,textarea")) control.addEventListener("input", draw);
  draw();
}

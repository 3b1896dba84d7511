// Boxes on a photo, words in the colours of their boxes, and the light between the two. Used by the live page and the report.
"use strict";

const COLOURS = 7; // .c0 ... .c6 in style.css; from the eighth on they come again, dashed

function colourClass(number) {
  return `c${number % COLOURS}${number >= COLOURS ? " dashed" : ""}`;
}

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value; // as an attribute the Content-Security-Policy refuses it
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// items: [{box: [x0, y0, x1, y1] in 0..1, colour: number, label: text, key: what lights it}]
function showBoxes(stage, items) {
  let layer = stage.querySelector(".boxes");
  if (!layer) stage.append((layer = element("div", { class: "boxes", "aria-hidden": "true" })));
  const area = ({ box }) => (box[2] - box[0]) * (box[3] - box[1]);
  layer.className = "boxes";
  layer.replaceChildren(
    ...[...items].sort((a, b) => area(b) - area(a)).map((item) => {
      const [x0, y0, x1, y1] = item.box;
      const place = `left:${100 * x0}%;top:${100 * y0}%;width:${100 * (x1 - x0)}%;height:${100 * (y1 - y0)}%`;
      const edges = (y0 < 0.08 ? " high" : "") + (x0 > 0.6 ? " left" : "");
      const room = `max-width:min(260px, ${(100 * (x0 > 0.6 ? x1 : 1 - x0)) / Math.max(x1 - x0, 0.001)}%)`; // up to the photo's edge
      return element(
        "div",
        { class: `box ${colourClass(item.colour)}${edges}`, style: place, "data-key": item.key },
        element("span", { class: "tag", style: room }, item.label),
      );
    }),
  );
}

// Lights the box (and every word) of a key; null puts the light out.
function light(root, key) {
  const layer = root.querySelector(".boxes");
  const boxes = root.querySelectorAll(".box");
  let lit = false;
  boxes.forEach((box) => {
    const on = key !== null && box.dataset.key === String(key);
    box.classList.toggle("lit", on);
    lit = lit || on;
  });
  if (layer) layer.classList.toggle("some-lit", lit);
  root.querySelectorAll(".word, .region").forEach((node) => {
    node.classList.toggle("lit", key !== null && node.dataset.key === String(key));
  });
}

function lights(root, node, key) {
  node.dataset.key = key;
  for (const event of ["mouseenter", "focus"]) node.addEventListener(event, () => light(root, key));
  for (const event of ["mouseleave", "blur"]) node.addEventListener(event, () => light(root, null));
  return node;
}

// regions[t]: the word's region or -1. Returns region -> number of its colour, in the order of first use.
function sentenceColours(regions) {
  const colours = new Map();
  for (const region of regions) if (region >= 0 && !colours.has(region)) colours.set(region, colours.size);
  return colours;
}

// Fills `line` with the words; scores[t] is the word's similarity with its region, words below `threshold` are faded.
function showSentence(root, line, words, regions, scores, threshold, colours) {
  line.classList.add("sentence");
  line.setAttribute("role", "group");
  line.setAttribute("aria-label", `${words.join(" ")}. The arrow keys go from word to word.`);
  line.replaceChildren(
    ...words.map((word, t) => {
      const region = regions[t];
      if (region < 0) {
        return element("span", { class: "word unknown", title: `${word}: not in the model's vocabulary, or after the last word it reads` }, word);
      }
      const faded = scores[t] < threshold;
      const text = `${word}: ${region === 0 ? "whole photo" : `region ${region}`}, score ${scores[t].toFixed(2)}`;
      const node = element(
        "span",
        {
          class: `word ${faded ? "faded" : `on ${colourClass(colours.get(region))}`}`,
          tabindex: "-1", title: text, "aria-label": text, role: "img",
        },
        word,
      );
      return lights(root, node, region);
    }),
  );
  walkable(line, ".word[tabindex]");
}

// One stop of the tab key for all children; the arrow keys go from one to the next.
function walkable(line, selector) {
  const stops = [...line.querySelectorAll(selector)];
  if (stops.length) stops[0].tabIndex = 0;
  line.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = step && stops[stops.indexOf(event.target) + step];
    if (!to) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };
}

// The boxes of a sentence, each with the phrases that chose it.
function sentenceBoxes(words, regions, scores, threshold, boxes, colours) {
  const phrases = new Map();
  regions.forEach((region, t) => {
    if (region < 0 || scores[t] < threshold) return;
    const list = phrases.get(region) || [];
    const goes_on = t > 0 && regions[t - 1] === region && scores[t - 1] >= threshold && list.length;
    if (goes_on) list[list.length - 1] += ` ${words[t]}`;
    else list.push(words[t]);
    phrases.set(region, list);
  });
  return [...phrases].map(([region, list]) => ({
    box: boxes[region], colour: colours.get(region), label: list.join(" … "), key: region,
  }));
}

function themeButton(button) {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  if (stored()) root.dataset.theme = stored();
  button.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a page from a file may not remember */ }
  });
}

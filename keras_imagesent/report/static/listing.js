// A list with search, order and pages; what a person chose stands in the address, so that it can be sent on.
"use strict";

// items: anything; text(item): what the search looks through; orders: {name: (a, b) => number}; show(page of items): promise of nodes.
function listing({ root, items, text, orders, show, perPage, prefix = "" }) {
  const lower = items.map((item) => text(item).toLowerCase());
  const search = root.querySelector("input[type=search]");
  const order = root.querySelector("select");
  const list = root.querySelector(".list");
  const count = root.querySelector(".count");
  order.replaceChildren(...Object.keys(orders).map((name) => element("option", { value: name }, name)));
  let page = 0;
  let drawn = 0;

  function read() {
    const query = new URLSearchParams(location.hash.slice(1));
    search.value = query.get(`${prefix}find`) || "";
    order.value = query.get(`${prefix}order`) || Object.keys(orders)[0];
    if (!order.value) order.selectedIndex = 0;
    page = Math.max(0, (parseInt(query.get(`${prefix}page`), 10) || 1) - 1);
  }

  function write() {
    const query = new URLSearchParams(location.hash.slice(1));
    for (const [name, value, usual] of [["find", search.value, ""], ["order", order.value, Object.keys(orders)[0]], ["page", String(page + 1), "1"]]) {
      if (value === usual) query.delete(prefix + name);
      else query.set(prefix + name, value);
    }
    history.replaceState(null, "", `#${query}`);
  }

  function chosen() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = items.map((_, i) => i).filter((i) => wanted.every((word) => lower[i].includes(word)));
    const compare = orders[order.value];
    return compare ? found.sort((a, b) => compare(items[a], items[b]) || a - b) : found;
  }

  async function draw() {
    const turn = ++drawn;
    const found = chosen();
    const pages = Math.max(1, Math.ceil(found.length / perPage));
    page = Math.min(page, pages - 1);
    const here = found.slice(page * perPage, (page + 1) * perPage);
    const nodes = await show(here.map((i) => items[i]));
    if (turn !== drawn) return; // overtaken by a later choice
    list.replaceChildren(...nodes);
    count.textContent = found.length
      ? `${found.length.toLocaleString("en")} of ${items.length.toLocaleString("en")}, page ${page + 1} of ${pages}`
      : `Nothing found. ${items.length.toLocaleString("en")} in all.`;
    root.querySelectorAll(".pager").forEach((pager) => {
      const step = (label, to, off) => element("button", { type: "button", disabled: off ? "" : null, onclick: () => turnTo(to) }, label);
      pager.replaceChildren(step("← Previous", page - 1, page === 0), element("span", { class: "soft number" }, `${page + 1} / ${pages}`), step("Next →", page + 1, page >= pages - 1));
    });
    root.dataset.drawn = String(turn);
  }

  function turnTo(to) {
    page = to;
    write();
    draw().then(() => root.scrollIntoView({ block: "start" }));
  }

  function changed() {
    page = 0;
    write();
    draw();
  }

  let waiting;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(changed, 120); });
  order.addEventListener("change", changed);
  window.addEventListener("hashchange", () => { read(); draw(); });
  read();
  draw();
  return { draw };
}

// Details lie in files of PHOTOS_IN_A_FILE photos each, loaded when they are first needed (a script works from a file, fetch does not).
const loadedFiles = new Map();

function photoDetails(number) {
  const file = Math.floor(number / REPORT.photosInAFile);
  if (!loadedFiles.has(file)) {
    loadedFiles.set(file, new Promise((resolve, reject) => {
      const script = element("script", { src: `data/photos-${String(file).padStart(4, "0")}.js` });
      script.addEventListener("load", () => resolve(PHOTOS[file]));
      script.addEventListener("error", () => reject(new Error(`${script.src} is missing: make the report again`)));
      document.head.append(script);
    }));
  }
  return loadedFiles.get(file).then((photos) => photos[number % REPORT.photosInAFile]);
}

const PHOTOS = {};

function missingLast(value, worst) {
  return value === null || value === undefined ? worst : value;
}

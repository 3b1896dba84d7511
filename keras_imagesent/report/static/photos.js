// The photos of a split: sentences on their boxes, captions, regions.
"use strict";

const controls = { after: true, fade: 0.25 };

function photoCard(summary, photo) {
  const tall = `max-width:${Math.round((360 * photo.width) / photo.height)}px`; // no photo is higher than 360 pixels
  const stage = element("div", { class: "stage", style: tall }, element("img", {
    src: `thumbs/${summary.thumb}`, width: photo.width, height: photo.height, loading: "lazy", alt: photo.sentences.length ? photo.sentences[0].text : summary.filename,
  }));
  const right = element("div");
  const card = element("article", { class: "card photo", id: `photo-${summary.number}`, "aria-label": summary.filename },
    element("div", {}, stage, element("div", { class: "name" }, summary.filename)), right);
  const first = photo.sentences.length && photo.sentences[0].words ? 0 : null;
  let showing = first;

  const sentences = photo.sentences.map((sentence, number) => {
    const line = element("div");
    const node = element("div", { class: "choice" }, line,
      sentence.score === null ? "" : element("span", { class: "soft number", title: "score of photo and sentence" }, sentence.score.toFixed(2)));
    const choose = () => { showing = number; draw(); };
    line.addEventListener("click", choose);
    line.addEventListener("focusin", () => { if (showing !== number) choose(); });
    line.addEventListener("mouseenter", () => { if (showing !== number) choose(); });
    return { node, line, sentence };
  });

  function draw() {
    sentences.forEach(({ node, line, sentence }, number) => {
      node.classList.toggle("shown", number === showing);
      if (!sentence.words) { line.textContent = sentence.text; return; }
      const regions = controls.after ? sentence.after : sentence.before;
      const scores = controls.after ? sentence.afterScores : sentence.beforeScores;
      const threshold = controls.fade ? controls.fade * Math.max(0, ...scores) : -Infinity;
      const colours = sentenceColours(regions);
      if (line.dataset.key !== `${controls.after}${controls.fade}`) {
        showSentence(card, line, sentence.words, regions, scores, threshold, colours);
        line.dataset.key = `${controls.after}${controls.fade}`;
      }
      if (number === showing) showBoxes(stage, sentenceBoxes(sentence.words, regions, scores, threshold, photo.boxes, colours));
    });
  }

  if (sentences.length) {
    right.append(element("h3", {}, sentences[0].sentence.words ? "Sentences people wrote, each word in the colour of its box" : "Sentences people wrote"));
    right.append(...sentences.map(({ node }) => node));
  }
  if (photo.caption) {
    const list = element("dl", { class: "pair" });
    const row = (name, text, number, title) => list.append(element("dt", {}, name), element("dd", {}, text), element("dd", { class: "soft number", title }, number));
    row("The model", photo.caption.text, `CIDEr ${(100 * photo.caption.cider).toFixed(0)}%`, `log probability ${photo.caption.logProb.toFixed(2)}`);
    if (photo.neighbour) row("Nearest photo", photo.neighbour.text, `CIDEr ${(100 * photo.neighbour.cider).toFixed(0)}%`, `copied from ${photo.neighbour.filename}`);
    right.append(element("h3", {}, "Captions"), list);
  }
  if (photo.regions) {
    const regions = element("details", {}, element("summary", {}, `Captions of ${photo.regions.length} regions`));
    const list = element("ol", { class: "regions" }, ...photo.regions.map((region) => {
      const item = element("li", { class: "region", tabindex: "-1" },
        element("span", { class: `swatch ${colourClass(region.region)}` }, region.region === 0 ? "all" : String(region.region)),
        element("span", { class: "text" }, region.text), element("span", { class: "soft number", title: "log probability" }, region.logProb.toFixed(2)));
      return lights(card, item, region.region);
    }));
    walkable(list, ".region");
    regions.append(list);
    regions.addEventListener("toggle", () => {
      showing = regions.open ? null : first;
      if (showing === null) showBoxes(stage, []);
      draw();
      if (!regions.open) return;
      showBoxes(stage, photo.regions.filter(({ region }) => region > 0).map(({ region }) => ({ box: photo.boxes[region], colour: region, label: String(region), key: region })));
    });
    right.append(regions);
  }
  card.redraw = draw;
  draw();
  return card;
}

function photosPage() {
  const root = document.getElementById("photos");
  const number = (name, worst) => (item) => missingLast(item[name], worst);
  const down = (name) => (a, b) => number(name, -Infinity)(b) - number(name, -Infinity)(a);
  const up = (name) => (a, b) => number(name, Infinity)(a) - number(name, Infinity)(b);
  const orders = { "data set's order": null };
  if (REPORT.captions) Object.assign(orders, { "best captions (CIDEr)": down("cider"), "worst captions (CIDEr)": up("cider") });
  if (REPORT.alignment) {
    Object.assign(orders, {
      "highest alignment score": down("score"), "lowest alignment score": up("score"),
      "own sentence found first": up("rank"), "own sentence found last": down("rank"),
    });
  }
  orders["file name"] = (a, b) => (a.filename < b.filename ? -1 : a.filename > b.filename ? 1 : 0);
  const { draw } = listing({
    root, items: SUMMARY, orders, perPage: 12,
    text: (item) => `${item.filename} ${item.text}`,
    show: (items) => Promise.all(items.map(async (item) => photoCard(item, await photoDetails(item.number)))),
  });
  const redraw = () => root.querySelectorAll("article").forEach((card) => card.redraw());
  const mrf = document.getElementById("mrf");
  const fade = document.getElementById("fade");
  if (mrf) mrf.addEventListener("change", () => { controls.after = mrf.checked; redraw(); });
  if (fade) fade.addEventListener("input", () => { controls.fade = fade.value / 100; redraw(); });
  return draw;
}

photosPage();

// Retrieval to look at: a photo's best sentences, a sentence's best photos.
"use strict";

const ranks = { "data set's order": null, "own answer found last": (a, b) => b.rank - a.rank, "own answer found first": (a, b) => a.rank - b.rank };

function mark(right) {
  return right ? element("span", { class: "right-mark" }, "✓ ", element("span", { class: "visually-hidden" }, "right: ")) : "";
}

function photoAnswers(item) {
  const answers = item.best.map(([sentence, score]) => {
    const { text, photo } = SENTENCES[sentence];
    return element("li", {}, mark(photo === item.number), text, " ", element("span", { class: "soft number" }, score.toFixed(2)));
  });
  return element("article", { class: "card photo", "aria-label": item.filename },
    element("div", {}, element("div", { class: "stage whole" }, element("img", { src: `thumbs/${item.thumb}`, loading: "lazy", alt: item.filename })), element("div", { class: "name" }, item.filename)),
    element("div", {}, element("h3", {}, `Best sentences (an own one is number ${item.rank})`), element("ol", { class: "answers" }, ...answers)));
}

function sentenceAnswers(item) {
  const answers = item.best.map(([photo, score]) => {
    const right = photo === item.photo;
    return element("figure", { class: right ? "right" : "" },
      element("img", { src: `thumbs/${SUMMARY[photo].thumb}`, loading: "lazy", alt: SUMMARY[photo].filename }),
      element("figcaption", {}, mark(right), element("span", { class: "number" }, score.toFixed(2))));
  });
  return element("article", { class: "card" }, element("h3", {}, `“${item.text}” `, element("small", { class: "soft" }, `its own photo is number ${item.rank}`)), element("div", { class: "gallery" }, ...answers));
}

function galleriesPage() {
  const [photos, sentences] = ["photo-gallery", "sentence-gallery"].map((id) => document.getElementById(id));
  listing({ root: photos, items: SUMMARY, orders: ranks, perPage: 10, prefix: "p-", text: (item) => `${item.filename} ${item.text}`, show: async (items) => items.map(photoAnswers) });
  listing({ root: sentences, items: SENTENCES, orders: ranks, perPage: 10, prefix: "s-", text: (item) => item.text, show: async (items) => items.map(sentenceAnswers) });
  const tabs = document.querySelectorAll("[role=tab]");
  const choose = (tab) => tabs.forEach((other) => {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).classList.toggle("hidden", other !== tab);
  });
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tabs[(i + 1) % tabs.length];
      choose(other);
      other.focus();
    });
  });
}

galleriesPage();

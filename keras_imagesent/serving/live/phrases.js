// The chain MRF over the words of a sentence (Eqs. 10-12), as keras_imagesent/alignment/phrases.py decodes it.
"use strict";

// similarity[t][r], wordMask[t], regionMask[r] -> region of each word; -1 for a word that is masked.
// Masked words are left out of the chain: their neighbours become neighbours.
function decodePhrases(similarity, wordMask, regionMask, beta) {
  const regions = [...regionMask.keys()].filter((r) => regionMask[r]);
  const chain = [...wordMask.keys()].filter((t) => wordMask[t]);
  const answer = wordMask.map(() => -1);
  if (!chain.length || !regions.length) return answer;
  let best = regions.map((r) => similarity[chain[0]][r]);
  const cameFrom = [];
  for (const t of chain.slice(1)) {
    let top = 0;
    best.forEach((score, i) => { if (score > best[top]) top = i; });
    const stay = regions.map((_, i) => best[i] + beta >= best[top]);
    cameFrom.push(stay.map((stays, i) => (stays ? i : top)));
    best = regions.map((r, i) => (stay[i] ? best[i] + beta : best[top]) + similarity[t][r]);
  }
  let at = 0;
  best.forEach((score, i) => { if (score > best[at]) at = i; });
  for (let k = chain.length - 1; k >= 0; k--) {
    answer[chain[k]] = regions[at];
    if (k > 0) at = cameFrom[k - 1][at];
  }
  return answer;
}

if (typeof module !== "undefined") module.exports = { decodePhrases };

// What a page has against those who see little, or hear it: run by tests/pages/test_browser.py.
const dark = (color) => {
  const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
  const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  return [0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b), a];
};
const paper = (node) => {
  for (; node; node = node.parentElement) {
    const [light, alpha] = dark(getComputedStyle(node).backgroundColor);
    if (alpha === 1) return light;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? 0 : 1;
};
const faint = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  if (!own || !node.getClientRects().length || node.closest("svg, .skip, [aria-hidden=true], .off")) continue;
  const pair = [dark(getComputedStyle(node).color)[0], paper(node)].sort((a, b) => b - a);
  const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
  if (contrast < 4.5) faint.push(`${node.className || node.tagName}: ${contrast.toFixed(2)}`);
}
const nameless = [...document.querySelectorAll("a, button, input:not([type=hidden]), select, summary, canvas, svg[role=img]")]
  .filter((node) => !((node.tagName !== "SELECT" && node.textContent.trim())
    || node.getAttribute("aria-label") || node.querySelector("[aria-label]")
    || [...(node.labels ?? [])].some((label) => label.textContent.trim())))
  .map((node) => node.outerHTML.slice(0, 80));
return {
  faint, nameless,
  headings: document.querySelectorAll("h1").length,
  language: document.documentElement.lang,
  mains: document.querySelectorAll("main").length,
};

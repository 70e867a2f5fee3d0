"use strict";
// Keys, and suggestions while typing. Every page works without this file.

const field = document.getElementById("search");
const found = document.getElementById("found");

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// ---- suggestions
let typed = 0;
let timer = 0;
let chosen = -1;

async function suggest() {
  const turn = ++typed;
  const text = field.value.trim();
  if (!text) return hide();
  const answer = await fetch("/search?format=json&q=" + encodeURIComponent(text)).catch(() => null);
  if (!answer?.ok || turn !== typed) return;
  const { items, users } = await answer.json();
  const rows = [
    ...users.slice(0, 3).map((user) => [user.url, "User " + user.id, ""]),
    ...items.slice(0, 8).map((item) => [item.url, item.name, item.facts]),
  ];
  found.replaceChildren(...rows.map(([url, name, facts], place) => {
    const row = element("li", "", { role: "none" });
    const link = element("a", "", { href: url, role: "option", tabindex: "-1", id: "found-" + place });
    link.append(element("span", name), element("span", facts.slice(0, 40), { class: "muted" }));
    row.append(link);
    return row;
  }));
  show(rows.length > 0);
}

function hide() {
  clearTimeout(timer);
  typed++; // an answer on its way is late
  show(false);
}

function show(is) {
  chosen = -1;
  found.hidden = !is;
  field.setAttribute("aria-expanded", String(is));
  field.removeAttribute("aria-activedescendant");
}

function choose(step) {
  const links = [...found.querySelectorAll("a")];
  if (!links.length) return;
  chosen = (chosen + step + links.length) % links.length;
  links.forEach((link, at) => link.setAttribute("aria-selected", String(at === chosen)));
  field.setAttribute("aria-activedescendant", links[chosen].id);
}

field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(suggest, 60); });
field.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    choose(event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
  } else if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    found.querySelectorAll("a")[chosen].click();
  } else if (event.key === "Escape") {
    hide();
    field.blur();
  }
});
document.addEventListener("click", (event) => { if (!event.target.closest(".top .search")) hide(); });

// ---- keys
let at = -1;

function go(step) {
  const rows = [...document.querySelectorAll("main .rows li")].filter((row) => row.querySelector("a"));
  if (!rows.length) return;
  rows[at]?.classList.remove("at");
  at = Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[at].classList.add("at");
  rows[at].querySelector("a").focus({ preventScroll: true });
  rows[at].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) return;
  const follow = (rel) => document.querySelector(`a[rel=${rel}]`)?.click();
  const actions = {
    "/": () => { field.focus(); field.select(); },
    j: () => go(1),
    k: () => go(-1),
    n: () => follow("next"),
    p: () => follow("prev"),
  };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

// ---- forms that apply at once: the main part of the page is that of the form's address
let applied = 0;

async function apply(form, name) {
  const turn = ++applied;
  const rests = (key, value) => value === "" || value === form.elements[key].dataset?.rest;
  const asked = new URLSearchParams([...new FormData(form)].filter(([key, value]) => !rests(key, value)));
  const url = form.getAttribute("action") + "?" + asked;
  const answer = await fetch(url).catch(() => null);
  if (turn !== applied) return;
  if (!answer?.ok) return location.assign(url); // the browser says why
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (turn !== applied) return;
  const unfolded = [...document.querySelectorAll("details")].map((each) => each.open);
  document.getElementById("main").replaceWith(document.adoptNode(page.getElementById("main")));
  document.querySelectorAll("details").forEach((each, place) => { each.open = unfolded[place]; });
  document.getElementById("json").href = page.getElementById("json").getAttribute("href");
  document.getElementById("told").textContent = document.getElementById("effect")?.textContent ?? "";
  document.querySelector(`form[data-live] [name="${name}"]`)?.focus({ preventScroll: true });
  history.replaceState(null, "", url);
  at = -1;
}

document.addEventListener("input", (event) => {
  const shown = event.target.closest("[data-live]") && document.querySelector(`output[for="${event.target.id}"]`);
  if (shown) shown.value = event.target.value;
});
document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-live]");
  if (form) apply(form, event.target.name);
});

"use strict";
// The map of items: fetches their places, draws them on a canvas, and moves and zooms.

const COLORS = {
  light: ["#3b4cca", "#c2410c", "#0d8a5f", "#b0286f", "#8a6d00", "#0b7fa8", "#7a3fc4", "#8b8e9c"],
  dark: ["#95a3ff", "#ff9a63", "#4fd39f", "#ff86c0", "#e3c24d", "#5cc8f0", "#c69bff", "#7d8090"],
};

class ItemMap {
  constructor(canvas, points, kinds) {
    Object.assign(this, { canvas, points, kinds, scale: 1, x: 0.5, y: 0.5, over: null });
    this.most = Math.max(1, ...points.map((point) => point.users));
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.resize());
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  place(point) {
    const margin = 24;
    return [
      this.width / 2 + (point.x - this.x) * (this.width - 2 * margin) * this.scale,
      this.height / 2 + (point.y - this.y) * (this.height - 2 * margin) * this.scale,
    ];
  }

  radius(point) {
    return (1.6 + 6 * Math.sqrt(point.users / this.most)) * Math.min(2, Math.sqrt(this.scale));
  }

  draw() {
    const pen = this.pen;
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink");
    const card = style.getPropertyValue("--card");
    const colors = COLORS[this.dark.matches ? "dark" : "light"];
    pen.clearRect(0, 0, this.width, this.height);
    pen.globalAlpha = 0.75;
    for (const point of this.points) {
      const [x, y] = this.place(point);
      pen.fillStyle = colors.at(point.kind);
      pen.beginPath();
      pen.arc(x, y, this.radius(point), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    this.name(ink, card);
  }

  // Names of the most popular items in sight, each where no other name is.
  name(ink, card) {
    const pen = this.pen;
    const taken = [];
    const most = Math.min(45, this.width * this.height / 13500); // a phone has room for fewer
    pen.font = "12px system-ui, sans-serif";
    pen.lineJoin = "round";
    pen.lineWidth = 3;
    const order = this.over ? [this.over, ...this.points] : this.points;
    for (const point of order) {
      if (taken.length >= most) break;
      const [x, y] = this.place(point);
      if (x < 0 || y < 0 || x > this.width || y > this.height) continue;
      const text = point.name.length > 32 ? point.name.slice(0, 31) + "…" : point.name;
      const width = pen.measureText(text).width;
      const left = Math.min(x + this.radius(point) + 3, this.width - width - 4);
      const box = [left - 4, y - 9, left + width + 4, y + 9];
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      taken.push(box);
      if (point === this.over) pen.font = "600 13px system-ui, sans-serif";
      pen.strokeStyle = card;
      pen.strokeText(text, left, y + 4);
      pen.fillStyle = ink;
      pen.fillText(text, left, y + 4);
      pen.font = "12px system-ui, sans-serif";
    }
  }

  nearest(x, y) {
    let best = null;
    let least = 14 ** 2;
    for (const point of this.points) {
      const [px, py] = this.place(point);
      const apart = (px - x) ** 2 + (py - y) ** 2;
      if (apart < least) [best, least] = [point, apart];
    }
    return best;
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, 0.8), 40);
    const move = (1 / this.scale - 1 / scale);
    this.x += (x - this.width / 2) / (this.width - 48) * move;
    this.y += (y - this.height / 2) / (this.height - 48) * move;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.x -= dx / (this.width - 48) / this.scale;
    this.y -= dy / (this.height - 48) / this.scale;
    this.draw();
  }

  listen() {
    const canvas = this.canvas;
    const fingers = new Map();
    let moved = 0;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = [event.offsetX, event.offsetY];
      const before = fingers.get(event.pointerId);
      if (!before) {
        const over = this.nearest(...now);
        if (over !== this.over) {
          this.over = over;
          canvas.classList.toggle("over", Boolean(over));
          canvas.title = over ? `${over.name} (${over.users} users)` : "";
          this.draw();
        }
        return;
      }
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      fingers.set(event.pointerId, now);
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (others.length) {
        const length = (place) => Math.hypot(place[0] - others[0][0], place[1] - others[0][1]);
        this.zoom(length(now) / Math.max(length(before), 1), ...others[0]);
      } else {
        this.pan(now[0] - before[0], now[1] - before[1]);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      fingers.delete(event.pointerId);
      const point = moved < 5 && this.nearest(event.offsetX, event.offsetY);
      if (point) location.href = point.url;
    });
    canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
    canvas.addEventListener("keydown", (event) => {
      const step = 60;
      const actions = {
        "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4),
        ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0),
        ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step),
        0: () => { Object.assign(this, { scale: 1, x: 0.5, y: 0.5 }); this.draw(); },
      };
      if (actions[event.key]) {
        event.preventDefault();
        actions[event.key]();
      }
    });
  }
}

async function showMap(canvas) {
  const state = document.getElementById("map-state");
  const answer = await fetch(canvas.dataset.points);
  if (!answer.ok) {
    state.textContent = (await answer.json()).error;
    return;
  }
  const { points, kinds } = await answer.json();
  state.hidden = true;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const colors = COLORS[dark ? "dark" : "light"];
  const names = kinds.length ? [...kinds, "other"] : [];
  document.getElementById("map-kinds").replaceChildren(...names.map((kind, place) => {
    const row = document.createElement("li");
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    dot.setAttribute("viewBox", "0 0 10 10");
    for (const [key, value] of Object.entries({ cx: 5, cy: 5, r: 5, fill: kind === "other" ? colors.at(-1) : colors[place] })) circle.setAttribute(key, value);
    dot.append(circle);
    row.append(dot, kind);
    return row;
  }));
  canvas.map = new ItemMap(canvas, points, kinds);
  canvas.dataset.ready = points.length;
}

showMap(document.getElementById("map"));

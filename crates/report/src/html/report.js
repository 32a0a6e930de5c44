// Draws the time lines of the page: a lane a CPU, a bar a stretch on it, an arrow a wakeup.
// Reads the JSON next to each; needs nothing from anywhere else.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const GUTTER = 62, MARGIN = 26, AXIS = 26, MOST_ARROWS = 150;

  const svg = (name, attributes, parent) => {
    const element = document.createElementNS(NS, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (parent) parent.append(element);
    return element;
  };
  const html = (name, attributes, parent) => {
    const element = Object.assign(document.createElement(name), attributes);
    parent.append(element);
    return element;
  };
  // Neighbours in number are far apart in colour.
  const hue = (task) => `--hue: ${((task * 137.508) % 360).toFixed(1)}`;
  const span = (ns) => {
    const [by, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"];
    return `${+(ns / by).toPrecision(4)} ${unit}`;
  };
  const round = (least) => {
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((one) => one * power >= least);
  };

  class Timeline {
    constructor(box, number) {
      this.box = box;
      this.number = number;
      this.hot = null;
      this.data = JSON.parse(box.querySelector("script").textContent);
      this.from = this.data.from;
      this.to = this.data.to;
      this.lanes = Array.from({ length: this.data.cpus }, () => []);
      for (const stretch of this.data.stretches) (this.lanes[stretch[0]] ||= []).push(stretch);
      // The end of the window adds stretches out of order.
      for (const lane of this.lanes) lane.sort((a, b) => a[2] - b[2]);
      this.lane = this.lanes.length > 16 ? 14 : this.lanes.length > 8 ? 20 : 28;
      this.controls();
      this.frame = html("div", { className: "frame", tabIndex: 0 }, box);
      this.frame.setAttribute("role", "application");
      this.frame.setAttribute("aria-label", `${box.dataset.label}; arrow keys move, plus and minus zoom, 0 shows all`);
      this.about = html("p", { className: "about" }, box);
      this.about.setAttribute("aria-live", "polite");
      this.hints();
      this.listen();
      new ResizeObserver(() => this.draw()).observe(this.frame);
    }

    controls() {
      const bar = html("div", { className: "controls" }, this.box);
      const button = (text, title, action) => {
        const made = html("button", { type: "button", textContent: text, title }, bar);
        made.setAttribute("aria-label", title);
        made.addEventListener("click", action);
      };
      button("\u2212", "zoom out", () => this.zoom(2));
      button("+", "zoom in", () => this.zoom(0.5));
      button("\u2190", "earlier", () => this.move(-0.5));
      button("\u2192", "later", () => this.move(0.5));
      button("all", "show all", () => this.show(this.data.from, this.data.to));
      this.range = html("span", { className: "range" }, bar);
    }

    listen() {
      const keys = {
        ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25),
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => this.show(this.data.from, this.data.to),
      };
      this.frame.addEventListener("keydown", (event) => {
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      });
      this.frame.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.time(event));
      }, { passive: false });
      this.frame.addEventListener("dblclick", (event) => this.zoom(0.25, this.time(event)));
      let drag = null;
      this.frame.addEventListener("pointerdown", (event) => {
        drag = { x: event.clientX, from: this.from, to: this.to };
        this.frame.setPointerCapture(event.pointerId);
      });
      this.frame.addEventListener("pointermove", (event) => {
        if (!drag) return this.point(event);
        const by = ((drag.x - event.clientX) / this.width) * (drag.to - drag.from);
        this.show(drag.from + by, drag.to + by);
      });
      for (const end of ["pointerup", "pointercancel"]) this.frame.addEventListener(end, () => { drag = null; });
    }

    x(time) {
      return GUTTER + ((time - this.from) / (this.to - this.from)) * this.width;
    }

    time(event) {
      const x = event.clientX - this.frame.getBoundingClientRect().left - GUTTER;
      return this.from + (x / this.width) * (this.to - this.from);
    }

    // Any part of the window, at least 100 ns of it.
    show(from, to) {
      const all = this.data.to - this.data.from;
      const length = Math.min(Math.max(to - from, Math.min(100, all)), all);
      this.from = Math.min(Math.max(from, this.data.from), this.data.to - length);
      this.to = this.from + length;
      if (!this.waiting) {
        this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
      }
    }

    zoom(by, around = (this.from + this.to) / 2) {
      this.show(around - (around - this.from) * by, around + (this.to - around) * by);
    }

    move(by) {
      const way = by * (this.to - this.from);
      this.show(this.from + way, this.to + way);
    }

    // The first stretch of a lane that ends after a time.
    first(lane, time) {
      let low = 0, high = lane.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (lane[middle][3] > time) high = middle; else low = middle + 1;
      }
      return low;
    }

    draw() {
      const whole = Math.floor(this.frame.clientWidth);
      this.width = whole - GUTTER - MARGIN;
      if (this.width < 40) return;
      const height = this.lanes.length * this.lane + AXIS;
      const picture = svg("svg", { width: whole, height, role: "img", "aria-label": this.box.dataset.label });
      this.ticks(picture, height);
      this.lanes.forEach((lane, cpu) => this.bars(picture, lane, cpu));
      const arrows = this.arrows(picture);
      // Names stay on top of the arrows.
      for (const [x, y, name] of this.names) svg("text", { class: "name", x, y }, picture).textContent = name;
      this.frame.replaceChildren(picture);
      const hidden = arrows > MOST_ARROWS ? `; ${arrows} wakeups: zoom in to see them as arrows` : "";
      this.range.textContent = `${span(this.from)} to ${span(this.to)}, ${span(this.to - this.from)} long${hidden}`;
    }

    ticks(picture, height) {
      const by = round((this.to - this.from) / Math.max(2, this.width / 110));
      this.names = [];
      for (let at = Math.ceil(this.from / by) * by; at <= this.to; at += by) {
        const x = this.x(at).toFixed(1);
        svg("path", { class: "grid", d: `M${x} 0V${height - AXIS + 5}` }, picture);
        // In one unit, with the digits that tell neighbours apart.
        const [unit, name] = this.to >= 1e9 ? [1e9, "s"] : this.to >= 1e6 ? [1e6, "ms"] : [1e3, "us"];
        const digits = Math.max(0, Math.ceil(Math.log10(unit / by)));
        svg("text", { x, y: height - 6, "text-anchor": "middle" }, picture).textContent =
          `${(at / unit).toFixed(digits)} ${name}`;
      }
    }

    bars(picture, lane, cpu) {
      const y = cpu * this.lane;
      svg("rect", { class: "lane", x: GUTTER, y: y + 1, width: this.width, height: this.lane - 2 }, picture);
      svg("text", { x: GUTTER - 6, y: y + this.lane / 2 + 4, "text-anchor": "end" }, picture).textContent = `CPU ${cpu}`;
      // Stretches that share a pixel are one grey bar.
      let crowd = null;
      const flush = () => {
        if (!crowd) return;
        const width = Math.max(1, crowd.to - crowd.from).toFixed(1);
        svg("rect", { class: "crowd", x: crowd.from.toFixed(1), y: y + 2, width, height: this.lane - 4 }, picture);
        crowd = null;
      };
      for (let at = this.first(lane, this.from); at < lane.length && lane[at][2] < this.to; at++) {
        const [, task, from, to] = lane[at];
        const left = Math.max(this.x(from), GUTTER), right = Math.min(this.x(to), GUTTER + this.width);
        if (right - left < 1) {
          if (crowd && left - crowd.to < 1) crowd.to = right;
          else { flush(); crowd = { from: left, to: right }; }
          continue;
        }
        flush();
        const place = { x: left.toFixed(1), y: y + 2, width: (right - left).toFixed(1), height: this.lane - 4 };
        svg("rect", { class: "bar", style: hue(task), ...place }, picture);
        const name = this.data.names[task];
        if (right - left > name.length * 7 + 6) {
          this.names.push([(left + 4).toFixed(1), y + this.lane / 2 + 4, name]);
        }
      }
      flush();
    }

    // From the lower edge of the waker's lane to that of the wakee's, clear of the names. Those that only pass
    // through are left out: where many wait there are as many of them at any zoom. The one that led to the
    // stretch under the pointer stands out, and is there in any case.
    arrows(picture) {
      const led = (one) => this.hot && one[3] === this.hot[1] && one[5] === this.hot[2];
      const within = (time) => time >= this.from && time < this.to;
      const seen = this.data.wakeups.filter((one) => one[5] >= 0 && (within(one[0]) || within(one[5]) || led(one)));
      const clip = svg("clipPath", { id: `clip${this.number}` }, picture);
      svg("rect", { x: GUTTER - 3, y: 0, width: this.width + 6, height: this.lanes.length * this.lane }, clip);
      const group = svg("g", { class: "arrows", "clip-path": `url(#clip${this.number})` }, picture);
      const edge = (cpu) => (cpu + 1) * this.lane - 5;
      const f = (number) => number.toFixed(1);
      for (const one of seen.length > MOST_ARROWS ? seen.filter(led) : seen) {
        const x0 = this.x(one[0]), x1 = this.x(one[5]), y0 = edge(one[1]), y1 = edge(one[4]);
        const length = Math.hypot(x1 - x0, y1 - y0) || 1;
        const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
        const wing = (side) => `${f(x1 - 6 * ux - 3 * side * uy)} ${f(y1 - 6 * uy + 3 * side * ux)}`;
        const arrow = svg("g", led(one) ? { class: "hot" } : {}, group);
        svg("path", { d: `M${f(x0)} ${f(y0)}L${f(x1)} ${f(y1)}M${wing(1)}L${f(x1)} ${f(y1)}L${wing(-1)}` }, arrow);
        svg("circle", { cx: f(x0), cy: f(y0), r: 2.2 }, arrow);
      }
      return seen.length;
    }

    // Tells of what is under the pointer.
    point(event) {
      const top = this.frame.getBoundingClientRect().top;
      const cpu = Math.floor((event.clientY - top) / this.lane);
      const time = this.time(event);
      const lane = this.lanes[cpu];
      const inside = lane && time >= this.from && time <= this.to;
      const found = inside && lane[this.first(lane, time)];
      const stretch = found && found[2] <= time ? found : null;
      if (stretch !== this.hot) {
        this.hot = stretch;
        this.show(this.from, this.to);
      }
      if (!inside) return this.hints();
      if (!stretch) {
        this.about.textContent = `CPU ${cpu}, ${span(time)}: idle`;
        return;
      }
      const [, task, from, to, end] = stretch;
      let text = `CPU ${cpu}, ${span(from)}: ${this.data.names[task]} runs for ${span(to - from)}, then ${end}`;
      const woken = this.data.wakeups.find((one) => one[3] === task && one[5] === from && one[4] === cpu);
      if (woken) {
        const by = woken[2] < 0 ? "" : ` by ${this.data.names[woken[2]]}`;
        text += `; woken${by} ${span(from - woken[0])} before on CPU ${woken[1]}`;
      }
      this.about.textContent = text;
    }

    hints() {
      this.about.textContent = "Point at a bar to read about it. Drag to move; Ctrl and the wheel, or a double click, to zoom.";
    }
  }

  document.querySelectorAll(".timeline").forEach((box, number) => new Timeline(box, number));
})();

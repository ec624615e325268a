"use strict";
// Flame graphs: a frame is chosen by mouse or keys, fills the width, and names are searched.
(function () {
  const PAD = 7, LETTER = 7.2, LEAST = 24;

  const prepare = (figure) => {
    const svg = figure.querySelector("svg.flame");
    const form = figure.querySelector("form.flame-tools");
    const said = form.querySelector("output.said");
    const found = form.querySelector("output.found");
    const width = svg.viewBox.baseVal.width;
    const frames = Array.from(svg.querySelectorAll("g.frame")).map((element) => {
      const box = element.querySelector("rect");
      return { element, box, label: element.querySelector("text"), words: element.querySelector("title").textContent,
        name: element.dataset.name, x: Number(box.getAttribute("x")), y: Number(box.getAttribute("y")),
        width: Number(box.getAttribute("width")), hidden: false };
    });
    const rows = new Map();
    frames.forEach((frame) => {
      if (!rows.has(frame.y)) rows.set(frame.y, []);
      rows.get(frame.y).push(frame);
    });
    const levels = Array.from(rows.keys()).sort((a, b) => a - b);
    const whole = frames[0];
    const past = [];
    let shown = whole, chosen = whole;
    const holds = (outer, inner) => outer.y <= inner.y && outer.x <= inner.x + 0.3
      && inner.x + inner.width <= outer.x + outer.width + 0.3;

    const fit = (frame, room) => {
      const letters = Math.floor((room - PAD) / LETTER);
      if (room < LEAST) return "";
      return frame.name.length <= letters ? frame.name : frame.name.slice(0, Math.max(letters - 1, 0)) + "…";
    };
    const draw = () => {
      const factor = width / (shown.width + 0.5);
      frames.forEach((frame) => {
        const around = frame.y < shown.y && holds(frame, shown);
        frame.hidden = !around && !holds(shown, frame);
        frame.element.toggleAttribute("hidden", frame.hidden);
        frame.element.classList.toggle("around", around);
        const x = around ? 0 : (frame.x - shown.x) * factor;
        const room = around ? width - 0.5 : Math.max((frame.width + 0.5) * factor - 0.5, 0.4);
        frame.box.setAttribute("x", x);
        frame.box.setAttribute("width", room);
        frame.label.setAttribute("x", x + 3);
        frame.label.textContent = fit(frame, room);
      });
      form.elements.back.disabled = shown === whole;
    };
    const choose = (frame, focus) => {
      chosen.element.setAttribute("tabindex", "-1");
      chosen = frame;
      chosen.element.setAttribute("tabindex", "0");
      said.textContent = frame.words;
      if (focus) frame.element.focus();
    };
    const zoom = (frame) => {
      if (frame === shown) return;
      past.push(shown);
      shown = frame;
      draw();
      choose(frame, true);
    };
    const back = (all) => {
      if (!past.length) return;
      const from = shown;
      shown = all ? whole : past.pop();
      if (all) past.length = 0;
      draw();
      choose(from, true);
    };

    const near = (frame, key) => {
      const level = levels.indexOf(frame.y);
      const here = rows.get(frame.y).filter((other) => !other.hidden);
      if (key === "ArrowLeft" || key === "ArrowRight") return here[here.indexOf(frame) + (key === "ArrowLeft" ? -1 : 1)];
      if (key === "ArrowUp") return level > 0 ? rows.get(levels[level - 1]).find((other) => holds(other, frame)) : undefined;
      const below = (rows.get(levels[level + 1]) || []).filter((other) => !other.hidden && holds(frame, other));
      return below.reduce((most, other) => (!most || other.width > most.width ? other : most), undefined);
    };
    const search = () => {
      const wanted = form.elements.words.value.trim().toLowerCase();
      let count = 0, covered = 0, end = -1;
      frames.forEach((frame) => {
        frame.hit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
        frame.element.classList.toggle("hit", frame.hit);
        count += frame.hit ? 1 : 0;
      });
      // A frame below another hit is part of it.
      frames.filter((frame) => frame.hit).sort((a, b) => a.x - b.x || a.y - b.y).forEach((frame) => {
        if (frame.x + 0.3 < end) return;
        covered += frame.width + 0.5;
        end = frame.x + frame.width;
      });
      svg.classList.toggle("searched", wanted !== "");
      found.textContent = wanted ? count + " frames, " + (100 * covered / (whole.width + 0.5)).toFixed(1) + " % of all" : "";
    };

    frames.forEach((frame) => {
      frame.element.setAttribute("tabindex", frame === whole ? "0" : "-1");
      frame.element.setAttribute("role", "button");
      frame.element.addEventListener("click", () => zoom(frame));
      frame.element.addEventListener("focus", () => choose(frame, false));
      frame.element.addEventListener("mouseenter", () => { said.textContent = frame.words; });
      frame.element.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.altKey || event.metaKey) return;
        if (event.key === "Enter" || event.key === " ") zoom(frame);
        else if (event.key.startsWith("Arrow")) {
          const next = near(frame, event.key);
          if (next) choose(next, true);
        } else return;
        event.preventDefault();
      });
    });
    figure.addEventListener("keydown", (event) => {
      const field = form.elements.words;
      if (event.key === "Escape") {
        if (event.target === field && field.value) { field.value = ""; search(); } else back(false);
      } else if (event.key === "/" && event.target !== field) field.focus();
      else return;
      event.preventDefault();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const first = frames.find((frame) => frame.hit && !frame.hidden);
      if (first) choose(first, true);
    });
    form.elements.words.addEventListener("input", search);
    form.elements.back.addEventListener("click", () => back(true));
    if (form.elements.colours) {
      form.elements.colours.addEventListener("click", () => {
        svg.classList.toggle("by-kind");
        svg.classList.toggle("by-difference");
      });
    }
    form.hidden = false;
  };
  document.querySelectorAll("figure.flames").forEach(prepare);
})();

/* Loads rows as they come into view, draws the timeline, and lets the keyboard do what the mouse can. */
(() => {
  "use strict";
  const rows = document.getElementById("rows");
  const height = (name) => parseFloat(getComputedStyle(document.documentElement).getPropertyValue(name)) *
    parseFloat(getComputedStyle(document.documentElement).fontSize);

  // A chunk has its final height before it has its rows, so nothing ever moves.
  const chunks = rows ? [...rows.querySelectorAll(".chunk")] : [];
  const reserve = () => {
    const whole = height("--row"), low = height("--low");
    chunks.forEach(({ dataset, style }) => { style.minHeight = `${(dataset.n - dataset.low) * whole + dataset.low * low}px`; });
  };
  const loading = new Map();
  const load = async (chunk) => {
    if (chunk.dataset.loaded) { await loading.get(chunk); return; }
    chunk.dataset.loaded = "1";
    loading.set(chunk, htmx.ajax("GET", chunk.dataset.src, { source: chunk, target: chunk, swap: "innerHTML" }));
    await loading.get(chunk);
  };
  const watcher = "IntersectionObserver" in window && new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) { watcher.unobserve(entry.target); load(entry.target); }
  }, { rootMargin: "900px" });

  const focusRow = (row) => {
    document.querySelectorAll(".row.here").forEach((old) => old.classList.remove("here"));
    row.classList.add("here");
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const goTo = async (number) => {
    const chunk = chunks.find((one) => number >= +one.dataset.start && number < +one.dataset.start + +one.dataset.n);
    if (!chunk) return;
    await load(chunk);
    const row = chunk.querySelector(`[data-number="${number}"]`);
    if (row) { row.scrollIntoView({ block: "center" }); focusRow(row); }
  };

  const start = () => {
    reserve();
    addEventListener("resize", reserve);
    chunks.forEach((chunk) => watcher ? watcher.observe(chunk) : load(chunk));
    if (rows && +rows.dataset.place >= 0) goTo(+rows.dataset.place);
    draw();
  };

  // -- keyboard ---------------------------------------------------------------------------------
  const move = (by) => {
    if (rows) {
      const here = document.querySelector(".row.here");
      goTo(Math.min(Math.max((here ? +here.dataset.number : -1) + by, 0), +rows.dataset.count - 1));
      return;
    }
    const links = [...document.querySelectorAll("a.move")];
    const next = links[Math.min(Math.max(links.indexOf(document.activeElement) + by, 0), links.length - 1)];
    if (next) next.focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const here = document.querySelector(".row.here");
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") {
      event.preventDefault();
      const box = document.getElementById("q");
      if (box) box.focus(); else location.href = "/ctx/#q";
    } else if (here && (event.key === "e" || (event.key === "Enter" && event.target === here))) {
      const button = here.querySelector(".more");
      if (button) button.click();
    }
  });
  addEventListener("htmx:load", (event) => {
    const row = event.detail.elt;
    if (row && row.classList && row.classList.contains("row") && row.classList.contains("open")) focusRow(row);
  });

  // -- timeline ---------------------------------------------------------------------------------
  const draw = async () => {
    const box = document.getElementById("timeline");
    if (!box) return;
    const reply = await fetch(box.dataset.src, { credentials: "same-origin" });
    if (!reply.ok) return;
    const { calls, folds, limits } = await reply.json();
    const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const column = (name) => calls.map((call) => call[name]);
    const breaks = calls.flatMap((call, i) => call.breaks ? [i + 1] : []);
    const most = Math.max(1, ...column("input"), ...column("tokens_in"));
    const lines = Object.entries(limits).filter(([, value]) => value && value <= most * 4);
    const top = Math.max(most, ...lines.map(([, value]) => value)) * 1.08;
    const marks = (u) => {
      const ctx = u.ctx, { left, top: t, width, height } = u.bbox;
      ctx.save();
      ctx.font = `${11 * devicePixelRatio}px system-ui`;
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      const drawn = []; // labels of lines that lie close stand beside each other
      lines.forEach(([name, value]) => {
        const y = u.valToPos(value, "y", true);
        ctx.strokeStyle = ctx.fillStyle = name === "cliff" ? "#dc2626" : css("--dim");
        ctx.setLineDash([6, 4]);
        ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(left + width, y); ctx.stroke();
        const label = `${name.replaceAll("_", " ")} ${value.toLocaleString("en")}`;
        const near = drawn.filter((one) => Math.abs(one.y - y) < 14 * devicePixelRatio).map((one) => one.end);
        const x = Math.max(left, ...near) + 8 * devicePixelRatio;
        const wide = ctx.measureText(label).width, ink = ctx.fillStyle;
        ctx.fillStyle = css("--bg"); // so that no other line strikes it out
        ctx.fillRect(x - 2, y - 4 - 10 * devicePixelRatio, wide + 4, 13 * devicePixelRatio);
        ctx.fillStyle = ink;
        ctx.fillText(label, x, y - 4);
        drawn.push({ y, end: x + wide });
      });
      const upright = (places, colour, letter) => places.forEach((x) => {
        const at = u.valToPos(x, "x", true);
        ctx.strokeStyle = ctx.fillStyle = colour;
        ctx.setLineDash(letter === "fold" ? [] : [2, 3]);
        ctx.beginPath(); ctx.moveTo(at, t); ctx.lineTo(at, t + height); ctx.stroke();
        if (places.length < 30) ctx.fillText(letter, at + 3, t + height - (letter === "fold" ? 6 : 20) * devicePixelRatio);
      });
      upright(breaks, "#d97706", "break");
      upright(folds.map((i) => i + 1), css("--folded"), "fold");
      ctx.restore();
    };
    const isPriced = column("cost").some((value) => value != null);
    const axis = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
    const plot = new uPlot({
      width: box.clientWidth, height: 220, cursor: { y: false },
      scales: { x: { time: false }, y: { range: [0, top] }, $: { range: (u, min, max) => [0, (max || 0.001) * 1.1] } },
      axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] }, { ...axis, size: 70, values: (u, all) => all.map((v) => v >= 1000 ? `${v / 1000}K` : v) },
        { ...axis, show: isPriced, scale: "$", side: 1, grid: { show: false }, values: (u, all) => all.map((v) => `$${+v.toFixed(4)}`) }],
      series: [{ label: "call" },
        { label: "from client", stroke: css("--absent"), dash: [5, 4] },
        { label: "billed input", stroke: css("--accent"), fill: "#0b62d622", points: { show: calls.length < 80 } },
        { label: "cached", stroke: css("--full") },
        { label: "cost", scale: "$", stroke: css("--excerpt"), value: (u, v) => v == null ? "no price" : `$${v.toFixed(4)}` }],
      hooks: { draw: [marks] },
    }, [calls.map((_, i) => i + 1), column("tokens_in"), column("input"), column("cached"), column("cost")], box);
    addEventListener("resize", () => plot.setSize({ width: box.clientWidth, height: 220 }));
    plot.over.addEventListener("dblclick", () => {
      const call = calls[plot.cursor.idx];
      if (call && call.window) location.href = `/ctx/w/${encodeURIComponent(call.window)}`;
    });
    box.dataset.drawn = String(calls.length);
    box.dataset.marks = JSON.stringify({ breaks, folds, lines });
  };

  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start); else start();
})();

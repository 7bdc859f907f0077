// SPDX-License-Identifier: Apache-2.0
// What the browser drew, read from the drawn page itself.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  // Any colour as [r, g, b, a], by drawing it.
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "rgba(0,0,0,0)";
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const luminance = ([r, g, b]) => {
    const line = [r, g, b].map((one) => {
      const share = one / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2];
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility === "visible";
  };
  const words = (element) => element.textContent.trim().slice(0, 40);
  const meets = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;

  // Text of the page and of the charts with too little contrast to what is behind it.
  const faintTexts = () =>
    [...document.querySelectorAll("body *")]
      .filter((one) => [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
      .filter((one) => one.tagName !== "title" && shown(one))
      .map((one) => {
        const style = getComputedStyle(one);
        const ink = parse(one.namespaceURI.endsWith("svg") ? style.fill : style.color);
        return [contrast(ink, behind(one)), words(one)];
      })
      .filter(([ratio]) => ratio < 4.5);

  // Each chart: its size, its lines and marks with their contrast, and texts that overlap each other or a mark.
  const charts = () =>
    [...document.querySelectorAll("figure.chart")].map((figure) => {
      const drawing = figure.querySelector("svg");
      const box = drawing.getBoundingClientRect();
      const back = behind(figure);
      const parts = [...drawing.querySelectorAll('[id*="-line-"] path, [id*="-mark-"] use')];
      const texts = [...drawing.querySelectorAll("text")];
      const marks = [...drawing.querySelectorAll('[id*="-mark-"] use')];
      const overlaps = [];
      texts.forEach((one, index) => {
        [...texts.slice(index + 1), ...marks].forEach((other) => {
          if (meets(one.getBoundingClientRect(), other.getBoundingClientRect())) {
            overlaps.push([words(one), words(other)]);
          }
        });
      });
      return {
        title: figure.querySelector("figcaption").textContent,
        width: box.width,
        height: box.height,
        label: drawing.getAttribute("aria-label") || "",
        role: drawing.getAttribute("role"),
        marks: drawing.querySelectorAll('[id*="-mark-"]').length,
        text: texts.map(words),
        contrasts: parts.map((one) => contrast(parse(getComputedStyle(one).stroke), back)),
        outside: [...parts, ...texts].filter((one) => {
          const at = one.getBoundingClientRect();
          return at.left < box.left - 1 || at.right > box.right + 1 ||
            at.top < box.top - 1 || at.bottom > box.bottom + 1;
        }).map(words),
        overlaps,
      };
    });

  // Tables: row and figure by setting, point and metric, as they are read on the page.
  const figures = () =>
    [...document.querySelectorAll("tr[data-point]")].flatMap((row) =>
      [...row.querySelectorAll("[data-metric], [data-gain]")].map((cell) => [
        row.dataset.setting,
        row.dataset.point,
        cell.dataset.metric || "gain",
        cell.textContent.trim(),
      ])
    );

  // What reaches further to the right than the window, but for what scrolls in a box of its own.
  const wide = () =>
    [...document.querySelectorAll("body *")]
      .filter((one) => !one.parentElement.closest(".scroll, svg") && shown(one))
      .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .map((one) => `${one.tagName} ${words(one)}`);

  return { faintTexts, charts, figures, wide };
})()

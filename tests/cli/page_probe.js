/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put into a copy of a page of `sluice report --html` by test_report_page.sh. It looks at what the
 * browser has made of the page, and leaves what is wrong in the attribute "data-wrong" of the body.
 */
"use strict";
addEventListener("load", () => {
	const wrong = [];
	const told = performance.getEntriesByType("resource").map((e) => e.name);
	const pictures = [...document.querySelectorAll("svg")];

	for (const name of told)
		if (!name.startsWith("data:"))
			wrong.push("asks for " + name);
	if (pictures.length < PICTURES)
		wrong.push(pictures.length + " pictures");
	for (const svg of pictures) {
		const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
		const name = svg.getAttribute("aria-label");
		const texts = [...svg.querySelectorAll("text")];

		if (box.width < 600 || box.height < 120)
			wrong.push(name + ": " + box.width + " x " + box.height);
		if (!svg.querySelector("path.fill, path.line"))
			wrong.push(name + ": nothing is drawn");
		for (const text of texts) {
			const at = text.getBoundingClientRect();

			if (at.width < 1 || at.left < box.left - 1 || at.right > box.right + 1 ||
			    at.top < box.top - 1 || at.bottom > box.bottom + 1)
				wrong.push(name + ": '" + text.textContent + "' is cut");
		}
		for (let i = 0; i < texts.length; i++)
			for (let k = 0; k < i; k++) {
				const a = texts[i].getBoundingClientRect();
				const b = texts[k].getBoundingClientRect();

				if (a.left < b.right - 1 && b.left < a.right - 1 &&
				    a.top < b.bottom - 3 && b.top < a.bottom - 3)
					wrong.push(name + ": '" + texts[i].textContent +
						   "' lies on '" + texts[k].textContent + "'");
			}
	}
	if (document.documentElement.scrollWidth > innerWidth)
		wrong.push("the page is wider than the window: " +
			   document.documentElement.scrollWidth + " of " + innerWidth);
	for (const e of document.querySelectorAll("h1, h2, h3, p, li, td, th"))
		if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline")
			wrong.push("'" + e.textContent.slice(0, 40) + "' is cut");
	for (const e of document.querySelectorAll("h1, p, td")) {
		const style = getComputedStyle(e);

		if (style.color === getComputedStyle(document.body).backgroundColor)
			wrong.push("'" + e.textContent.slice(0, 40) + "' cannot be seen");
	}
	document.body.setAttribute("data-wrong", wrong.join("; ") || "none");
});

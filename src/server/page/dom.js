// SPDX-License-Identifier: Apache-2.0
// Elements without HTML strings: what a model says can only ever become text.

// element("p", {class: "x", onclick: f}, "text", child, …); undefined and false children are left out.
export function element(tag, attributes = {}, ...children) {
	const made = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
		else if (value === true) made.setAttribute(name, "");
		else if (value !== false && value !== undefined) made.setAttribute(name, value);
	}
	made.append(...children.filter((child) => child !== undefined && child !== false));
	return made;
}

export function svg(tag, attributes = {}, ...children) {
	const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
	made.append(...children);
	return made;
}

export const find = (id) => document.getElementById(id);

// For those who do not see the page.
export function say(text) {
	find("status").textContent = text;
}

// The clipboard of the browser is there on https and localhost only; elsewhere the old way.
async function copy(text) {
	if (navigator.clipboard) return navigator.clipboard.writeText(text);
	const area = element("textarea", { class: "unseen" });
	area.value = text;
	document.body.append(area);
	area.select();
	const done = document.execCommand("copy");
	area.remove();
	if (!done) throw new Error("not copied");
}

export function copyButton(text) {
	const button = element("button", { type: "button", class: "small" }, "Copy");
	button.addEventListener("click", async () => {
		try {
			await copy(typeof text === "function" ? text() : text);
			button.textContent = "Copied";
			say("Copied");
		} catch {
			button.textContent = "Not copied";
		}
		setTimeout(() => (button.textContent = "Copy"), 1500);
	});
	return button;
}
